"""Redis evicts one key of a session, or an operator deletes it: what is lost is told."""

from __future__ import annotations

import pytest

from tests.chaos.hubs import Publisher, Watcher, admin
from tests.contract._requirements import proves
from tests.contract.events import call, delta, events_of, is_event, note
from tests.contract.wire import open_stream
from tests.hub_process import HubProcess
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("lost", "gap", "kept"),
    [
        ("meta", "epoch_changed", []),
        ("log", "trimmed", []),
        ("ids", None, [3, 4]),
        ("tail", None, [3, 4]),
        ("eids", None, [3, 4]),
        ("deltas", None, [3, 4]),
    ],
)
@proves("redis-lost-writes")
async def test_key_that_is_lost_is_told_or_missed_by_nobody(
    hub: HubProcess,
    redis: RedisProcess,
    session: str,
    lost: str,
    gap: str | None,
    kept: list[int],
) -> None:
    """One key of each kind at a time; `kept` are the durable events after the viewer's place."""
    publisher = Publisher(hub, session)
    await publisher.batch([note(str(n)) for n in range(3)])
    async with Watcher(hub, session) as watcher:
        await watcher.sees(publisher.ids)
        place = watcher.reading.place
    await publisher.batch([note("3"), note("4"), delta("m", "x")])
    assert await admin(redis.url, "DEL", f"sw:{{{session}}}:{lost}") == 1
    fresh = Publisher(hub, session)
    await fresh.one()
    wanted = [publisher.ids[n] for n in kept] + fresh.ids
    async with open_stream(hub, f"/v1/sessions/{session}/sse?since_id={place}") as stream:
        told = (await stream.next()).json()["gap"]
        assert (told and told["reason"]) == gap
        got = await stream.until(lambda f: is_event(f) and f.json()["id"] == fresh.ids[0])
    durable = [e["id"] for e in events_of(got) if e["type"] != "assistant.message_delta"]
    assert durable == wanted
    listed = await call(hub, "GET", f"/v1/sessions/{session}/events?since_id={place}")
    assert [event["id"] for event in listed["data"]] == wanted
    await fresh.one()
    assert fresh.refusals == []
