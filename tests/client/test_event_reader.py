"""Reading events from JSON and NDJSON, however it comes in."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire._event_reader import EventReader, MalformedEvents, ReadEvent


def read(text: str | bytes, *, cuts: list[int] | None = None) -> list[ReadEvent]:
    data = text.encode() if isinstance(text, str) else text
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts or [])})
    reader = EventReader()
    events = [e for a, b in itertools.pairwise(places) for e in reader.feed(data[a:b])]
    return [*events, *reader.finish()]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=6)
SHAPES = ("lines", "array", "pretty lines", "pretty array")


def spelled(objects: list[dict[str, Any]], shape: str) -> str:
    indent = 2 if "pretty" in shape else None
    if "array" in shape:
        return json.dumps(objects, indent=indent, ensure_ascii=False)
    return "\n".join(json.dumps(each, indent=indent, ensure_ascii=False) for each in objects)


@given(objects=OBJECTS, shape=st.sampled_from(SHAPES), cuts=st.lists(st.integers(0, 300)))
def test_any_shape_cut_anywhere_gives_the_same_objects(
    objects: list[dict[str, Any]], shape: str, cuts: list[int]
) -> None:
    text = spelled(objects, shape)
    events = read(text, cuts=cuts)
    assert [event.members for event in events] == objects
    # As written: no spelling changes on the way.
    assert all(event.body in text for event in events)


def test_numbers_keep_their_spelling() -> None:
    assert [event.body for event in read('[{"n": 1.10}, {"n":1e3}]')] == [
        '{"n": 1.10}',
        '{"n":1e3}',
    ]


def test_lines_are_counted_from_one() -> None:
    assert [event.line for event in read('{}\n\n{"a":\n1}\r\n{}')] == [1, 3, 5]


def test_a_byte_order_mark_is_no_content() -> None:
    assert [event.members for event in read(b"\xef\xbb\xbf{}")] == [{}]


def test_a_line_is_given_as_soon_as_it_is_whole() -> None:
    reader = EventReader()
    assert reader.feed(b'{"type": "a') == []
    assert [event.members for event in reader.feed(b'b"}\n{"ty')] == [{"type": "ab"}]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param('{}\n{"a" 1}\n{}', 2, "':'", id="a broken line"),
        pytest.param('{}\n{"a": 1', 2, "delimiter", id="cut short"),
        pytest.param('{}\n{"a": "x\ny"}', 2, "control character", id="a line break in a string"),
        pytest.param("[{}\n,\n", 3, "array does not end", id="an open array"),
        pytest.param("[{}]\n{}", 2, "follows the array", id="more after the array"),
        pytest.param("[{} {}]", 1, "expected an object", id="no comma"),
        pytest.param("\n17", 2, "expected an object, got '1'", id="a number"),
        pytest.param("[[{}]]", 1, "expected an object", id="nested arrays"),
        pytest.param(b'{}\n{"a": "\xff"}', 2, "not UTF-8", id="not UTF-8"),
        pytest.param(b'{"a": "\xc3', 1, "not UTF-8", id="UTF-8 cut short"),
        pytest.param('{"a":' + "[" * 100_000, 1, "nested too deeply", id="too deep"),
    ],
)
def test_what_is_no_event_is_named_with_its_line(text: str | bytes, line: int, reason: str) -> None:
    with pytest.raises(MalformedEvents, match=reason) as caught:
        read(text)
    assert caught.value.line == line


def test_a_fault_is_found_before_the_rest_is_read() -> None:
    reader = EventReader()
    with pytest.raises(MalformedEvents, match="line 1"):
        reader.feed(b'{"a" 1}\n' + b'{"type": "user.message"}\n' * 10)


def test_an_event_above_the_bound_is_refused() -> None:
    reader = EventReader(max_event_chars=1_000)
    with pytest.raises(MalformedEvents, match="over 1000 characters"):
        reader.feed(b'{"a": "' + b"x" * 2_000)


def test_empty_input_is_no_event() -> None:
    assert read("") == read(" \n\n") == read("[]") == []
