"""What a request for a stream asks: protocol §6.1, first paragraph."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers, QueryParams

from sessionwire_schemas.cursor import Cursor
from sessionwire_server.errors import HubError
from sessionwire_server.replay import StartAfter, StartAt, StartBy
from sessionwire_server.stream_request import StreamRequest

CURSOR = "abcdefgh.4.9.zywri"
OTHER = "abcdefgh.5.11.zywri"


def read(query: str = "", **headers: str) -> StreamRequest:
    spelled = {name.replace("_", "-"): value for name, value in headers.items()}
    return StreamRequest.read(Headers(spelled), QueryParams(query), "start")


def code(query: str = "", **headers: str) -> tuple[int, str]:
    with pytest.raises(HubError) as caught:
        read(query, **headers)
    return caught.value.status, caught.value.code


def test_the_header_wins_over_every_query_spelling() -> None:
    wanted = read(f"lastEventId={OTHER}&since_id={OTHER}", last_event_id=CURSOR)
    assert wanted.start == StartAt(Cursor.parse(CURSOR))
    assert wanted.by_header


@pytest.mark.parametrize("name", ["lastEventId", "last_event_id"])
def test_query_spellings_of_the_header_win_over_since_id(name: str) -> None:
    wanted = read(f"{name}={CURSOR}&since_id={OTHER}", last_event_id="")
    assert wanted.start == StartAt(Cursor.parse(CURSOR))
    assert wanted.by_header


def test_since_id_takes_event_ids_as_well() -> None:
    wanted = read("since_id=event_01a22e1f88a0726599b9c55465d0ce47")
    assert wanted.start == StartAfter("event_01a22e1f88a0726599b9c55465d0ce47")
    assert not wanted.by_header


def test_empty_places_count_as_absent() -> None:
    assert read("since_id=&after_sequence=", last_event_id="").start == StartBy()


def test_after_sequence_zero_is_the_whole_session() -> None:
    assert read("after_sequence=0").start == StartBy(sequence=0)


@pytest.mark.parametrize(
    ("text", "start"),
    [("start", StartBy()), ("now", StartBy(now=True)), ("-20", StartBy(last=20))],
)
def test_from_tells_where_to_begin_without_a_cursor(text: str, start: StartBy) -> None:
    assert read(f"from={text}").start == start


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("since_id=a&after_sequence=1", (400, "cursor_conflict")),
        ("since_id=a.b.c.d", (400, "invalid_cursor")),
        ("since_id=two%20words", (400, "invalid_cursor")),
        ("since_id=" + "x" * 129, (400, "invalid_cursor")),
        ("after_sequence=-1", (400, "invalid_parameter")),
        ("after_sequence=%D9%A3", (400, "invalid_parameter")),
        ("after_sequence=99999999999999999", (400, "invalid_parameter")),
        ("from=-0", (400, "invalid_parameter")),
        ("from=yesterday", (400, "invalid_parameter")),
        ("control=maybe", (400, "invalid_parameter")),
    ],
)
def test_bad_places_are_named(query: str, expected: tuple[int, str]) -> None:
    assert code(query) == expected


def test_everruns_filters_are_bound_to_its_types() -> None:
    wanted = read("types=turn.started&types=made.up")
    with pytest.raises(HubError, match=r"unknown event type 'made\.up'"):
        wanted.filter("everruns")
    assert wanted.filter("copilot").types == frozenset({"turn.started", "made.up"})


@pytest.mark.parametrize(("catalog", "most"), [("everruns", 25), ("copilot", 116)])
def test_filters_are_bounded(catalog: str, most: int) -> None:
    fits = read("&".join(["types=turn.started"] * most))
    assert fits.filter(catalog).types == frozenset({"turn.started"})
    with pytest.raises(HubError, match="too many values"):
        read("&".join(["exclude=turn.started"] * (most + 1))).filter(catalog)


PARAMETERS = ("since_id", "after_sequence", "from", "lastEventId", "types", "agents", "control")


@given(
    st.lists(st.tuples(st.sampled_from(PARAMETERS), st.text(max_size=60)), max_size=4),
    st.text(max_size=60),
)
def test_no_request_fails_but_with_a_400(query: list[tuple[str, str]], header: str) -> None:
    raw = Headers(raw=[(b"last-event-id", header.encode("utf-8", "replace"))])
    params = QueryParams(urlencode(query, errors="replace"))
    assert refusal(raw, params) in {None, 400}


def refusal(headers: Headers, params: QueryParams) -> int | None:
    try:
        wanted = StreamRequest.read(headers, params, "start")
        wanted.filter("everruns")
        wanted.filter("copilot")
    except HubError as error:
        return error.status
    return None
