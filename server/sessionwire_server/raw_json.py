"""JSON as it came over the wire: where its values lie, and where it is broken (protocol.md §3).

An event is stored as its producer wrote it, so a body is cut into the bytes of its values and never
written anew. What makes a text unfit for a line (raw line breaks between tokens, and the three
characters that some readers take for one) is put right without changing what it says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import msgspec

from sessionwire_server.errors import HubError

__all__ = ["cut", "fit_for_a_line", "parse", "split"]

_WHITESPACE: Final = b" \t\r\n"
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_SPACES: Final = re.compile(r"[ \t\r\n]*")
_ESCAPES: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)")
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_ANY: Final = msgspec.json.Decoder()

_BREAKS: Final = (
    (b"\xc2\x85", b"\\u0085"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)
"""UTF-8 of the characters that are line breaks to Python's `splitlines` and to old JavaScript. They
stand only inside strings, and no other character's bytes contain theirs."""

_LONE_SURROGATE: Final = "half a surrogate pair, which is no character"

_MAX_INT_DIGITS: Final = 400
"""Longer ones are beyond any double, and Python refuses to read those above 4,300 digits."""


def split(body: bytes) -> list[bytes]:
    """Cut a body into its events: the items of an array, or the one value.

    Raises:
        HubError: 400 `malformed_json` with `offset` in bytes, and `index` in an array.
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as exc:
            raise _malformed(body, exc.start, "not UTF-8") from None
    text = body.strip(_WHITESPACE)
    try:
        if not text.startswith(b"["):
            if not body.startswith(text[:1] or b" "):
                # Whoever reads it later would count from the wrong byte.
                _RAW.decode(text)
            return [text]
        return [bytes(raw) for raw in _LIST.decode(text)]
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _fault(body, exc) from None


def parse(raw: bytes) -> Any:
    """Read one value of a body that `split` has cut.

    Returns: the value; numbers beyond a double are infinite here, which changes nothing about what
        is stored.

    Raises:
        HubError: 400 `malformed_json` with `offset` in bytes.
    """
    try:
        return _ANY.decode(raw)
    except msgspec.ValidationError:
        # A number that JSON allows and msgspec cannot hold; it has not looked at what follows.
        return _parse_with_any_number(raw)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _fault(raw, exc) from None


def _parse_with_any_number(raw: bytes) -> Any:
    """Read a value with the standard library, which takes more than JSON unless told not to."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as exc:
        raise _malformed(raw, exc.start, "not UTF-8") from None
    lone = _lone_surrogate(raw)
    if lone is not None:
        raise _malformed(raw, lone, _LONE_SURROGATE)
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_refuse)
    except json.JSONDecodeError as exc:
        raise _malformed(raw, len(text[: exc.pos].encode()), exc.msg) from None
    except (ValueError, RecursionError) as exc:
        raise _malformed(raw, 0, str(exc)) from None


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float(digits)


def fit_for_a_line(raw: bytes) -> bytes:
    """Make a JSON text one line for every reader: the same value, the same spellings."""
    if b"\n" in raw or b"\r" in raw:
        # JSON has them only between tokens: inside a string they must be escaped.
        raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
    if not raw.isascii():
        for character, escape in _BREAKS:
            if character in raw:
                raw = raw.replace(character, escape)
    return raw


def cut(raw: bytes, path: Sequence[str]) -> bytes:
    """Cut a member out of an object, also where it stands there twice.

    Values keep their bytes. Members that a repeated name hides go too: what no reader sees must not
    keep what is cut.
    """
    members = _MEMBERS.decode(raw)
    name, *rest = path
    if not rest:
        members.pop(name, None)
    elif name in members and bytes(members[name]).startswith(b"{"):
        members[name] = msgspec.Raw(cut(bytes(members[name]), rest))
    return b"{%s}" % b",".join(
        b"%s:%s" % (msgspec.json.encode(name), bytes(value)) for name, value in members.items()
    )


def _fault(body: bytes, exc: Exception) -> HubError:
    if isinstance(exc, RecursionError):
        return _malformed(body, 0, "nested too deeply")
    lone = _lone_surrogate(body)
    if lone is not None:
        return _malformed(body, lone, _LONE_SURROGATE)
    stripped = len(body) - len(body.lstrip(_WHITESPACE))
    match = _BYTE.search(str(exc))
    offset = len(body) if match is None else stripped + int(match[1])
    detail = _BYTE.sub("", str(exc)).removeprefix("JSON is malformed:").strip()
    return _malformed(body, offset, detail)


def _malformed(body: bytes, offset: int, detail: str) -> HubError:
    index = _index_at(body, offset)
    if index is None:
        text = f"malformed JSON at byte {offset}: {detail}"
        return HubError(400, "malformed_json", text, offset=offset)
    text = f"malformed JSON at event {index}, byte {offset}: {detail}"
    return HubError(400, "malformed_json", text, offset=offset, index=index)


def _lone_surrogate(body: bytes) -> int | None:
    """Return where the first `\\uD800` to `\\uDFFF` stands without its other half."""
    high_end = -1
    for match in _ESCAPES.finditer(body):
        code = int(match[1], 16) if match[1] else 0
        is_low = 0xDC00 <= code <= 0xDFFF
        if high_end >= 0 and not (is_low and match.start() == high_end):
            return high_end - 6
        if is_low and high_end < 0:
            return match.start()
        high_end = match.end() if 0xD800 <= code <= 0xDBFF else -1
    return high_end - 6 if high_end >= 0 else None


def _index_at(body: bytes, offset: int) -> int | None:
    """Return which item of an array a fault at a byte lies in; None for no array.

    Walks the items before it with the standard library, which tells where each one ends.
    """
    text = body.decode(errors="replace")
    start = _SPACES.match(text)
    place = start.end() if start is not None else 0
    if not text.startswith("[", place):
        return None
    decoder = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse)
    place = _after_spaces(text, place + 1)
    index, counted, measured = 0, 0, 0
    while True:
        try:
            _, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return index
        measured += len(text[counted:end].encode())
        counted = end
        place = _after_spaces(text, end)
        if measured > offset or not text.startswith(",", place):
            return index
        place = _after_spaces(text, place + 1)
        index += 1


def _after_spaces(text: str, place: int) -> int:
    match = _SPACES.match(text, place)
    return match.end() if match is not None else place


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
