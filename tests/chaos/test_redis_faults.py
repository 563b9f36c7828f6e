"""Redis goes away, forgets, stalls or fills up under open streams (docs/protocol.md, failure)."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.chaos.hubs import Publisher, Watcher, admin, hub_on
from tests.chaos.proxy import FaultProxy
from tests.contract._requirements import proves
from tests.contract.events import (
    call,
    delta,
    events_of,
    is_event,
    new_session,
    note,
    place_of,
    publish,
    try_publish,
)
from tests.contract.wire import eventually, open_stream
from tests.hub_process import HubProcess
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

STREAM_WAIT_S = 4
IMPATIENT: dict[str, object] = {
    "heartbeat_s": 0.5,
    "redis_timeout_s": 1,
    "probe_s": 0.5,
    "head_check_s": 1,
    "stream_wait_s": STREAM_WAIT_S,
}


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    return IMPATIENT


@pytest.fixture(autouse=True)
async def all_is_well(redis: RedisProcess, hub: HubProcess) -> None:
    """What the test before did to Redis is over."""
    await ready(hub, True)


async def ready(hub: HubProcess, wanted: bool, *, timeout: float = 15) -> None:
    async def is_so() -> bool:
        return await anyio.to_thread.run_sync(hub.is_ready) == wanted

    await eventually(is_so, f"ready is {wanted}", timeout=timeout)


@pytest.mark.parametrize("end", ["stop", "kill"])
@proves("redis-restart")
async def test_restart_of_redis_loses_and_repeats_nothing(
    hub: HubProcess, redis: RedisProcess, session: str, end: str
) -> None:
    publisher = Publisher(hub, session)
    for _ in range(20):
        await publisher.one()
    async with (
        Watcher(hub, session) as plain,
        Watcher(hub, session, "control=1") as control,
    ):
        await plain.sees(publisher.ids)
        await anyio.to_thread.run_sync(getattr(redis, end))
        answer = await try_publish(hub, session, json.dumps(note("lost")).encode())
        assert (answer.status, answer.code) == (503, "redis_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        beat = await plain.stream.read(timeout=3)
        assert beat is not None
        assert beat.comments == ("heartbeat",)

        async def publish_on() -> None:
            for _ in range(20):
                await publisher.one()

        async def is_refused() -> bool:
            return bool(publisher.refusals)

        async with anyio.create_task_group() as group:
            group.start_soon(publish_on)
            await eventually(is_refused, "a publish that is refused while Redis is away")
            await anyio.to_thread.run_sync(redis.start)
        assert publisher.refusals
        assert {status for status, _ in publisher.refusals} == {503}
        assert all(int(value) >= 1 for value in publisher.retry_after)
        for watcher in (plain, control):
            await watcher.sees(publisher.ids)
            names = {frame.event for frame in watcher.frames}
            assert not names & {"reset", "gap", "disconnecting"}
    async with Watcher(hub, session) as late:
        await late.sees(publisher.ids)


@proves("redis-away-stream")
async def test_stream_asked_for_without_redis_opens_and_waits(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    await publish(hub, session, note("a"))
    redis.stop()
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        beat = await stream.read(timeout=3)
        assert beat is not None
        assert beat.is_comment
        redis.start()
        frames = await stream.take(2, timeout=15)
    assert [frame.event for frame in frames] == ["connected", "session.info"]


@proves("redis-away-stream")
async def test_stream_gives_up_waiting_for_redis_with_a_word(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    await publish(hub, session, note("a"))
    redis.stop()
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        frames = await stream.drain(timeout=STREAM_WAIT_S + 10)
    redis.start()
    assert [frame.event for frame in frames] == ["disconnecting"]
    assert frames[0].json()["reason"] == "error"


@proves("redis-away-start", "ready")
async def test_hub_started_without_redis_lives_and_heals(
    own_redis: RedisProcess, session: str
) -> None:
    own_redis.stop()
    async with hub_on(own_redis.url, IMPATIENT, wait_ready=False) as hub:
        assert hub.get("/livez")[0] == 200
        assert hub.get("/readyz")[0] == 503
        answer = await try_publish(hub, session, json.dumps(note()).encode())
        assert (answer.status, answer.code) == (503, "redis_unavailable")
        own_redis.start()
        await ready(hub, True)
        await publish(hub, session, note())


@proves("redis-flush")
async def test_flushed_redis_is_a_new_epoch_with_the_next_event(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    told = await publish(hub, session, [note("a"), note("b")])
    async with (
        Watcher(hub, session, "control=1") as control,
        Watcher(hub, session) as plain,
    ):
        await control.sees([verdict["id"] for verdict in told])
        await plain.sees([verdict["id"] for verdict in told])
        await admin(redis.url, "FLUSHALL")
        fresh = note("fresh")
        await publish(hub, session, fresh)
        reset = await control.sees_frame("reset")
        got = (await control.stream.until(is_event))[-1]
        assert got.json()["id"] == fresh["id"]
        place = place_of(got.id)
        assert (place.sequence, place.offset) == (1, 1)
        assert place.epoch == reset.json()["epoch"]
        assert place.epoch != place_of(told[0]["cursor"]).epoch
        frames = await plain.stream.drain()
        assert [frame.event for frame in frames] == ["disconnecting"]
        assert frames[0].json()["reason"] == "reset"
    path = f"/v1/sessions/{session}/sse?since_id={told[1]['cursor']}"
    async with open_stream(hub, path) as stream:
        connected, event = await stream.take(2)
    assert connected.json()["gap"]["reason"] == "epoch_changed"
    assert event.json()["id"] == fresh["id"]


@pytest.mark.parametrize("noticed_by", ["publish", "head-check"])
@proves("redis-lost-writes", "gap-epoch")
async def test_writes_lost_in_a_failover_begin_a_new_epoch(
    hub: HubProcess, other: HubProcess, redis: RedisProcess, session: str, noticed_by: str
) -> None:
    """A replica that lacked the newest writes took over: the session's keys go back in time."""
    kept = await publish(hub, session, [note("a"), note("b"), note("c")])
    async with (
        Watcher(hub, session, "control=1") as control,
        Watcher(other, session, "control=1") as far,
        Watcher(hub, session) as plain,
    ):
        before = await saved(redis.url, session)
        lost = await publish(hub, session, [note("lost"), note("lost too")])
        for watcher in (control, far, plain):
            await watcher.sees([verdict["id"] for verdict in [*kept, *lost]])
        await restore(redis.url, session, before)
        after = note("after")
        if noticed_by == "publish":
            await publish(other, session, after)
        wanted = [*(verdict["id"] for verdict in kept), after["id"]]
        epochs = set[str]()
        for watcher in (control, far):
            epochs.add((await watcher.sees_frame("reset")).json()["epoch"])
        if noticed_by == "head-check":
            await publish(other, session, after)
        for watcher in (control, far):
            frames = await watcher.stream.until(
                lambda frame: is_event(frame) and frame.json()["id"] == after["id"]
            )
            assert [event["id"] for event in events_of(frames)] == wanted
            epochs.update(place_of(f.id).epoch for f in frames if is_event(f))
        assert len(epochs) == 1, "all hubs agree on the new epoch"
        assert place_of(lost[0]["cursor"]).epoch not in epochs
        frames = await plain.stream.drain()
        assert frames[-1].json()["reason"] == "reset"
    path = f"/v1/sessions/{session}/sse?since_id={lost[1]['cursor']}"
    async with open_stream(other, path) as stream:
        assert (await stream.next()).json()["gap"]["reason"] == "epoch_changed"


