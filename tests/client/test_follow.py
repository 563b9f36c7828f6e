"""Following a session through every kind of trouble, against a hub that follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from sessionwire._follow import Follow, Start, Wanted, follow
from sessionwire._items import (
    CaughtUp,
    Connected,
    Disconnected,
    Event,
    Gap,
    Item,
    Presence,
    Prompts,
    Reset,
    Snapshot,
)
from sessionwire.errors import (
    ConnectionFailed,
    EventTooLarge,
    Forbidden,
    ProtocolError,
    RateLimited,
    Unauthorized,
    UnknownSession,
)
from tests.client.scripted_hub import (
    Answer,
    ScriptedHub,
    connected,
    frame,
    scripted_hub,
    status,
    stream,
)

pytestmark = pytest.mark.anyio


def event(number: int) -> bytes:
    return frame("user.message", f'{{"n":{number}}}', id=f"c{number}")


@asynccontextmanager
async def following(
    *answers: Answer,
    start: Start | None = None,
    wanted: Wanted | None = None,
    idle_timeout_s: float = 5,
    max_retries: int | None = None,
    connect_retries: int | None = None,
    max_event_bytes: int = 10_000,
) -> AsyncGenerator[tuple[ScriptedHub, Follow]]:
    with anyio.fail_after(20):
        async with (
            scripted_hub(*answers) as hub,
            httpx2.AsyncClient(base_url=hub.url) as http,
            follow(
                http,
                "s1",
                start=start,
                wanted=wanted,
                idle_timeout_s=idle_timeout_s,
                max_retries=max_retries,
                connect_retries=connect_retries,
                max_event_bytes=max_event_bytes,
            ) as stream_,
        ):
            yield hub, stream_


async def rest(stream_: Follow) -> list[Item]:
    return [item async for item in stream_]


def bodies(items: list[Item]) -> list[str]:
    return [item.body for item in items if isinstance(item, Event)]


async def test_the_first_request_asks_for_what_was_given() -> None:
    wanted = Wanted(types=["a.b", "c"], exclude=["d"], agents=["primary"])
    async with following(status(204), start=Start(from_="-5"), wanted=wanted) as (hub, stream_):
        assert await rest(stream_) == []
    assert hub.requests[0].path == "/v1/sessions/s1/sse"
    assert hub.requests[0].query == {
        "control": ["1"],
        "from": ["-5"],
        "types": ["a.b", "c"],
        "exclude": ["d"],
        "agents": ["primary"],
    }
    assert hub.requests[0].headers["accept"] == "text/event-stream"
    assert hub.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("start", "query"),
    [
        (Start(since_id="x", after_sequence=1, from_="now"), {"since_id": ["x"]}),
        (Start(after_sequence=0, from_="now"), {"after_sequence": ["0"]}),
        (Start(), {}),
    ],
)
async def test_one_start_counts(start: Start, query: dict[str, list[str]]) -> None:
    async with following(status(204), start=start) as (hub, stream_):
        await rest(stream_)
    assert hub.requests[0].query == {"control": ["1"], **query}


async def test_a_drop_in_the_middle_of_a_frame_resumes_at_the_last_whole_event() -> None:
    cut = connected("c0") + event(1) + event(2) + b'event: user.message\nid: c3\ndata: {"n":3}\n'
    resumed = connected("c2") + event(3)
    answers = (stream(cut, end="cut"), stream(resumed), status(204))
    async with following(*answers) as (hub, stream_):
        items = await rest(stream_)
    assert bodies(items) == ['{"n":1}', '{"n":2}', '{"n":3}']
    assert [request.query.get("since_id") for request in hub.requests] == [None, ["c2"], ["c3"]]
    reasons = [item.reason for item in items if isinstance(item, Disconnected)]
    assert reasons == ["dropped", "dropped"]


async def test_a_start_is_not_asked_for_again_once_a_cursor_is_known() -> None:
    answers = (stream(connected("c7")), status(204))
    async with following(*answers, start=Start(from_="now")) as (hub, stream_):
        await rest(stream_)
    assert hub.requests[0].query["from"] == ["now"]
    assert hub.requests[1].query == {"control": ["1"], "since_id": ["c7"]}


async def test_a_planned_closing_waits_as_told_and_spends_no_retry() -> None:
    closing = frame("disconnecting", '{"reason":"connection_cycle","retry_ms":120}')
    answers = (stream(connected("c0"), closing), stream(connected("c0"), closing), status(204))
    async with following(*answers, max_retries=0) as (_hub, stream_):
        items = await rest(stream_)
    ends = [item for item in items if isinstance(item, Disconnected)]
    assert ends == [Disconnected("connection_cycle", "", 0.12)] * 2


async def test_a_planned_closing_counts_as_planned_also_when_the_bytes_end_badly() -> None:
    closing = frame("disconnecting", '{"reason":"shutdown","retry_ms":100}')
    answers = (stream(connected("c0"), closing, end="cut"), status(204))
    async with following(*answers, max_retries=0) as (_hub, stream_):
        items = await rest(stream_)
    assert items[-1] == Disconnected("shutdown", "", 0.1)


@pytest.mark.parametrize(
    ("code", "error"),
    [(401, Unauthorized), (403, Forbidden), (404, UnknownSession), (400, Exception)],
)
async def test_a_refusal_for_good_ends_the_iteration(code: int, error: type[Exception]) -> None:
    body = '{"code":"some_code","detail":"no way"}'
    async with following(status(code, body), status(204)) as (hub, stream_):
        with pytest.raises(error, match="no way") as caught:
            await rest(stream_)
        assert getattr(caught.value, "code", "") == "some_code"
        assert await rest(stream_) == []
    assert len(hub.requests) == 1


@pytest.mark.parametrize("code", [408, 425, 429, 500, 503])
async def test_a_refusal_for_now_is_tried_again_after_retry_after(code: int) -> None:
    answers = (status(code, retry_after="0"), stream(connected("c0"), event(1)), status(204))
    async with following(*answers) as (hub, stream_):
        items = await rest(stream_)
    assert bodies(items) == ['{"n":1}']
    first = items[0]
    assert isinstance(first, Disconnected)
    assert first.reason == "refused"
    assert len(hub.requests) == 3


async def test_retries_end_at_their_bound() -> None:
    answers = (status(429, '{"code":"full"}', retry_after="0"),) * 3
    async with following(*answers, max_retries=1) as (hub, stream_):
        with pytest.raises(RateLimited, match="full"):
            await rest(stream_)
    assert len(hub.requests) == 2


async def test_an_unreachable_hub_is_told_at_once_where_no_retry_is_wanted() -> None:
    async with scripted_hub() as hub:
        url = hub.url
    async with httpx2.AsyncClient(base_url=url) as http:
        with pytest.raises(ConnectionFailed, match=r"cannot reach http://127\.0\.0\.1"):
            await rest(follow(http, "s1", connect_retries=0))


async def test_the_bound_for_the_first_connection_is_not_that_of_later_ones() -> None:
    answers = (stream(connected("c0"), end="cut"), status(503), status(204))
    async with following(*answers, connect_retries=0) as (hub, stream_):
        await rest(stream_)
    assert len(hub.requests) == 3


async def test_silence_beyond_the_idle_timeout_is_a_drop() -> None:
    answers = (stream(connected("c0"), event(1), end="silent"), status(204))
    async with following(*answers, idle_timeout_s=0.3) as (hub, stream_):
        items = await rest(stream_)
    assert [item.reason for item in items if isinstance(item, Disconnected)] == ["idle"]
    assert hub.requests[1].query["since_id"] == ["c1"]


async def test_heartbeats_are_no_silence() -> None:
    async def beating(client: anyio.abc.SocketStream) -> None:
        await stream(connected("c0"), end="open")(client)
        for _ in range(8):
            await anyio.sleep(0.1)
            await client.send(b"d\r\n: heartbeat\n\n\r\n")
        await client.send(b"0\r\n\r\n")

    async with following(beating, status(204), idle_timeout_s=0.5) as (_hub, stream_):
        items = await rest(stream_)
    assert [item.reason for item in items if isinstance(item, Disconnected)] == ["dropped"]


async def test_a_slow_consumer_is_not_a_silent_stream() -> None:
    answers = (stream(connected("c0"), event(1), event(2), end="silent"),)
    async with following(*answers, idle_timeout_s=0.2) as (hub, stream_):
        seen: list[str] = []
        async for item in stream_:
            await anyio.sleep(0.3)
            seen += bodies([item])
            if len(seen) == 2:
                break
    assert len(hub.requests) == 1


async def test_what_the_hub_tells_comes_as_items_of_its_own() -> None:
    frames = (
        connected("c3"),
        frame("gap", '{"reason":"trimmed","after_sequence":1,"resumed_sequence":3}'),
        frame("prompts", '{"data":[{"request_id":"r"}]}'),
        frame("snapshot", '{"events":[{"type":"session.idle"}]}'),
        frame("presence", '{"viewers":2}'),
        frame("cursor", '{"cursor":"c4"}', id="c4"),
        frame("caught_up", '{"cursor":"c4"}', id="c4"),
        frame("reset", "{}", id="d0"),
    )
    async with following(stream(*frames), status(204)) as (hub, stream_):
        items = await rest(stream_)
    assert items[:-1] == [
        Connected("c3", "c3", "e", True, None, 0),
        Gap("trimmed", 1, 3),
        Prompts(({"request_id": "r"},)),
        Snapshot(({"type": "session.idle"},)),
        Presence({"viewers": 2}),
        CaughtUp("c4"),
        Reset("d0"),
    ]
    assert hub.requests[1].query["since_id"] == ["d0"]


async def test_the_cursor_moves_with_the_item_that_is_handed_over_and_not_before() -> None:
    answers = (stream(connected("c0") + event(1) + event(2), end="silent"),)
    async with following(*answers) as (_hub, stream_):
        cursors = [stream_.cursor]
        async for _item in stream_:
            cursors.append(stream_.cursor)
            if stream_.cursor == "c2":
                break
    assert cursors == ["", "c0", "c1", "c2"]


async def test_a_cancelled_wait_is_not_swallowed_and_the_next_one_resumes() -> None:
    answers = (stream(connected("c0"), event(1), end="silent"), stream(event(2)), status(204))
    async with following(*answers) as (hub, stream_):
        assert isinstance(await anext(stream_), Connected)
        assert bodies([await anext(stream_)]) == ['{"n":1}']
        with anyio.move_on_after(0.2) as scope:
            await anext(stream_)
        assert scope.cancelled_caught
        assert bodies([await anext(stream_)]) == ['{"n":2}']
    assert hub.requests[1].query["since_id"] == ["c1"]


async def test_leaving_closes_the_connection() -> None:
    gone = anyio.Event()

    async def watched(client: anyio.abc.SocketStream) -> None:
        await stream(connected("c0"), end="silent")(client)
        gone.set()

    async with following(watched) as (_hub, stream_):
        await anext(stream_)
        await stream_.aclose()
        await gone.wait()


async def test_an_answer_that_is_no_stream_is_an_error() -> None:
    async with following(status(200, "<html>")) as (_hub, stream_):
        with pytest.raises(ProtocolError, match="no event stream: 'text/plain'"):
            await rest(stream_)


@pytest.mark.parametrize("data", ["nonsense", "[]"])
async def test_a_frame_of_the_hub_that_is_no_object_is_an_error(data: str) -> None:
    async with following(stream(frame("gap", data), end="silent")) as (_hub, stream_):
        with pytest.raises(ProtocolError, match="'gap' frame"):
            await rest(stream_)


async def test_an_event_above_the_bound_is_an_error() -> None:
    big = frame("user.message", "x" * 2_000, id="c1")
    async with following(stream(big, end="silent"), max_event_bytes=1_000) as (hub, stream_):
        with pytest.raises(EventTooLarge):
            await rest(stream_)
        assert await rest(stream_) == []
    assert len(hub.requests) == 1
