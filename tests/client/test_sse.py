"""The decoder against WHATWG HTML §9.2.6, and against any way of cutting the bytes."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire._sse import ServerSentEvent, SSEDecoder
from sessionwire.errors import EventTooLarge


def decode(stream: bytes) -> list[tuple[str, str, str]]:
    return [(e.type, e.data, e.last_event_id) for e in SSEDecoder().feed(stream)]


def reference(stream: bytes) -> tuple[list[ServerSentEvent], str, int | None]:
    """The specification's steps over the whole stream at once, letter by letter."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _unfinished = re.split("\r\n|\r|\n", text)
    events: list[ServerSentEvent] = []
    data = type_ = id_buffer = last_id = ""
    retry: int | None = None
    for line in lines:
        name, colon, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if line == "":
            last_id = id_buffer
            if data:
                events.append(ServerSentEvent(type_ or "message", data[:-1], last_id))
            data = type_ = ""
        elif colon and name == "":
            continue
        elif name == "data":
            data += value + "\n"
        elif name == "event":
            type_ = value
        elif name == "id" and "\0" not in value:
            id_buffer = value
        elif name == "retry" and re.fullmatch("[0-9]+", value):
            retry = int(value)
    return events, last_id, retry


WORDS = st.sampled_from(
    [
        *(b"data", b"event", b"id", b"retry", b"other", b":", b": ", b" ", b"\n", b"\r", b"\r\n"),
        *(b"\n\n", b"\0", b"7", b"x", b"{}", "é".encode(), "語".encode(), "\u2028".encode()),
        *(b"\xff", b"\xe2\x82", b"\xef\xbb\xbf", b"data: a\n", b"id: 5\n", b"retry: 10\n"),
    ]
)
STREAMS = st.lists(WORDS, max_size=60).map(b"".join) | st.binary(max_size=200)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 400), max_size=30))
def test_any_chunking_decodes_as_the_specification_says(stream: bytes, cuts: list[int]) -> None:
    decoder = SSEDecoder()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    events: list[ServerSentEvent] = []
    for start, end in itertools.pairwise(places):
        events += decoder.feed(stream[start:end])
    assert (events, decoder.last_event_id, decoder.retry_ms) == reference(stream)


@given(stream=STREAMS)
def test_byte_by_byte_decodes_as_the_specification_says(stream: bytes) -> None:
    decoder = SSEDecoder()
    events = [event for byte in stream for event in decoder.feed(bytes([byte]))]
    assert (events, decoder.last_event_id, decoder.retry_ms) == reference(stream)


A = [("message", "a", "")]
ODD = "a\u2028b\u0085c\x0bd"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\n", A, id="plain"),
        pytest.param(b"data:a\r\rid:1\rdata:b\r\n\r\n", [*A, ("message", "b", "1")], id="returns"),
        pytest.param(b"data: a\ndata:\ndata:  b\n\n", [("message", "a\n\n b", "")], id="lines"),
        pytest.param(b"data\n\n", [("message", "", "")], id="data without a colon"),
        pytest.param(b"event: x\nid: 1\n\n", [], id="no data, no event"),
        pytest.param(b"id: 1\n\ndata: a\n\n", [("message", "a", "1")], id="an id stays"),
        pytest.param(b"id: 1\nid\ndata: a\n\n", A, id="an empty id resets"),
        pytest.param(b"id: 1\nid: 2\0\ndata: a\n\n", [("message", "a", "1")], id="an id with NUL"),
        pytest.param(b": c\nevent: t\n:\ndata: a\n\n", [("t", "a", "")], id="comments"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", A, id="BOM"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [], id="a second BOM is no BOM"),
        pytest.param(b"data: a\n\ndata: b\n", A, id="unfinished"),
        pytest.param(b"Data: a\n data: b\n\n", [], id="names are exact"),
        pytest.param(f"data: {ODD}\n\n".encode(), [("message", ODD, "")], id="other line breaks"),
        pytest.param(b"data: \xc3\n\n", [("message", "\ufffd", "")], id="broken UTF-8"),
    ],
)  # fmt: skip
def test_streams_decode(stream: bytes, expected: list[tuple[str, str, str]]) -> None:
    assert decode(stream) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"10", 10), (b"007", 7), (b"0", 0), (b"-1", None), (b"1.5", None), (b"1s", None),
     (b"", None), ("١".encode(), None), (b"9" * 5_000, int("9" * 18))],
)  # fmt: skip
def test_retry_takes_ascii_digits_only(value: bytes, expected: int | None) -> None:
    decoder = SSEDecoder()
    decoder.feed(b"retry: " + value + b"\n")
    assert decoder.retry_ms == expected


def test_the_id_of_an_unfinished_event_does_not_count() -> None:
    """A client that reconnected with it would skip the event."""
    decoder = SSEDecoder()
    decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert decoder.last_event_id == "1"


def test_an_event_comes_out_with_the_carriage_return_that_ends_it() -> None:
    decoder = SSEDecoder()
    assert len(decoder.feed(b"data: a\r\r")) == 1
    assert decoder.feed(b"\n") == []
    assert [event.data for event in decoder.feed(b"data: b\n\n")] == ["b"]


@pytest.mark.parametrize("piece", [1, 7, 64, 1_000])
@pytest.mark.parametrize("stream", [b"x" * 300, b"data: y\n" * 60, b":" + b"z" * 300 + b"\n"])
def test_an_event_above_the_bound_is_a_clear_error(stream: bytes, piece: int) -> None:
    decoder = SSEDecoder(max_event_bytes=200)
    pieces = [stream[start : start + piece] for start in range(0, len(stream), piece)]
    with pytest.raises(EventTooLarge, match="larger than 200 bytes"):
        list(map(decoder.feed, pieces))


def test_the_bound_is_for_one_event_not_for_the_stream() -> None:
    decoder = SSEDecoder(max_event_bytes=200)
    events = [event for _ in range(100) for event in decoder.feed(b"data: 12345678\n\n: beat\n\n")]
    assert len(events) == 100
