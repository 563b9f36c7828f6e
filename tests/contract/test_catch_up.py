"""Passing events in a replay, and the catch-up of messages still open (protocol.md §6.4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import (
    copilot,
    delta,
    events_of,
    everruns,
    is_event,
    message,
    note,
    publish,
    turn,
)
from tests.contract.wire import Frame, open_stream
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

LONG = 400
"""Events that push the start of a session out of `short_hub`'s tail of 100, not out of its log."""


def piece(message_id: str, text: str, so_far: str) -> dict[str, Any]:
    data = {"turn_id": "t", "message_id": message_id, "delta": text, "accumulated": so_far}
    return everruns("output.message.delta", data)


def completed(message_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    made = "2026-08-21T09:00:00.123Z"
    body = {"id": message_id, "role": "agent", "content": content, "created_at": made}
    return everruns("output.message.completed", {"message": body})


async def attach(hub: HubProcess, session: str, query: str) -> list[Frame]:
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1&{query}") as stream:
        return [frame for frame in await stream.until("caught_up") if is_event(frame)]


@proves("tail-replay")
async def test_tail_replays_passing_events_as_published(hub: HubProcess, session: str) -> None:
    sent = [note(), delta("m", "a"), note(), delta("m", "b"), delta("n", "c")]
    verdicts = await publish(hub, session, sent)
    frames = await attach(hub, session, "from=start")
    assert events_of(frames) == sent
    assert [frame.id for frame in frames] == [verdict["cursor"] for verdict in verdicts]


@proves("catch-up")
async def test_late_joiner_gets_the_text_so_far_in_one_event(
    short_hub: HubProcess, session: str
) -> None:
    durable = [note(str(n)) for n in range(150)]
    await publish(short_hub, session, durable)
    pieces = [delta("m", text) for text in ("Once ", "upon ", "a ")]
    told = await publish(short_hub, session, [pieces[0], note("between"), *pieces[1:]])
    frames = await attach(short_hub, session, "from=start")
    passing = [frame for frame in frames if frame.event == "assistant.message_delta"]
    assert len(passing) == 1
    assert passing[0].id == told[-1]["cursor"]
    said = passing[0].json()
    assert said["id"] == pieces[-1]["id"]
    assert said["timestamp"] == pieces[-1]["timestamp"]
    assert said["data"] == {"messageId": "m", "deltaContent": "Once upon a "}
    assert [e["id"] for e in events_of(frames)][:150] == [e["id"] for e in durable]


@proves("catch-up")
async def test_deltas_go_on_after_the_catch_up(short_hub: HubProcess, session: str) -> None:
    await publish(short_hub, session, [note(str(n)) for n in range(150)])
    await publish(short_hub, session, [delta("m", "a"), delta("m", "b")])
    path = f"/v1/sessions/{session}/sse?control=1"
    async with open_stream(short_hub, path) as stream:
        await stream.until("caught_up")
        await publish(short_hub, session, [delta("m", "c"), message("m", "abc")])
        await stream.until("assistant.message")
        texts = [
            event["data"].get("deltaContent")
            for event in events_of(stream.frames)
            if event["type"] == "assistant.message_delta"
        ]
    assert texts == ["ab", "c"]


@proves("catch-up")
async def test_everruns_catch_up_joins_delta_and_accumulated(
    short_hub: HubProcess, session: str
) -> None:
    await publish(short_hub, session, [turn(n) for n in range(150)])
    pieces = [piece("m", "a", "a"), piece("m", "b", "ab"), piece("m", "c", "abc")]
    await publish(short_hub, session, [*pieces, turn(150)])
    frames = await attach(short_hub, session, "from=start")
    passing = [event for event in events_of(frames) if event["type"] == "output.message.delta"]
    assert [event["id"] for event in passing] == [pieces[-1]["id"]]
    assert passing[0]["data"]["delta"] == "abc"
    assert passing[0]["data"]["accumulated"] == "abc"
    assert "sequence" not in passing[0]
    assert frames[-1].event == "turn.started", "it stands in the place of its last delta"


@proves("catch-up")
async def test_each_open_message_is_caught_up_on_its_own(
    short_hub: HubProcess, session: str
) -> None:
    await publish(short_hub, session, [note(str(n)) for n in range(150)])
    thought = {"reasoningId": "r", "deltaContent": "hm"}
    mixed = [
        delta("m", "a"),
        copilot("assistant.reasoning_delta", thought, ephemeral=True),
        delta("n", "x"),
        delta("m", "b"),
    ]
    await publish(short_hub, session, mixed)
    frames = await attach(short_hub, session, "from=start")
    texts = [event["data"].get("deltaContent") for event in events_of(frames)[150:]]
    assert texts == ["hm", "x", "ab"]


@proves("catch-up-dropped")
async def test_finished_message_is_not_caught_up(short_hub: HubProcess, session: str) -> None:
    await publish(short_hub, session, [note(str(n)) for n in range(150)])
    await publish(short_hub, session, [delta("m", "a"), delta("m", "b"), message("m", "ab")])
    frames = await attach(short_hub, session, "from=start")
    assert [frame.event for frame in frames[150:]] == ["assistant.message"]


@proves("catch-up-dropped")
async def test_abort_ends_open_messages(short_hub: HubProcess, session: str) -> None:
    await publish(short_hub, session, [note(str(n)) for n in range(150)])
    await publish(short_hub, session, [delta("m", "a"), copilot("abort", {"reason": "user"})])
    frames = await attach(short_hub, session, "from=start")
    assert [frame.event for frame in frames[150:]] == ["abort"]


@proves("catch-up-dropped")
async def test_message_whose_first_delta_is_gone_is_left_to_its_durable_event(
    short_hub: HubProcess, session: str
) -> None:
    await publish(short_hub, session, delta("m", "lost "))
    for _ in range(3):
        await publish(short_hub, session, [note(str(n)) for n in range(100)])
    await publish(short_hub, session, delta("m", "end"))
    frames = await attach(short_hub, session, "after_sequence=150")
    assert "assistant.message_delta" not in {frame.event for frame in frames}


@proves("last-event-id-plain")
async def test_browser_on_an_everruns_stream_gets_durable_events_and_catch_up(
    hub: HubProcess, session: str
) -> None:
    """It goes back to its last durable id, whose deltas it may have shown already."""
    pieces = [piece("m", "a", "a"), piece("m", "b", "ab")]
    other = [piece("n", "x", "x"), completed("n", "x")]
    first = turn(1)
    await publish(hub, session, [first, *other, *pieces, turn(2)])
    headers = {"Last-Event-ID": first["id"]}
    async with open_stream(hub, f"/v1/sessions/{session}/sse", headers=headers) as stream:
        frames = await stream.take(4)
    got = events_of(frames)
    assert [event["type"] for event in got] == [
        "output.message.completed",
        "output.message.delta",
        "turn.started",
    ]
    assert got[1]["data"]["accumulated"] == "ab"
    async with open_stream(hub, f"/v1/sessions/{session}/sse?since_id={first['id']}") as stream:
        got = events_of(await stream.take(6))
    assert [event["id"] for event in got[2:4]] == [event["id"] for event in pieces]
