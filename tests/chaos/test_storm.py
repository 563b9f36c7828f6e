"""Many viewers at random places, a publisher at full speed, two hubs, broken subscriptions."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.chaos.follower import Follower, numbered
from tests.chaos.hubs import Publisher, Watcher, admin, hub_on
from tests.chaos.proxy import FaultProxy
from tests.contract._requirements import proves
from tests.contract.events import call, new_session, note, place_of, publish
from tests.contract.wire import Connection, Server, eventually
from tests.hub_process import HubProcess
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

VIEWERS = 2_000
AT_ONCE = 64
BACKLOG = 150
"""A viewer starts at most so many durable events back, so that each run is the same work."""
LIVE = 25
"""Every viewer stays until so many events were published after it came."""
KILL_EVERY_S = 0.5


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    return {"channel_linger_s": 1}


@dataclass
class Source:
    """One session that is published to without a pause."""

    session: str
    cursors: list[str] = field(default_factory=list[str])
    """Cursors of everything stored so far."""
    sequence: int = 0
    done: bool = False

    async def pour(self, hubs: list[HubProcess], pick: random.Random) -> None:
        """Publish batches of both kinds through either hub until told to stop."""
        connections = [Connection(hub) for hub in hubs]
        path = f"/v1/sessions/{self.session}/events"
        while not self.done:
            number, batch = self.sequence, list[bytes]()
            for _ in range(pick.randint(1, 8)):
                passing = pick.random() < 0.4 and number > 0
                number += not passing
                batch.append(numbered(number, passing=passing))
            body = b"[" + b",".join(batch) + b"]"
            said = await call(pick.choice(connections), "POST", path, body=body)
            self.cursors += [str(verdict["cursor"]) for verdict in said["data"]]
            self.sequence = number
        for connection in connections:
            connection.close()

    def some_cursor(self, pick: random.Random) -> str:
        return pick.choice(self.cursors[-2 * BACKLOG :])


@pytest.mark.timeout(240)
@proves("storm", "replay-boundary", "redis-pubsub-kill", "two-hubs", "numbers-dense")
async def test_two_thousand_viewers_at_random_places_lose_and_repeat_nothing(
    hub: HubProcess, other: HubProcess, redis: RedisProcess
) -> None:
    pick = random.Random(7)
    sources = [Source(new_session("storm")) for _ in range(3)]
    hubs = [hub, other]
    limiter = anyio.CapacityLimiter(AT_ONCE)
    finished = 0
    kills = 0

    async def view(source: Source) -> None:
        nonlocal finished
        async with limiter:
            follower = Follower(pick.choice(hubs), source.session, source.some_cursor(pick))
            until = source.sequence + LIVE
            await follower.run(until, rude=pick.random() < 0.5)
            finished += 1

    async def kill() -> None:
        nonlocal kills
        while True:
            await anyio.sleep(KILL_EVERY_S)
            kills += int(await admin(redis.url, "CLIENT", "KILL", "TYPE", "pubsub"))

    async with anyio.create_task_group() as group:
        for source in sources:
            group.start_soon(source.pour, hubs, random.Random(source.session))

        async def begun() -> bool:
            return all(source.sequence > BACKLOG for source in sources)

        await eventually(begun, "something is published", timeout=30)
        group.start_soon(kill)
        whole = [Follower(server, s.session, _start(s)) for s in sources for server in hubs]
        ends = dict[str, int]()
        async with anyio.create_task_group() as viewers:
            for n in range(VIEWERS):
                viewers.start_soon(view, sources[n % 3])
        for source in sources:
            source.done = True

        async def quiet() -> bool:
            for source in sources:
                seen = await call(hub, "GET", f"/v1/sessions/{source.session}")
                ends[source.session] = seen["sequence"]
            return all(ends[source.session] == source.sequence for source in sources)

        await eventually(quiet, "the publishers have stopped")
        for follower in whole:
            place = await follower.run(ends[follower.session])
            assert place.sequence == ends[follower.session]
        group.cancel_scope.cancel()
    assert finished == VIEWERS
    assert kills > 10


def _start(source: Source) -> str:
    place = place_of(source.cursors[0])
    return f"{place.epoch}.0.0.0"


@proves("replay-boundary")
async def test_slow_redis_reads_do_not_open_a_hole_between_replay_and_live(
    other: HubProcess, redis: RedisProcess, session: str
) -> None:
    """Latency between hub and Redis widens the moment between subscribing and meeting live."""
    async with (
        FaultProxy("127.0.0.1", redis.port) as proxy,
        hub_on(f"redis://127.0.0.1:{proxy.port}", {"channel_linger_s": 0}) as slow,
    ):
        source = Source(session)
        async with anyio.create_task_group() as group:
            group.start_soon(source.pour, [other], random.Random(1))

            async def begun() -> bool:
                return source.sequence > 50

            await eventually(begun, "something is published")
            proxy.latency_s = 0.02
            pick = random.Random(2)
            for _ in range(15):
                async with anyio.create_task_group() as viewers:
                    for _ in range(4):
                        follower = Follower(slow, session, source.some_cursor(pick))
                        viewers.start_soon(follower.run, source.sequence + 20)
            source.done = True


@proves("redis-pubsub-kill", "redis-connections")
async def test_hundred_sessions_are_subscribed_again_after_each_kill(
    hub: HubProcess, redis: RedisProcess
) -> None:
    publishers = [Publisher(hub, new_session()) for _ in range(100)]
    for publisher in publishers:
        await publisher.one()
    before = int((await admin(redis.url, "INFO", "clients"))["connected_clients"])
    watchers = [Watcher(hub, p.session) for p in publishers for _ in range(3)]
    for watcher in watchers:
        await watcher.__aenter__()
    after = int((await admin(redis.url, "INFO", "clients"))["connected_clients"])
    assert after - before < 5, "Redis connections grow with viewers"
    for _ in range(3):
        for _ in range(2):
            await admin(redis.url, "CLIENT", "KILL", "TYPE", "pubsub")
            await anyio.sleep(0.02)
        for publisher in publishers:
            await publisher.one()
    for n, watcher in enumerate(watchers):
        await watcher.sees(publishers[n // 3].ids)
    assert await _subscriptions(redis.url) == {
        f"sw:{{{publisher.session}}}:live": 1 for publisher in publishers
    }
    for watcher in watchers:
        await watcher.__aexit__(None, None, None)

    async def is_quiet() -> bool:
        return await _subscriptions(redis.url) == {}

    await eventually(is_quiet, "sessions without viewers are unsubscribed", timeout=20)


async def _subscriptions(url: str) -> dict[str, int]:
    """Shard channels of sessions that somebody listens to, with the number of listeners."""
    names: list[Any] = await admin(url, "PUBSUB", "SHARDCHANNELS", "sw:*:live")
    if not names:
        return {}
    counts: list[Any] = await admin(url, "PUBSUB", "SHARDNUMSUB", *names)
    return {str(name): int(n) for name, n in zip(counts[::2], counts[1::2], strict=True) if n}


@proves("redis-output-buffer")
async def test_subscriber_dropped_by_redis_misses_nothing(session: str) -> None:
    """Redis cuts off a hub that reads too slowly; the hub goes back to the log."""
    limit = ["--client-output-buffer-limit", "pubsub 1mb 0 0"]
    with RedisProcess(*limit) as redis:
        async with hub_on(redis.url) as hub, hub_on(redis.url) as other:
            publisher = Publisher(other, session)
            await publisher.one()
            async with Watcher(hub, session) as watcher:
                await watcher.sees(publisher.ids)
                os.kill(hub.pid, signal.SIGSTOP)
                try:
                    for _ in range(40):
                        await publisher.batch([note("x" * 2_000) for _ in range(16)])
                        await publisher.batch([note("y" * 500_000)])
                finally:
                    os.kill(hub.pid, signal.SIGCONT)
                await watcher.sees(publisher.ids, timeout=40)


@proves("hub-killed", "two-hubs")
async def test_viewers_of_a_killed_hub_go_on_at_another(
    other: HubProcess, redis: RedisProcess, session: str
) -> None:
    async with hub_on(redis.url) as dying:
        publisher = Publisher(other, session)
        for _ in range(5):
            await publisher.one()
        async with Watcher(dying, session) as watcher:
            await watcher.sees(publisher.ids)
            last = watcher.reading.place
            await anyio.to_thread.run_sync(dying.kill)
            await publisher.one()
            assert await watcher.stream.read() is None
        seen = watcher.reading.durable
        async with Watcher(other, session, f"since_id={last}") as again:
            await publisher.one()
            await again.sees(publisher.ids[5:])
        assert seen + again.reading.durable == publisher.ids


@proves("publisher-retry", "idempotent")
async def test_publish_whose_answer_was_lost_can_be_sent_again(
    hub: HubProcess, session: str
) -> None:
    async with FaultProxy(hub.host, hub.port) as proxy:

        @dataclass
        class Through:
            host: str
            port: int
            key: str

        through: Server = Through("127.0.0.1", proxy.port, hub.key)
        publisher = Publisher(through, session)
        sent = [note(str(n)) for n in range(30)]
        for n, event in enumerate(sent):
            proxy.cut_after = 3 if n % 3 == 0 else None
            async with anyio.create_task_group() as group:
                group.start_soon(publisher.one, event)
                await anyio.sleep(0.05)
                proxy.cut_after = None
        assert publisher.ids == [event["id"] for event in sent]
        assert publisher.duplicates >= 8, "the cut answers were stored"
        listed = await call(hub, "GET", f"/v1/sessions/{session}/events")
        assert [event["id"] for event in listed["data"]] == publisher.ids
        assert (await publish(hub, session, sent[0]))[0]["duplicate"] is True
