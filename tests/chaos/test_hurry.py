"""Clients that come, go and give up faster than anything is answered, and ones that only wait."""

from __future__ import annotations

import random

import anyio
import pytest

from tests.chaos.hubs import Publisher, Watcher, hub_on
from tests.contract._requirements import proves
from tests.contract.events import Reading, call
from tests.contract.wire import Connection, eventually, head_of, open_stream
from tests.hub_process import HubProcess
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

BRIEF: dict[str, object] = {
    "channel_linger_s": 0,
    "heartbeat_s": 0.3,
    "redis_timeout_s": 0.5,
    "probe_s": 0.5,
    "head_check_s": 0.5,
    "send_timeout_s": 0.5,
}


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    return BRIEF


@proves("publisher-retry", "publish-atomic")
async def test_publishers_that_give_up_take_nobody_along(hub: HubProcess, session: str) -> None:
    """Whether their events are stored or not, there is no hole and those who wait are answered."""
    pick = random.Random(11)
    body = b'[{"timestamp":"2026-08-21T09:31:03Z","type":"session.info","data":{"n":%d}}]'
    path = f"/v1/sessions/{session}/events"

    async def give_up(n: int) -> None:
        async with Connection(hub) as connection:
            whole = body % n
            size = {"Content-Type": "application/json", "Content-Length": str(len(whole))}
            await connection.send(head_of(hub, "POST", path, size) + whole)
            await anyio.sleep(pick.uniform(0, 0.02))
            connection.reset()

    publisher = Publisher(hub, session)
    await publisher.one()
    async with anyio.create_task_group() as group:
        for n in range(200):
            group.start_soon(give_up, n)
        for _ in range(50):
            await publisher.one()
    assert publisher.refusals == []
    listed = (await call(hub, "GET", path))["data"]
    ids = [event["id"] for event in listed]
    assert [each for each in ids if each in set(publisher.ids)] == publisher.ids
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up")
    assert Reading(frames[0]).take(frames[1:]).durable == ids


@proves("replay-boundary", "every-cursor")
async def test_viewer_that_comes_back_at_once_goes_on_where_it_was(
    hub: HubProcess, session: str
) -> None:
    """A session is unsubscribed with its last viewer and subscribed with the next, all the time."""
    pick = random.Random(13)
    publisher = Publisher(hub, session)
    await publisher.one()
    durable: list[str] = []
    done = False

    async def pour() -> None:
        while not done:
            await publisher.one()

    async with anyio.create_task_group() as group:
        group.start_soon(pour)
        cursor = "0"
        for _ in range(150):
            start = "after_sequence=0" if cursor == "0" else f"since_id={cursor}"
            path = f"/v1/sessions/{session}/sse?{start}"
            async with open_stream(hub, path) as stream:
                connected = await stream.next()
                assert connected.json()["gap"] is None
                reading = Reading(connected)
                with anyio.move_on_after(pick.uniform(0, 0.05)):
                    while True:
                        reading.take([await stream.next()])
                cursor = str(reading.place)
                durable += reading.durable
                stream.connection.reset()
        done = True
    assert durable == publisher.ids[: len(durable)]
    assert len(durable) > 100


@proves("heartbeat", "redis-connections")
async def test_idle_stream_outlives_every_timeout(hub: HubProcess, session: str) -> None:
    """Nothing happens for several times as long as anything at the hub is allowed to take."""
    publisher = Publisher(hub, session)
    await publisher.one()
    async with Watcher(hub, session) as watcher:
        await watcher.sees(publisher.ids)
        beats = 0
        with anyio.fail_after(10):
            while beats < 7:
                frame = await watcher.stream.read()
                assert frame is not None
                assert frame.comments == ("heartbeat",)
                beats += 1
        await publisher.one()
        await watcher.sees(publisher.ids)
    assert publisher.refusals == []


@proves("heartbeat", "no-leak")
async def test_heartbeats_without_pause_are_no_trouble(redis: RedisProcess, session: str) -> None:
    """A beat is due as often as anything else happens to streams that end at random."""
    pick = random.Random(17)
    async with hub_on(redis.url, {**BRIEF, "heartbeat_s": 0.001}) as hub:
        publisher = Publisher(hub, session)
        await publisher.one()

        async def visit() -> None:
            async with open_stream(hub, f"/v1/sessions/{session}/sse", timeout=30) as stream:
                reading = Reading(await stream.next(timeout=30))
                with anyio.move_on_after(pick.uniform(0, 1)):
                    while True:
                        reading.take([await stream.next(timeout=30)])
                if pick.random() < 0.5:
                    stream.connection.reset()

        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(visit)
            for _ in range(20):
                await publisher.one()

        async def is_empty() -> bool:
            return hub.metrics()["sessionwire_viewers"] == 0

        await eventually(is_empty, "every viewer is forgotten")
        assert " ERROR " not in hub.log_text()
