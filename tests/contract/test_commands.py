"""Commands and the host that reads them (protocol.md §9)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from sessionwire_server.keys import live_channel
from sessionwire_server.redis_link import RedisLink
from tests.contract._requirements import proves
from tests.contract.events import call, copilot, note, publish
from tests.contract.test_publish import check_problem
from tests.contract.wire import Answer, EventStream, Frame, eventually, open_stream, request
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio


def commands(session: str, *parts: str) -> str:
    return "/".join((f"/v1/sessions/{session}/commands", *(quote(part, safe="") for part in parts)))


async def post(hub: HubProcess, path: str, body: Any, **more: Any) -> Answer:
    return await request(hub, "POST", path, body=json.dumps(body).encode(), **more)


async def send(hub: HubProcess, session: str, **command: Any) -> Any:
    """Send a command that is taken."""
    answer = await post(hub, commands(session), {"type": "x.test", **command})
    assert answer.status == 202, answer
    return answer.json()


async def acknowledge(
    hub: HubProcess, session: str, cid: str, outcome: str = "consumed", **more: Any
) -> Answer:
    return await post(hub, commands(session, cid, "ack"), {"outcome": outcome, **more})


async def waited(hub: HubProcess, session: str, cid: str) -> str:
    """The status after the next change."""
    return await status(hub, session, cid, "?wait_s=30")


async def listened(link: RedisLink, session: str, hubs: int) -> None:
    """Wait until so many hubs listen to a session."""
    channel = live_channel(session)

    async def is_so() -> bool:
        (count,) = (await link.command("PUBSUB", "SHARDNUMSUB", channel))[1::2]
        return bool(count >= hubs)

    await eventually(is_so, "the hubs listen")


async def status(hub: HubProcess, session: str, cid: str, wait: str = "") -> str:
    return str((await call(hub, "GET", commands(session, cid) + wait, timeout=35))["status"])


@asynccontextmanager
async def hosting(
    hub: HubProcess, session: str, query: str = "", **more: Any
) -> AsyncGenerator[tuple[EventStream, Any]]:
    """Be the host of a session; its stream, and what `connected` said."""
    async with open_stream(hub, f"{commands(session)}/sse{query}", **more) as stream:
        first = await stream.next()
        assert first.event == "connected"
        told = first.json()
        assert first.id == told["cursor"]
        assert first.retry
        assert set(told) == {"lease", "cursor", "expires_at"}
        yield stream, told


def read(frames: Sequence[Frame]) -> list[Any]:
    """The commands of frames."""
    read = [frame.json() for frame in frames]
    assert {frame.event for frame in frames} <= {"command"}
    assert [frame.id for frame in frames] == [each["cursor"] for each in read]
    return read


@pytest.fixture
async def session(hub: HubProcess, session: str) -> str:
    """A session that exists."""
    await publish(hub, session, note())
    return session


@proves("command-receipts", "command-told")
async def test_a_command_goes_through_its_states(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    data = b'{"mode":"enqueue","prompt":"h\xc3\xa9","n":1.50}'
    body = b'{"id":"c/1","type":"message.send","data":%b}' % data
    answer = await request(hub, "POST", commands(session), body=body)
    assert (answer.status, answer.json()["status"]) == (202, "accepted")
    async with hosting(other_hub, session) as (stream, told):
        (command,) = read(await stream.take(1))
        assert b'"data":%b,' % data in stream.frames[-1].raw
        assert command["cursor"] == answer.json()["cursor"]
        assert command["by"]["human"] is True
        assert (command["id"], command["type"], command["attempt"]) == ("c/1", "message.send", 1)
        done = await acknowledge(hub, session, "c/1", event_id="e1", lease=told["lease"])
        assert (done.status, done.json()["status"]) == (200, "consumed")
    seen = await call(hub, "GET", commands(session, "c/1"))
    assert seen == done.json()
    assert seen["created_at"] <= seen["delivered_at"] <= seen["finished_at"]
    assert (seen["event_id"], seen["detail"], seen["expires_at"]) == ("e1", None, None)


@proves("command-receipts")
async def test_who_waits_hears_each_change(
    hub: HubProcess, other_hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    await send(hub, session, id="c")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(waited(hub, session, "c"))
        await listened(redis_link, session, 1)
        async with hosting(other_hub, session) as (stream, _):
            read(await stream.take(1))
            assert await waiting == "delivered"
            await acknowledge(other_hub, session, "c", "rejected")
    assert await waited(hub, session, "c") == "rejected", "it is finished: nothing to wait for"
    begun = time.monotonic()
    await send(hub, session, id="d")
    assert await status(hub, session, "d", "?wait_s=1") == "accepted"
    assert time.monotonic() - begun >= 1


@proves("command-told")
async def test_a_command_reaches_a_host_that_is_there_at_once(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    async with hosting(hub, session) as (stream, _):
        for n in range(20):
            begun = time.monotonic()
            await send(other_hub, session, id=f"c{n}")
            (command,) = read(await stream.take(1))
            assert command["id"] == f"c{n}"
            assert time.monotonic() - begun < 5
        seen = await call(hub, "GET", f"/v1/sessions/{session}")
        assert seen["host"]["connected"] is True
        assert seen["host"]["since"] >= seen["created_at"]
        assert seen["steerable"] is True

    async def is_gone() -> bool:
        seen = await call(hub, "GET", f"/v1/sessions/{session}")
        return bool(seen["host"] == {"connected": False, "since": None})

    await eventually(is_gone, "the lease is given back when the stream closes")


@proves("host-lease")
async def test_the_list_of_sessions_shows_that_a_host_came_and_went(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    def shows(connected: bool) -> Callable[[Frame], bool]:
        def is_it(frame: Frame) -> bool:
            if frame.event != "session.updated" or frame.json()["id"] != session:
                return False
            return bool(frame.json()["host"]["connected"] is connected)

        return is_it

    async with open_stream(other_hub, "/v1/sessions/sse") as watched:
        await watched.until("snapshot")
        async with hosting(hub, session):
            await watched.until(shows(True))
        await watched.until(shows(False))


@proves("host-redis-restart")
async def test_a_host_and_its_commands_outlive_a_restart_of_redis(
    own_redis: RedisProcess, session: str
) -> None:
    with running_hub(own_redis.url) as lone:
        await publish(lone, session, note())
        async with hosting(lone, session) as (stream, told):
            await send(lone, session, id="a")
            read(await stream.take(1))
            own_redis.kill()
            away = await post(lone, commands(session), {"type": "abort"})
            check_problem(away, 503, "redis_unavailable")
            own_redis.start()

            async def is_back() -> bool:
                answer = await post(lone, commands(session), {"type": "x.test", "id": "b"})
                return answer.status == 202

            await eventually(is_back, "commands are taken again")
            assert [each["id"] for each in read(await stream.take(1))] == ["b"]
            for name in ("a", "b"):
                answer = await acknowledge(lone, session, name, lease=told["lease"])
                assert answer.json()["status"] == "consumed"


@proves("command-redelivery")
async def test_fifty_commands_wait_for_a_host_and_each_is_consumed_once(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """Every host reads some, acknowledges fewer, and is gone; nothing is lost, none comes back."""
    ids = [f"c{n}" for n in range(50)]
    for n, name in enumerate(ids):
        await send((hub, other_hub)[n % 2], session, id=name)
    open_ones = dict.fromkeys(ids, 0)
    consumed: list[str] = []
    for attempt in range(1, 10):
        async with hosting((hub, other_hub)[attempt % 2], session) as (stream, told):
            frames = await stream.take(len(open_ones))
            seen = read(frames)
            assert [each["id"] for each in seen] == list(open_ones), "all of them, in order"
            assert {each["attempt"] for each in seen} == {attempt}
            assert await stream.silent(0.2)
            # From the last back: in any order, each on its own.
            for each in seen[::-1][:: 3 if attempt < 9 else 1]:
                answer = await acknowledge(hub, session, each["id"], lease=told["lease"])
                assert answer.status == 200, answer
                consumed.append(each["id"])
                del open_ones[each["id"]]
    assert not open_ones
    assert sorted(consumed) == sorted(ids)
    async with hosting(hub, session) as (stream, _):
        assert await stream.silent(0.3)
    states = {await status(hub, session, name) for name in ids}
    assert states == {"consumed"}


@proves("command-cursor")
async def test_a_cursor_says_what_the_host_has(hub: HubProcess, session: str) -> None:
    for n in range(4):
        await send(hub, session, id=f"c{n}")
    async with hosting(hub, session) as (stream, _):
        frames = await stream.take(4)
    for name, headers in (
        (f"?since_id={frames[1].id}", {}),
        (f"?last_event_id={frames[1].id}", {}),
        ("", {"Last-Event-ID": str(frames[1].id)}),
    ):
        async with hosting(hub, session, name, headers=headers) as (stream, told):
            assert told["cursor"] == frames[1].id
            assert [each["id"] for each in read(await stream.take(2))] == ["c2", "c3"]
    for odd in ("aaaaaaaa.2", f"{str(frames[0].id).partition('.')[0]}.900"):
        async with hosting(hub, session, f"?since_id={odd}") as (stream, _):
            assert len(read(await stream.take(4))) == 4, "no place of ours: as without"
    for bad in ("x", "1.2.3", "aaaaaaaa.-1", f"{frames[0].id}.1.aaaaa"):
        answer = await request(hub, "GET", f"{commands(session)}/sse?since_id={bad}")
        check_problem(answer, 400, "invalid_cursor")


@proves("command-once")
async def test_a_hundred_sends_of_one_id_at_two_hubs_are_one_command(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    async with hosting(hub, session) as (stream, _):
        answers = await asyncio.gather(
            *(send((hub, other_hub)[n % 2], session, id="one", data={"n": 1}) for n in range(100))
        )
        assert len({answer["cursor"] for answer in answers}) == 1
        assert [each["id"] for each in read(await stream.take(1))] == ["one"]
        assert await stream.silent(0.3)
        other = {"id": "one", "type": "x.test", "data": {"n": 2}}
        check_problem(await post(hub, commands(session), other), 409, "command_id_reused")
        await acknowledge(hub, session, "one", "rejected", detail="no")
        again = await send(other_hub, session, id="one", data={"n": 1})
        assert again["status"] == "rejected"
        assert await stream.silent(0.3)


@proves("host-lease")
async def test_another_host_is_refused_until_it_takes_over(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await send(hub, session, id="c")
    async with hosting(hub, session, "?host_id=one") as (stream, first):
        read(await stream.take(1))
        refused = await request(other_hub, "GET", f"{commands(session)}/sse?host_id=two")
        check_problem(refused, 409, "host_conflict")
        async with hosting(other_hub, session, "?host_id=two&takeover=1") as (taken, second):
            assert second["lease"] > first["lease"]
            (last,) = await stream.drain()
            assert (last.event, last.json()["reason"]) == ("disconnecting", "lease_lost")
            (command,) = read(await taken.take(1))
            assert (command["id"], command["attempt"]) == ("c", 2)
            late = await acknowledge(hub, session, "c", lease=first["lease"])
            check_problem(late, 409, "lease_lost")
            assert await status(hub, session, "c") == "delivered"
            assert (await acknowledge(hub, session, "c", lease=second["lease"])).status == 200
            seen = await call(hub, "GET", f"/v1/sessions/{session}")
            assert seen["host"]["connected"] is True, "the first one's end gave nothing back"


@proves("host-lease")
async def test_the_same_host_takes_its_lease_back(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    async with hosting(hub, session) as (old, first), hosting(other_hub, session) as (new, second):
        assert second["lease"] > first["lease"]
        assert (await old.drain())[-1].json()["reason"] == "lease_lost"
        await send(hub, session, id="c")
        assert [each["id"] for each in read(await new.take(1))] == ["c"]
    named = "?host_id=%s"
    async with hosting(hub, session, named % "a"):
        refused = await request(hub, "GET", f"{commands(session)}/sse")
        check_problem(refused, 409, "host_conflict")


@proves("host-hub-killed")
async def test_a_host_goes_on_at_another_hub_when_its_own_is_killed(
    redis_url: str, hub: HubProcess, session: str
) -> None:
    with running_hub(redis_url, env={"host_lease_s": 2}) as doomed:
        async with hosting(doomed, session, "?host_id=one") as (stream, first):
            await send(hub, session, id="c")
            read(await stream.take(1))
            doomed.kill()
        await send(hub, session, id="d")
        refused = await request(hub, "GET", f"{commands(session)}/sse?host_id=two")
        check_problem(refused, 409, "host_conflict")
        async with hosting(hub, session, "?host_id=one") as (stream, second):
            assert second["lease"] > first["lease"]
            seen = [(each["id"], each["attempt"]) for each in read(await stream.take(2))]
            assert seen == [("c", 2), ("d", 1)]


@proves("host-hub-killed")
async def test_the_lease_of_a_killed_hub_ends_by_itself(
    redis_url: str, hub: HubProcess, session: str
) -> None:
    with running_hub(redis_url, env={"host_lease_s": 1}) as doomed:
        async with hosting(doomed, session, "?host_id=one"):
            doomed.kill()

        async def is_gone() -> bool:
            seen = await call(hub, "GET", f"/v1/sessions/{session}")
            return not seen["host"]["connected"]

        await eventually(is_gone, "another hub has ended the lease")
        async with hosting(hub, session, "?host_id=two"):
            pass


@proves("host-lease")
async def test_an_open_stream_keeps_its_lease(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"host_lease_s": 0.6, "heartbeat_s": 0.2}) as short:
        async with hosting(short, session, "?host_id=one") as (stream, _):
            assert await stream.silent(2), "heartbeats alone"
            assert any(frame.is_comment for frame in stream.frames)
            refused = await request(short, "GET", f"{commands(session)}/sse?host_id=two")
            check_problem(refused, 409, "host_conflict")


@proves("command-expiry")
async def test_a_command_expires_unless_a_host_has_read_it(hub: HubProcess, session: str) -> None:
    await send(hub, session, id="late", expires_in_s=0.2)
    assert await status(hub, session, "late", "?wait_s=30") == "expired"
    check_problem(await acknowledge(hub, session, "late"), 410, "expired")
    async with hosting(hub, session) as (stream, _):
        await send(hub, session, id="read", expires_in_s=0.3)
        read(await stream.take(1))
        assert await stream.silent(1)
        assert await status(hub, session, "read") == "delivered"
    async with hosting(hub, session) as (stream, _):
        assert [each["id"] for each in read(await stream.take(1))] == ["read"]


@proves("command-steerable")
async def test_a_session_says_whether_it_takes_commands(hub: HubProcess, session: str) -> None:
    for said in (False, True):
        data = {"remoteSteerable": said}
        await publish(hub, session, copilot("session.remote_steerable_changed", data))
        assert (await call(hub, "GET", f"/v1/sessions/{session}"))["steerable"] is said
        answer = await post(hub, commands(session), {"type": "abort"})
        if said:
            assert answer.status == 202
        else:
            check_problem(answer, 409, "not_steerable")


@proves("command-full")
async def test_only_so_many_commands_wait(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"commands_max": 3}) as small:
        for n in range(3):
            await send(small, session, id=f"c{n}")
        full = await post(small, commands(session), {"type": "abort"})
        check_problem(full, 429, "commands_full")
        assert int(full.headers["retry-after"]) > 0
        await acknowledge(small, session, "c1")
        await send(small, session)


REFUSED: list[tuple[Any, str, str]] = [
    ({}, "invalid_body", "/type"),
    ({"type": 1}, "invalid_body", "/type"),
    ({"type": "abort", "id": "a b"}, "invalid_body", "/id"),
    ({"type": "abort", "id": ""}, "invalid_body", "/id"),
    ({"type": "abort", "data": []}, "invalid_body", "/data"),
    ({"type": "abort", "expires_in_s": 0}, "invalid_body", "/expires_in_s"),
    ({"type": "abort", "odd": 1}, "invalid_body", "/odd"),
    ({"type": "abort", "id": "sse"}, "invalid_command", "/id"),
    ({"type": "odd"}, "invalid_command", "/type"),
    ({"type": "x."}, "invalid_command", "/type"),
    ({"type": "prompt.answer"}, "invalid_command", "/type"),
    ({"type": "abort", "data": {"reason": 1}}, "invalid_command", "/data/reason"),
    ({"type": "message.send"}, "invalid_command", "/data/prompt"),
    ({"type": "message.send", "data": {"prompt": "x"}}, "invalid_command", "/data/mode"),
    (
        {"type": "message.send", "data": {"prompt": "x", "mode": "now"}},
        "invalid_command",
        "/data/mode",
    ),
    (
        {"type": "message.send", "data": {"prompt": "x", "mode": "enqueue", "attachments": [1]}},
        "invalid_command",
        "/data/attachments/0",
    ),
]


@pytest.mark.parametrize(("body", "code", "pointer"), REFUSED, ids=str)
@proves("command-refused")
async def test_what_is_no_command_is_refused_with_its_place(
    hub: HubProcess, session: str, body: Any, code: str, pointer: str
) -> None:
    problem = check_problem(await post(hub, commands(session), body), 422, code)
    assert problem["pointer"] == pointer


@pytest.mark.parametrize("name", ["mode.set", "model.set", "queue.clear", "abort", "x.a-b:c"])
async def test_known_types_and_ones_of_one_s_own_are_taken(
    hub: HubProcess, session: str, name: str
) -> None:
    await send(hub, session, type=name, data={"mode": "plan"})


@proves("command-refused")
async def test_an_acknowledgement_is_refused_with_its_reason(hub: HubProcess, session: str) -> None:
    await send(hub, session, id="c")
    for odd in ({}, {"outcome": "odd"}, {"outcome": "consumed", "lease": "1"}):
        check_problem(await post(hub, commands(session, "c", "ack"), odd), 422, "invalid_body")
    check_problem(await acknowledge(hub, session, "unknown"), 404, "command_not_found")
    answer = await request(hub, "GET", commands(session, "unknown"))
    check_problem(answer, 404, "command_not_found")
    assert await status(hub, session, "c") == "accepted"
    assert (await acknowledge(hub, session, "c")).status == 200
    assert (await acknowledge(hub, session, "c")).status == 200
    check_problem(await acknowledge(hub, session, "c", "rejected"), 409, "already_acknowledged")
    for bad in ("wait_s=31", "wait_s=-1", "wait_s=x"):
        answer = await request(hub, "GET", f"{commands(session, 'c')}?{bad}")
        check_problem(answer, 400, "invalid_parameter")
    for bad in ("takeover=x", f"host_id={'x' * 257}"):
        answer = await request(hub, "GET", f"{commands(session)}/sse?{bad}")
        check_problem(answer, 400, "invalid_parameter")


@proves("command-deleted")
async def test_deleting_a_session_ends_its_commands_and_its_host(
    hub: HubProcess, other_hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    await send(hub, session, id="c")
    async with asyncio.TaskGroup() as group, hosting(hub, session) as (stream, _):
        read(await stream.take(1))
        waiting = group.create_task(waited(other_hub, session, "c"))
        await listened(redis_link, session, 2)
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        (last,) = await stream.drain()
        assert (last.event, last.json()["reason"]) == ("disconnecting", "deleted")
    assert waiting.result() == "expired"
    check_problem(await post(hub, commands(session), {"type": "abort"}), 410, "session_deleted")
    check_problem(await acknowledge(hub, session, "c"), 410, "session_deleted")
    for path in ("/c", "/sse"):
        answer = await request(hub, "GET", commands(session) + path)
        check_problem(answer, 404, "session_not_found")


@proves("command-scopes")
async def test_steering_and_hosting_need_their_own_scopes(
    redis_url: str, hub: HubProcess, session: str, tmp_path: Any
) -> None:
    keys = tmp_path / "keys.json"
    scopes = {"reader": ["read"], "agent": ["publish"], "person": ["steer"]}
    entries = [{"key": key, "scopes": given, "sessions": ["*"]} for key, given in scopes.items()]
    entries.append({"key": "elsewhere", "scopes": ["publish", "steer"], "sessions": ["other-*"]})
    keys.write_text(json.dumps(entries))
    await send(hub, session, id="c")
    calls = [
        ("POST", commands(session), {"type": "abort"}, {"person": 202}),
        ("GET", commands(session, "c"), None, {"person": 200, "agent": 200}),
        ("POST", commands(session, "c", "ack"), {"outcome": "consumed"}, {"agent": 200}),
    ]
    with running_hub(redis_url, args=["--keys", str(keys)]) as strict:
        for method, path, body, allowed in calls:
            content = None if body is None else json.dumps(body).encode()
            for key in scopes:
                headers = {"Authorization": f"Bearer {key}"}
                answer = await request(strict, method, path, headers=headers, body=content)
                assert answer.status == allowed.get(key, 403), (key, path, answer)
            headers = {"Authorization": "Bearer elsewhere"}
            answer = await request(strict, method, path, headers=headers, body=content)
            check_problem(answer, 404, "session_not_found")
        for key in ("reader", "person"):
            headers = {"Authorization": f"Bearer {key}"}
            answer = await request(strict, "GET", f"{commands(session)}/sse", headers=headers)
            check_problem(answer, 403, "forbidden")


@proves("host-drain")
async def test_a_draining_hub_lets_its_host_and_its_waiters_go(
    redis_url: str, hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    with running_hub(redis_url, env={"drain_s": 1}) as ending:
        async with asyncio.TaskGroup() as group:
            await send(hub, session, id="c")
            waiting = group.create_task(waited(ending, session, "c"))
            await listened(redis_link, session, 1)
            ending.terminate()
        assert waiting.result() == "accepted", "the poll is answered as it is"
        ending.wait()
    with running_hub(redis_url, env={"drain_s": 1}) as ending:
        async with hosting(ending, session, "?host_id=one") as (stream, _):
            read(await stream.take(1))
            ending.terminate()
            (last,) = await stream.drain()
            assert (last.event, last.json()["reason"]) == ("disconnecting", "shutdown")
        ending.wait()
        async with hosting(hub, session, "?host_id=two"):
            pass  # the lease was given back, not left to end
