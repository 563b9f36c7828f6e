"""`session.snapshot_rewind` hides what it names, from every way to read (protocol.md §3.6)."""

from __future__ import annotations

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, copilot, delta, events_of, note, publish
from tests.contract.wire import open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


def rewind_to(id: str) -> dict[str, object]:
    return copilot(
        "session.snapshot_rewind", {"upToEventId": id, "eventsRemoved": 1}, ephemeral=True
    )


async def replayed(hub: HubProcess, session: str) -> list[str]:
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        return [event["id"] for event in events_of(await stream.until("caught_up"))]


@proves("rewind")
async def test_rewound_events_leave_every_reading(hub: HubProcess, session: str) -> None:
    sent = [note("a"), note("b"), delta("m", "x"), note("c"), note("d")]
    await publish(hub, session, sent)
    rewind, after = rewind_to(str(sent[3]["id"])), note("e")
    told = await publish(hub, session, [rewind, after])
    assert [verdict["sequence"] for verdict in told] == [5, 6], "numbers are not given again"
    kept = [event["id"] for event in (sent[0], sent[1], sent[2], rewind, after)]
    durable = [kept[0], kept[1], kept[3], kept[4]]
    assert await replayed(hub, session) == kept
    path = f"/v1/sessions/{session}"
    listed = await call(hub, "GET", f"{path}/events")
    assert [event["id"] for event in listed["data"]] == durable
    exported = await request(hub, "GET", f"{path}/export")
    assert exported.body.count(b"\n") == 4
    summary = await call(hub, "GET", f"{path}/events/summary")
    assert summary["total"] == 4
    counted = await request(hub, "GET", f"{path}/events?limit=10")
    assert counted.headers["x-total-count"] == "4"
    everything = [event["id"] for event in [*sent, rewind, after] if event is not sent[2]]
    listed = await call(hub, "GET", f"{path}/events?include_rewound=1")
    assert [event["id"] for event in listed["data"]] == everything
    exported = await request(hub, "GET", f"{path}/export?include_rewound=1")
    assert exported.body.count(b"\n") == 6


@proves("rewind")
async def test_rewind_is_delivered_live_and_durable_whatever_its_flag(
    hub: HubProcess, session: str
) -> None:
    first = note()
    await publish(hub, session, first)
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        await stream.until("caught_up")
        rewind = rewind_to(str(first["id"]))
        told = await publish(hub, session, rewind)
        frame = await stream.next()
    assert frame.json() == rewind
    assert frame.id == told[0]["cursor"]
    assert told[0]["sequence"] == 2


@proves("rewind")
async def test_passing_events_of_a_rewound_stretch_are_hidden_too(
    hub: HubProcess, session: str
) -> None:
    sent = [note("a"), note("b"), delta("m", "x"), delta("m", "y")]
    await publish(hub, session, sent)
    rewind = rewind_to(str(sent[1]["id"]))
    await publish(hub, session, rewind)
    assert await replayed(hub, session) == [sent[0]["id"], rewind["id"]]


@proves("rewind")
async def test_rewinds_can_nest(hub: HubProcess, session: str) -> None:
    sent = [note(str(n)) for n in range(4)]
    await publish(hub, session, sent)
    first = rewind_to(str(sent[3]["id"]))
    await publish(hub, session, first)
    second = rewind_to(str(sent[1]["id"]))
    await publish(hub, session, second)
    assert await replayed(hub, session) == [sent[0]["id"], second["id"]]


@pytest.mark.parametrize("live", [False, True], ids=["unknown", "its-own"])
@proves("rewind-unknown")
async def test_rewind_to_an_unknown_event_hides_nothing(
    hub: HubProcess, session: str, live: bool
) -> None:
    sent = [note(), note()]
    await publish(hub, session, sent)
    rewind = rewind_to("11111111-1111-4111-8111-111111111111")
    if live:
        rewind["id"] = "11111111-1111-4111-8111-111111111111"
    await publish(hub, session, rewind)
    assert await replayed(hub, session) == [*(e["id"] for e in sent), rewind["id"]]
