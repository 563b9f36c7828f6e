"""Connections in numbers and in pieces: drains, leaks, cuts, single bytes (protocol.md §6)."""

from __future__ import annotations

import random
import time
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.chaos.hubs import Publisher, admin, hub_on
from tests.chaos.proxy import FaultProxy
from tests.contract._requirements import proves
from tests.contract.events import (
    Reading,
    delta,
    events_of,
    is_event,
    new_session,
    note,
    publish,
)
from tests.contract.wire import Connection, EventStream, Frame, eventually, head_of, open_stream
from tests.hub_process import HubProcess
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

CROWD = 500
DRAIN_S = 3.0


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    return {"channel_linger_s": 0.5, "heartbeat_s": 0.5, "send_timeout_s": 2}


class Through:
    """A hub behind a proxy."""

    def __init__(self, hub: HubProcess, proxy: FaultProxy) -> None:
        self.host, self.port, self.key = "127.0.0.1", proxy.port, hub.key


@pytest.mark.parametrize("crowd", [1, CROWD])
@proves("drain", "drain-idle-exit")
async def test_sigterm_tells_every_viewer_and_ends_with_zero(
    redis: RedisProcess, crowd: int
) -> None:
    sessions = [new_session() for _ in range(min(crowd, 20))]
    async with hub_on(redis.url, {"drain_s": DRAIN_S}) as hub:
        for session in sessions:
            await publish(hub, session, note())
        ends: list[float] = []
        lasts: list[Frame] = []
        ready = 0

        async def idle(session: str) -> None:
            nonlocal ready
            async with open_stream(hub, f"/v1/sessions/{session}/sse", timeout=30) as stream:
                await stream.take(2, timeout=30)
                ready += 1
                frames = await stream.drain(timeout=40)
                ends.append(time.monotonic())
                lasts.append(frames[-1])
                assert len(frames) == 1
                assert stream.body == b"", "the stream ends after a whole frame"

        began = 0.0

        async def end_it() -> None:
            nonlocal began

            async def all_ready() -> bool:
                return ready == crowd

            await eventually(all_ready, "all viewers are there", timeout=30)
            began = time.monotonic()
            hub.terminate()
            assert await anyio.to_thread.run_sync(hub.wait) == 0
            assert time.monotonic() - began < DRAIN_S + 4

        async with anyio.create_task_group() as group:
            for n in range(crowd):
                group.start_soon(idle, sessions[n % len(sessions)])
            group.start_soon(end_it)
    assert {frame.event for frame in lasts} == {"disconnecting"}
    assert {frame.json()["reason"] for frame in lasts} == {"shutdown"}
    assert all(frame.json()["retry_ms"] > 0 for frame in lasts)
    if crowd > 1:
        after = sorted(end - began for end in ends)
        spread = after[crowd * 95 // 100] - after[crowd * 5 // 100]
        assert spread > DRAIN_S / 3, f"all end within {spread:.2f} s"
        assert len({frame.json()["retry_ms"] for frame in lasts}) > 10


@pytest.mark.timeout(180)
@proves("no-leak", "disconnect-seen")
async def test_thousands_of_connections_leave_nothing_behind(
    hub: HubProcess, redis: RedisProcess
) -> None:
    sessions = [new_session("leak") for _ in range(40)]
    pick = random.Random(3)
    for session in sessions:
        await publish(hub, session, [note() for _ in range(20)])
    await _rush(hub, sessions, pick, 300)
    await _settle(hub, redis.url)
    before = await _state(hub, redis)
    await _rush(hub, sessions, pick, 2_000)
    await _settle(hub, redis.url)
    after = await _state(hub, redis)
    assert after["descriptors"] <= before["descriptors"] + 2
    for name in ("sessionwire_viewers", "sessionwire_channels"):
        assert (name, after[name]) == (name, 0)
    assert after["sessionwire_tasks"] <= before["sessionwire_tasks"] + 2
    assert after["memory"] < before["memory"] + 8 * 1024, "KiB"


async def _rush(hub: HubProcess, sessions: list[str], pick: random.Random, count: int) -> None:
    """Open and leave `count` streams in every way a viewer can."""
    limiter = anyio.CapacityLimiter(50)

    async def visit(way: int, session: str) -> None:
        async with limiter, Connection(hub) as connection:
            path = f"/v1/sessions/{session}/sse?control=1"
            if way == 0:
                await connection.send(head_of(hub, "GET", path, {})[:40])
            elif way == 1:
                await connection.send(head_of(hub, "GET", path, {}))
            else:
                async with open_stream(hub, path, timeout=30) as stream:
                    await stream.next(timeout=30)
                    if way == 2:
                        await stream.until("caught_up", timeout=30)
                    if way > 3:
                        stream.connection.reset()
            if way in (1, 3):
                connection.reset()

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(visit, pick.randrange(5), pick.choice(sessions))


async def _settle(hub: HubProcess, url: str) -> None:
    async def is_quiet() -> bool:
        return bool(await admin(url, "PUBSUB", "SHARDCHANNELS", "sw:*:live") == [])

    await eventually(is_quiet, "nobody listens any more", timeout=20)

    async def is_small() -> bool:
        return _viewers(hub) == 0

    await eventually(is_small, "no viewer is counted", timeout=10)


def _viewers(hub: HubProcess) -> float:
    named = {n: v for n, v in hub.metrics().items() if "viewers" in n and "total" not in n}
    assert named, "no metric counts the viewers"
    return sum(named.values())


async def _state(hub: HubProcess, redis: RedisProcess) -> dict[str, float]:
    """Its metrics, its memory, and its descriptors but for the pooled connections to Redis."""
    pooled = int((await admin(redis.url, "INFO", "clients"))["connected_clients"])
    seen = {"descriptors": float(hub.descriptors() - pooled), "memory": float(hub.private_kib())}
    return {**hub.metrics(), **seen}


@proves("any-chunking")
async def test_single_bytes_read_the_same(hub: HubProcess, session: str) -> None:
    sent = [note(f"🙂 漢 é {n}") for n in range(150)]
    async with FaultProxy(hub.host, hub.port) as proxy:
        proxy.chunk = 1
        await publish(hub, session, sent)
        path = f"/v1/sessions/{session}/sse?control=1"
        async with open_stream(Through(hub, proxy), path, timeout=30) as stream:
            frames = await stream.until("caught_up", timeout=60)
        assert events_of(frames) == sent


@proves("cut-anywhere", "publish-forms")
async def test_stream_cut_at_any_byte_resumes_whole(hub: HubProcess, session: str) -> None:
    """A block without its blank line is not there; the cursor before it brings it again."""
    pick = random.Random(5)
    sent: list[dict[str, Any]] = []
    for n in range(120):
        sent += [note(f"é {n}"), delta(f"m{n}", "🙂")]
    async with FaultProxy(hub.host, hub.port) as proxy:
        told = await publish(hub, session, sent)
        through = Through(hub, proxy)
        cursor = ""
        frames: list[Frame] = []
        cuts = 0
        with anyio.fail_after(60):
            while not frames or frames[-1].id != told[-1]["cursor"]:
                proxy.cut_after = pick.randint(500, 4_000)
                got, cursor = await _some(through, session, cursor, told[-1]["cursor"])
                frames += got
                cuts += 1
        assert cuts > 10
        assert events_of(frames) == sent
        Reading(f"{told[0]['cursor'].split('.')[0]}.0.0.0").take(frames)


async def _some(server: Through, session: str, cursor: str, last: str) -> tuple[list[Frame], str]:
    """Come back as a browser would, and read up to `last` or until the connection is cut."""
    headers: dict[str, str | bytes] = {"Last-Event-ID": cursor}
    got: list[Frame] = []
    async with open_stream(server, f"/v1/sessions/{session}/sse", headers=headers) as stream:
        while cursor != last and (frame := await stream.read()) is not None:
            if frame.id is not None:
                cursor = frame.id
            if frame.event == "connected":
                assert frame.json()["gap"] is None
            if is_event(frame):
                got.append(frame)
    return got, cursor


@proves("disconnect-seen")
async def test_viewer_that_vanished_without_a_word_is_forgotten(
    hub: HubProcess, session: str
) -> None:
    """Its packets are dropped: neither FIN nor RST ever comes, and nothing is read any more."""
    async with FaultProxy(hub.host, hub.port) as proxy:
        publisher = Publisher(hub, session)
        await publisher.one()
        async with open_stream(Through(hub, proxy), f"/v1/sessions/{session}/sse") as stream:
            await stream.take(2)
            assert _viewers(hub) == 1
            proxy.freeze()

            async def is_forgotten() -> bool:
                await publisher.batch([note("x" * 200_000) for _ in range(4)])
                return _viewers(hub) == 0

            await eventually(is_forgotten, "the lost viewer is let go", timeout=30)


@proves("cycle", "drain")
async def test_viewer_of_a_restarted_hub_goes_on_where_it_was(
    hub: HubProcess, redis: RedisProcess, session: str
) -> None:
    """A rolling restart: the second hub is there before the first drains."""
    async with hub_on(redis.url, {"drain_s": 0.5}) as old:
        publisher = Publisher(old, session)
        for _ in range(5):
            await publisher.one()
        async with open_stream(old, f"/v1/sessions/{session}/sse") as stream:
            reading = Reading(await stream.next())
            reading.take(await stream.take(5))
            publisher.server = hub
            old.terminate()
            await publisher.one()
            reading.take(await _rest(stream))
            cursor = str(reading.place)
            path = f"/v1/sessions/{session}/sse?since_id={cursor}&control=1"
            async with open_stream(hub, path) as again:
                reading.take(await again.until("caught_up"))
    assert reading.durable == publisher.ids


async def _rest(stream: EventStream) -> list[Frame]:
    frames = await stream.drain()
    assert frames[-1].event == "disconnecting"
    return frames[:-1]
