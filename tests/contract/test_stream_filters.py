"""`types`, `exclude` and `agents` on a stream (protocol.md §6)."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.contract._requirements import proves
from tests.contract.events import (
    copilot,
    delta,
    events_of,
    everruns,
    is_event,
    note,
    place_of,
    publish,
    turn,
)
from tests.contract.wire import open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

Query = list[tuple[str, str]]


async def filtered(hub: HubProcess, session: str, query: Query) -> list[str]:
    path = f"/v1/sessions/{session}/sse?{urlencode([('control', '1'), *query])}"
    async with open_stream(hub, path) as stream:
        return [event["id"] for event in events_of(await stream.until("caught_up"))]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ([("types", "user.message")], [1, 4]),
        ([("types", "user.message"), ("types", "abort")], [1, 3, 4]),
        ([("exclude", "session.info")], [1, 2, 3, 4]),
        ([("exclude", "session.info"), ("exclude", "assistant.message_delta")], [1, 3, 4]),
        ([("types", "abort"), ("types", "session.info"), ("exclude", "abort")], [0, 5]),
        ([("types", "assistant.message_delta")], [2]),
        ([("types", "x.unheard-of")], []),
    ],
    ids=["one", "two", "without", "without-two", "both", "passing", "none"],
)
@proves("filters")
async def test_types_keep_and_exclude_removes(
    hub: HubProcess, session: str, query: Query, kept: list[int]
) -> None:
    sent = [
        note(),
        copilot("user.message", {"content": "a"}),
        delta("m", "x"),
        copilot("abort", {"reason": "user"}),
        copilot("user.message", {"content": "b"}),
        note(),
    ]
    await publish(hub, session, sent)
    assert await filtered(hub, session, query) == [sent[n]["id"] for n in kept]


@proves("filters")
async def test_filters_hold_for_live_events_too(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    async with open_stream(hub, f"/v1/sessions/{session}/sse?types=abort&control=1") as stream:
        await stream.until("caught_up")
        wanted = copilot("abort", {"reason": "user"})
        await publish(hub, session, [note(), delta("m", "x"), wanted, note()])
        assert events_of(await stream.until("abort")) == [wanted]
        assert await stream.silent(0.3)


@pytest.mark.parametrize(
    "query",
    [
        [("types", "no.such.type")],
        [("exclude", "no.such.type")],
        [("types", "turn.started,turn.completed")],
        [("types", "turn.started")] * 26,
        [("exclude", "turn.started")] * 26,
    ],
    ids=["unknown", "unknown-exclude", "comma", "too-many", "too-many-exclude"],
)
@proves("filters")
async def test_bad_everruns_filters_are_refused(
    hub: HubProcess, session: str, query: Query
) -> None:
    await publish(hub, session, turn())
    answer = await request(hub, "GET", f"/v1/sessions/{session}/sse?{urlencode(query)}")
    assert answer.status == 400, answer
    assert answer.code
    assert query[0][0] in answer.json()["detail"]


@proves("filters")
async def test_all_everruns_types_are_known(hub: HubProcess, session: str) -> None:
    sent = [turn(1), everruns("task.created", {"task": {}}), turn(2)]
    await publish(hub, session, sent)
    kinds = ["task.created", "timer.set", "voice.output.interrupted"]
    assert await filtered(hub, session, [("types", kind) for kind in kinds]) == [sent[1]["id"]]


@pytest.mark.parametrize(
    "query",
    [[("types", "bad type")], [("types", "a" * 129)], [("types", f"t{n}") for n in range(117)]],
    ids=["malformed", "too-long", "too-many"],
)
@proves("filters")
async def test_bad_copilot_filters_are_refused(hub: HubProcess, session: str, query: Query) -> None:
    await publish(hub, session, note())
    answer = await request(hub, "GET", f"/v1/sessions/{session}/sse?{urlencode(query)}")
    assert answer.status == 400, answer
    assert answer.code


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ([("agents", "primary")], [0, 3]),
        ([("agents", "one")], [1, 4]),
        ([("agents", "one"), ("agents", "two")], [1, 2, 4]),
        ([("agents", "primary"), ("agents", "two")], [0, 2, 3]),
        ([("agents", "nobody")], []),
    ],
    ids=["primary", "one", "two", "mixed", "none"],
)
@proves("filters-agents")
async def test_agents_keeps_those_named(
    hub: HubProcess, session: str, query: Query, kept: list[int]
) -> None:
    sent = [note(), note(agent="one"), note(agent="two"), note(), delta("m", "x", agent="one")]
    await publish(hub, session, sent)
    assert await filtered(hub, session, query) == [sent[n]["id"] for n in kept]


@proves("filters-cursor")
async def test_filtered_events_move_the_cursor(short_hub: HubProcess, session: str) -> None:
    await publish(short_hub, session, note())
    path = f"/v1/sessions/{session}/sse?types=abort&control=1"
    async with open_stream(short_hub, path) as stream:
        await stream.until("caught_up")
        verdicts = [await publish(short_hub, session, note()) for _ in range(12)]
        frame = (await stream.until("cursor"))[-1]
    assert frame.id == frame.json()["cursor"]
    place = place_of(frame.id)
    assert 10 <= place.sequence <= 13
    assert place_of(verdicts[-1][0]["cursor"]).epoch == place.epoch
    more = copilot("abort", {"reason": "user"})
    await publish(short_hub, session, more)
    path += f"&since_id={frame.id}"
    async with open_stream(short_hub, path) as stream:
        frames = await stream.until("caught_up")
    assert events_of(frames) == [more]
    assert frames[0].json()["gap"] is None


@proves("filters-cursor", "everruns-plain-strict")
async def test_filtered_viewer_without_control_gets_no_cursor_frame(
    short_hub: HubProcess, session: str
) -> None:
    await publish(short_hub, session, note())
    async with open_stream(short_hub, f"/v1/sessions/{session}/sse?types=abort") as stream:
        await stream.next()
        await publish(short_hub, session, [note() for _ in range(25)])
        await publish(short_hub, session, copilot("abort", {"reason": "user"}))
        frames = await stream.until(is_event)
    assert [frame.event for frame in frames] == ["abort"]
