"""Reading members out of JSON whose shape nobody has checked.

A path names members from the outside in, joined by dots; `[]` after a name stands for every item
of that array (`toolRequests[].toolCallId`). Nothing here raises: what is not there is not found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final, cast

__all__ = ["MAX_ITEMS", "MAX_KEY_BYTES", "key_part", "member", "members"]

MAX_KEY_BYTES: Final = 256
"""Ids above this are hashed where they become part of a key, so that keys stay short in Redis."""

MAX_ITEMS: Final = 1_024
"""Items of one array that a path looks at; no real event comes near it, and a script's arguments
must stay countable."""


def member(value: object, path: str) -> object:
    """Return what stands at `path` (without `[]`) below `value`, None where there is nothing."""
    for name in path.split("."):
        # A dict nearly always; asking for it first spares the slow check of an abstract class.
        if not isinstance(value, dict) and not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(name)
    return value


def members(value: object, path: str) -> Iterator[object]:
    """Yield what stands at `path` below `value`, once per item where the path has `[]`."""
    head, bracket, rest = path.partition("[]")
    found = member(value, head)
    if not bracket:
        yield found
    elif isinstance(found, list):
        for item in cast("list[object]", found)[:MAX_ITEMS]:
            yield from members(item, rest.removeprefix("."))


def key_part(value: object) -> str:
    """Spell an id as a part of a key that is joined with `|`.

    Returns: "" for anything but a string that is not empty; otherwise at most `MAX_KEY_BYTES` bytes
    of UTF-8 without a bare `|`, the same for equal ids and different for different ones.
    """
    if not isinstance(value, str):
        return ""
    if "|" in value or "%" in value:
        value = value.replace("%", "%25").replace("|", "%7C")
    if value.isascii() and len(value) <= MAX_KEY_BYTES:
        return value
    # A JSON text may spell a lone surrogate, which has no UTF-8: it is hashed like a long id.
    encoded = value.encode(errors="surrogatepass")
    if len(encoded) <= MAX_KEY_BYTES and not any("\ud800" <= char <= "\udfff" for char in value):
        return value
    return "%#" + hashlib.blake2b(encoded, digest_size=16).hexdigest()
