"""Cutting bodies into the bytes of their values (protocol.md §3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_server.raw_json import cut, fit_for_a_line, parse, split
from tests.server.conftest import error_of

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
INDENTS = st.sampled_from([None, 0, 2, "\t"])


def read(body: bytes) -> list[Any]:
    return [parse(raw) for raw in split(body)]


@given(st.lists(VALUES, max_size=6), INDENTS, st.booleans())
def test_items_of_an_array_keep_their_bytes(items: list[Any], indent: Any, ascii: bool) -> None:
    texts = [json.dumps(item, indent=indent, ensure_ascii=ascii) for item in items]
    body = ("\n[ " + " ,\r\n".join(texts) + "\t]  ").encode()
    assert split(body) == [text.encode() for text in texts]


@given(VALUES, INDENTS, st.booleans())
def test_a_value_made_fit_for_a_line_says_the_same(value: Any, indent: Any, ascii: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    line = fit_for_a_line(raw)
    assert parse(line) == value
    assert len(line.decode().splitlines()) <= 1


@pytest.mark.parametrize("text", ["\u0085", "\u2028", "\u2029", "\\\u2028", "é\u2028漢\u0085"])
def test_characters_that_end_a_line_for_some_are_escaped(text: str) -> None:
    raw = json.dumps({text: [text]}, ensure_ascii=False).encode()
    line = fit_for_a_line(raw)
    assert line.isascii() or len(line.decode().splitlines()) == 1
    assert json.loads(line) == {text: [text]}


@pytest.mark.parametrize(
    "text", ["1.50", "1E+2", "-0", "12345678901234567890", "1e999", "9" * 5000]
)
def test_numbers_keep_their_spelling(text: str) -> None:
    (raw,) = split(f'{{"n": {text}}}'.encode())
    assert raw == f'{{"n": {text}}}'.encode()
    assert list(parse(raw)) == ["n"]


@pytest.mark.parametrize(
    ("body", "offset", "index"),
    [
        (b"", 0, None),
        (b"   ", 0, None),
        (b"nonsense", 4, None),
        (b'{"a":', 5, None),
        (b'{"a": 1} x', 10, None),
        (b'{"a": NaN}', 6, None),
        (b'{"a": "\xff"}', 7, None),
        (b"\xef\xbb\xbf{}", 0, None),
        (b' \n{"a": "\x01"}', 9, None),
        (b'["a", "\x01"]', 7, 1),
        (b'[{}, {"a": tru}]', 12, 1),
        (b"[1, 2", 5, 1),
        (b"[1, 2,]", 6, 2),
        (b'[{"a": "\xc3\xa9"}, 01]', 15, 1),
        (b'[{}, {}, "\xff"]', 10, 2),
        (b'["x", "\\ud83d\\ude00", "\\ude00"]', 23, 2),
        (b'{"a": "\\ud83d"}', 7, None),
        (b'{"a": "\\ud83d\\n"}', 7, None),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_malformed_body_names_byte_and_event(body: bytes, offset: int, index: int | None) -> None:
    error = error_of(lambda: read(body))
    assert error is not None
    assert (error.status, error.code) == (400, "malformed_json")
    assert error.extra["offset"] == offset
    assert error.extra.get("index") == index


@pytest.mark.parametrize(
    "rest",
    [b"NaN", b"-Infinity", b'"\\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b'"a\nb"', b"tru", b"[1,]"],
)
@pytest.mark.parametrize("number", [b"1e999", b"9" * 5000, b"123456789012345678901234567890"])
def test_nothing_that_is_no_json_passes_behind_a_number_beyond_all(
    number: bytes, rest: bytes
) -> None:
    body = b'{"n": %b, "rest": %b}' % (number, rest)
    error = error_of(lambda: parse(body))
    assert error is not None
    assert (error.status, error.code) == (400, "malformed_json")
    assert 0 <= error.extra["offset"] <= len(body)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 5_000, b"[" * 2_000 + b"]" * 2_000])
def test_deep_nesting_is_an_error_not_a_crash(body: bytes) -> None:
    error = error_of(lambda: read(body))
    assert error is not None
    assert error.code == "malformed_json"


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    error = error_of(lambda: read(body))
    if error is not None:
        assert error.status == 400
        assert 0 <= error.extra["offset"] <= len(body)


def test_cutting_leaves_everything_else_as_it_was() -> None:
    raw = b'{"a": 1.50, "b": {"secret": "s", "x": [1 , 2]}, "c": "\\u00e9"}'
    assert cut(raw, ("b", "secret")) == b'{"a":1.50,"b":{"x":[1 , 2]},"c":"\\u00e9"}'
    assert json.loads(cut(raw, ("nothing", "there"))) == json.loads(raw)


def test_cutting_finds_what_a_repeated_name_hides() -> None:
    raw = b'{"b": {"secret": "hidden"}, "b": {"x": 1, "secret": 1, "secret": 2}}'
    assert cut(raw, ("b", "secret")) == b'{"b":{"x":1}}'