@proves("redis-lost-writes", "gap-check")
async def test_viewer_that_was_away_when_writes_were_lost_is_found_out(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    """Other events were given its numbers meanwhile; its cursor's check tells."""
    kept = await publish(hub, session, [note("a"), note("b")])
    before = await saved(redis.url, session)
    lost = await publish(hub, session, [note("lost"), note("lost too")])
    await restore(redis.url, session, before)
    fresh = await publish(hub, session, [note("c"), note("d"), note("e")])
    path = f"/v1/sessions/{session}/sse?control=1&since_id={lost[1]['cursor']}"
    async with open_stream(hub, path) as stream:
        frames = await stream.until("caught_up")
    assert frames[0].json()["gap"]["reason"] == "epoch_changed"
    assert [e["id"] for e in events_of(frames)] == [v["id"] for v in [*kept, *fresh]]


async def saved(url: str, session: str) -> dict[bytes, bytes]:
    """The state of a session as Redis would write it to a replica."""
    keys = await admin(url, "KEYS", f"sw:{{{session}}}:*", decode=False)
    return {key: await admin(url, "DUMP", key, decode=False) for key in keys}


async def restore(url: str, session: str, state: dict[bytes, bytes]) -> None:
    """Put a session back to what it was."""
    for key in await admin(url, "KEYS", f"sw:{{{session}}}:*", decode=False):
        if key not in state:
            await admin(url, "DEL", key)
    for key, value in state.items():
        await admin(url, "RESTORE", key, 0, value, "REPLACE")


@proves("redis-flush")
async def test_lost_state_of_one_session_does_not_hurt_another(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    other = new_session()
    await publish(hub, session, note("a"))
    kept = Publisher(hub, other)
    await kept.one()
    async with Watcher(hub, other) as watcher, Watcher(hub, session, "control=1") as lost:
        for key in await admin(redis.url, "KEYS", f"sw:{{{session}}}:*"):
            await admin(redis.url, "DEL", key)
        await publish(hub, session, note("b"))
        await lost.sees_frame("reset")
        await kept.one()
        await watcher.sees(kept.ids)


@proves("redis-scripts")
async def test_flushed_scripts_are_not_noticed(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    publisher = Publisher(hub, session)
    await publisher.one()

    async def pour() -> None:
        for n in range(100):
            await publisher.batch([delta(f"m{n}", "x"), note(f"b{n}")])

    async with Watcher(hub, session) as watcher:
        async with anyio.create_task_group() as group:
            group.start_soon(pour)
            for _ in range(10):
                await admin(redis.url, "SCRIPT", "FLUSH")
                async with Watcher(hub, session) as fresh:
                    await fresh.sees(publisher.ids[:1])
        await watcher.sees(publisher.ids)
    assert publisher.refusals == []


@proves("redis-pause")
async def test_stalled_redis_loses_and_repeats_nothing(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    publisher = Publisher(hub, session)
    await publisher.one()
    async with Watcher(hub, session) as watcher:
        await admin(redis.url, "CLIENT", "PAUSE", "2500", "ALL")
        for _ in range(10):
            await publisher.one()
        await watcher.sees(publisher.ids)
    assert {code for _, code in publisher.refusals} <= {"redis_unavailable"}


@proves("redis-black-hole", "ready")
async def test_dead_redis_connections_are_noticed_and_replaced(
    other: HubProcess, redis: RedisProcess, session: str
) -> None:
    """The hub's flows die without FIN or RST; Redis itself is well and gets events by others.

    Heads are not read meanwhile, so it is the probe that finds out.
    """
    settings = {**IMPATIENT, "head_check_s": 120}
    async with (
        FaultProxy("127.0.0.1", redis.port) as proxy,
        hub_on(f"redis://127.0.0.1:{proxy.port}", settings) as hub,
    ):
        publisher = Publisher(other, session)
        await publisher.one()
        async with Watcher(hub, session) as watcher:
            await watcher.sees(publisher.ids)
            before = proxy.connections
            proxy.freeze()
            for _ in range(5):
                await publisher.one()
            await watcher.sees(publisher.ids, timeout=10)
            assert proxy.connections > before
            proxy.black_hole = True
            await ready(hub, False)
            await publisher.one()
            proxy.black_hole = False
            await ready(hub, True)
            await watcher.sees(publisher.ids)


@proves("redis-restart")
async def test_resets_between_hub_and_redis_lose_and_repeat_nothing(
    redis: RedisProcess, session: str
) -> None:
    async with (
        FaultProxy("127.0.0.1", redis.port) as proxy,
        hub_on(f"redis://127.0.0.1:{proxy.port}", IMPATIENT) as hub,
    ):
        publisher = Publisher(hub, session)
        await publisher.one()

        async def cut() -> None:
            for _ in range(12):
                await anyio.sleep(0.4)
                proxy.reset_all()

        async def pour() -> None:
            for n in range(300):
                await publisher.batch([delta(f"m{n}", "x"), note(str(n))])
                await anyio.sleep(0.01)

        async with Watcher(hub, session) as there:
            async with anyio.create_task_group() as group:
                group.start_soon(cut)
                group.start_soon(pour)
            await there.sees(publisher.ids)
        async with Watcher(hub, session) as late:
            await late.sees(publisher.ids)
        assert len(set(publisher.ids)) == len(publisher.ids) == 301


@proves("redis-full")
async def test_full_redis_refuses_publishes_and_serves_reads(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    told = await publish(hub, session, [note(), note()])
    await admin(redis.url, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    await admin(redis.url, "CONFIG", "SET", "maxmemory", "1mb")
    answer = await try_publish(hub, session, json.dumps(note()).encode())
    assert (answer.status, answer.code) == (507, "storage_full")
    listed = await call(hub, "GET", f"/v1/sessions/{session}/events")
    assert len(listed["data"]) == 2
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up")
        assert [event["id"] for event in events_of(frames)] == [v["id"] for v in told]
        await admin(redis.url, "CONFIG", "SET", "maxmemory", "0")
        after = (await publish(hub, session, note()))[0]
        assert after["sequence"] == 3
        assert (await stream.next()).id == after["cursor"]
