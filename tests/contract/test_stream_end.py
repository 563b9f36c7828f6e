"""How streams end: deletion, limits, cycling, keys that stop (protocol.md §4, §6)."""

from __future__ import annotations

import json
import time

import anyio
import pytest

from tests.contract._requirements import proves
from tests.contract.events import Reading, call, is_event, new_session, note, publish, turn
from tests.contract.wire import EventStream, eventually, open_stream, request
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio


@proves("session-delete", "no-content")
async def test_deleted_session_ends_its_streams_and_stops_browsers(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    before = await publish(hub, session, note())
    async with (
        open_stream(hub, f"/v1/sessions/{session}/sse") as near,
        open_stream(other_hub, f"/v1/sessions/{session}/sse") as far,
    ):
        await near.take(2)
        await far.take(2)
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        for stream in (near, far):
            frames = await stream.drain()
            assert [frame.event for frame in frames] == ["disconnecting"]
            assert frames[0].json()["reason"] == "deleted"
            assert isinstance(frames[0].json()["retry_ms"], int)
    for server in (hub, other_hub):
        answer = await request(server, "GET", f"/v1/sessions/{session}/sse")
        assert (answer.status, answer.body) == (204, b"")
        answer = await request(server, "GET", f"/v1/sessions/{session}")
        assert (answer.status, answer.code) == (404, "session_not_found")
        body = json.dumps(note()).encode()
        answer = await request(server, "POST", f"/v1/sessions/{session}/events", body=body)
        assert (answer.status, answer.code) == (410, "session_deleted")
    await call(hub, "POST", "/v1/sessions", status=201, body=json.dumps({"id": session}).encode())
    after = await publish(other_hub, session, note())
    assert after[0]["sequence"] == 1
    assert after[0]["cursor"].split(".")[0] != before[0]["cursor"].split(".")[0]


@proves("viewer-limit")
async def test_full_session_answers_429(redis_url: str) -> None:
    session = new_session()
    with running_hub(redis_url, env={"max_viewers_per_session": 2}) as hub:
        await publish(hub, session, note())
        path = f"/v1/sessions/{session}/sse"
        async with open_stream(hub, path) as first, open_stream(hub, path) as second:
            await first.next()
            await second.next()
            answer = await request(hub, "GET", path)
            assert answer.status == 429, answer
            assert answer.code
            assert int(answer.headers["retry-after"]) >= 1

        async def is_free() -> bool:
            async with open_stream(hub, path, expect=(200, 429)) as stream:
                return stream.status == 200

        await eventually(is_free, "the places of viewers that left are free")


@proves("cycle")
async def test_cycled_viewer_loses_and_repeats_nothing(redis_url: str) -> None:
    session = new_session()
    sent: list[str] = []
    with running_hub(redis_url, env={"max_connection_s": 1}) as hub:
        first = (await publish(hub, session, note()))[0]
        reading = Reading(first["cursor"])
        ages: list[float] = []

        async def publish_all() -> None:
            for n in range(300):
                verdict = (await publish(hub, session, note(str(n))))[0]
                sent.append(verdict["id"])
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as group:
            group.start_soon(publish_all)
            with anyio.fail_after(60):
                while len(reading.durable) < 300:
                    began = time.monotonic()
                    path = f"/v1/sessions/{session}/sse?since_id={reading.place}"
                    async with open_stream(hub, path) as stream:
                        assert (await stream.next()).json()["gap"] is None
                        await _read_cycle(stream, reading, 300)
                        if len(reading.durable) < 300:
                            ages.append(time.monotonic() - began)
    assert reading.durable == sent
    assert len(ages) >= 2
    assert all(0.7 < age < 2.0 for age in ages), ages


async def _read_cycle(stream: EventStream, reading: Reading, until: int) -> None:
    """Read until the hub has ended the stream as announced, or all is there."""
    while (frame := await stream.read()) is not None:
        reading.take([frame])
        if len(reading.durable) >= until:
            return
        if frame.event == "disconnecting":
            assert frame.json()["reason"] == "connection_cycle"
            assert frame.json()["retry_ms"] > 0
            assert await stream.read() is None, "disconnecting is the last frame"
            return
    raise AssertionError("the stream ended without a word")


@proves("disconnect-seen")
async def test_viewers_that_leave_are_forgotten(hub: HubProcess, session: str) -> None:
    await publish(hub, session, turn())

    async def becomes(count: int) -> None:
        async def is_so() -> bool:
            return bool((await call(hub, "GET", f"/v1/sessions/{session}"))["viewers"] == count)

        await eventually(is_so, f"{count} viewers")

    path = f"/v1/sessions/{session}/sse"
    async with open_stream(hub, path) as polite, open_stream(hub, path) as rude:
        await polite.next()
        await rude.next()
        await becomes(2)
        rude.connection.reset()
        await becomes(1)
        await publish(hub, session, turn(2))
        assert is_event((await polite.take(2))[-1])
    await becomes(0)
