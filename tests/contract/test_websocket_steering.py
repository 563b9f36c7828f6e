"""Commands and hosts over a WebSocket, in both ways to send (protocol.md §7, §9)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sessionwire_server.api_keys import ApiKeys
from sessionwire_server.keys import live_channel
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.signing import Grant, Signer
from tests.contract._requirements import proves
from tests.contract.events import call, copilot, new_session, note, publish
from tests.contract.rpc_client import STATES, Refused, RpcClient, open_socket
from tests.contract.test_commands import acknowledge, commands, hosting, listened, read, send
from tests.contract.wire import eventually, request
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

RECEIPT = {
    *("id", "cursor", "type", "status", "by", "attempt", "created_at", "delivered_at"),
    *("finished_at", "expires_at", "detail", "event_id"),
}


@pytest.fixture(scope="module", params=["auto", "portable"])
def hub(request: pytest.FixtureRequest, redis_url: str) -> Generator[HubProcess]:
    """One hub a way to send."""
    with running_hub(redis_url, env={"send_mode": request.param, "max_calls_per_s": 10_000}) as hub:
        yield hub


@pytest.fixture
async def session(hub: HubProcess, session: str) -> str:
    """A session that exists."""
    await publish(hub, session, note())
    return session


@asynccontextmanager
async def attached(
    hub: HubProcess, session: str, **more: Any
) -> AsyncGenerator[tuple[RpcClient, Any]]:
    """Be the host of a session on a connection of its own."""
    async with open_socket(hub) as client:
        told = await client.call("host.attach", session_id=session, **more)
        assert set(told) == {"lease", "cursor", "expires_at"}
        yield client, told


async def told_of(client: RpcClient, count: int) -> list[Any]:
    """So many commands, nothing else being among them."""
    found: list[Any] = []
    while len(found) < count:
        method, params = await client.note()
        assert method == "command", (method, params)
        found.append(params)
    return found


async def updates(client: RpcClient, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        method, params = await client.note()
        assert method == "command.updated", (method, params)
        assert set(params) == {"session_id", *RECEIPT}
        found.append(params)
    return found


async def refused(client: RpcClient, method: str, **params: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await client.call(method, **params)
    return caught.value


@proves("ws-command")
async def test_a_sender_is_told_each_stage_of_its_command(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    data = '{"mode":"enqueue","prompt":"h\u00e9","n":1.50}'
    async with open_socket(hub) as sender:
        command = f'{{"id":"c/\\"1","type":"message.send","data":{data}}}'
        params = f'{{"session_id":"{session}","command":{command}}}'
        await sender.send(f'{{"jsonrpc":"2.0","id":"s","method":"command.send","params":{params}}}')
        taken = (await sender.receive())["result"]
        assert taken == {"id": 'c/"1', "status": "accepted", "cursor": taken["cursor"]}
        async with attached(other_hub, session) as (host, lease):
            (told,) = await told_of(host, 1)
            assert f'"data":{data},' in host.got[-1]
            assert told["session_id"] == session
            assert (told["id"], told["cursor"]) == (taken["id"], taken["cursor"])
            assert (told["type"], told["attempt"]) == ("message.send", 1)
            (delivered,) = await updates(sender, 1)
            assert (delivered["status"], delivered["attempt"]) == ("delivered", 1)
            done = await host.call(
                "command.ack",
                session_id=session,
                id=told["id"],
                outcome="consumed",
                event_id="e1",
                lease=lease["lease"],
            )
            assert set(done) == RECEIPT
            (consumed,) = await updates(sender, 1)
            assert consumed == {"session_id": session, **done}
            assert (done["status"], done["event_id"]) == ("consumed", "e1")
        assert await sender.silent(0.2), "it is finished"


@proves("ws-command")
async def test_every_sender_hears_of_its_own_commands_and_of_no_other(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """However fast the host is, and over whichever hub: delivered, then consumed, each once."""
    count = 40
    async with open_socket(hub) as one, open_socket(other_hub) as two, open_socket(hub) as idle:
        async with attached(hub, session) as (host, _):

            async def obey() -> None:
                for _ in range(2 * count):
                    (command,) = await told_of(host, 1)
                    await host.call(
                        "command.ack", session_id=session, id=command["id"], outcome="consumed"
                    )

            async def steer(client: RpcClient, name: str) -> None:
                sent = [f"{name}{n}" for n in range(count)]
                for each in sent:
                    command = {"id": each, "type": "x.test"}
                    await client.call("command.send", session_id=session, command=command)
                heard: dict[str, list[str]] = {each: [] for each in sent}
                for told in await updates(client, 2 * count):
                    heard[told["id"]].append(told["status"])
                assert set(map(tuple, heard.values())) == {("delivered", "consumed")}

            async with asyncio.TaskGroup() as group:
                group.create_task(obey())
                group.create_task(steer(one, "a"))
                group.create_task(steer(two, "b"))
        assert await idle.silent(0.1)


@proves("ws-command")
async def test_what_became_of_a_command_before_it_is_watched_is_told(
    hub: HubProcess, session: str
) -> None:
    """Sent and acknowledged in one batch: nothing is missed between the sending and the watch."""
    async with open_socket(hub) as sender:
        for n in range(30):
            name = f"c{n}"
            sent = {"session_id": session, "command": {"type": "x.test", "id": name}}
            said = {"session_id": session, "id": name, "outcome": "rejected"}
            steps = [("command.send", sent), ("command.ack", said)]
            await sender.send(
                [
                    {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
                    for method, params in steps
                ]
            )
            got = [await sender.receive() for _ in range(3)]
            (told,) = [each["params"] for each in got if "method" in each]
            assert (told["id"], told["status"]) == (name, "rejected")
            assert [each["id"] for each in got if "id" in each] == ["command.send", "command.ack"]
        assert await sender.silent(0.1)


@proves("ws-command")
async def test_the_same_command_again_is_told_from_where_it_is(
    hub: HubProcess, session: str
) -> None:
    command = {"id": "c", "type": "abort"}
    async with open_socket(hub) as sender, attached(hub, session) as (host, _):
        await sender.call("command.send", session_id=session, command=command)
        await told_of(host, 1)
        assert [each["status"] for each in await updates(sender, 1)] == ["delivered"]
        async with open_socket(hub) as late:
            again = await late.call("command.send", session_id=session, command=command)
            assert again["status"] == "delivered"
            await acknowledge(hub, session, "c")
            for client in (late, sender):
                assert [each["status"] for each in await updates(client, 1)] == ["consumed"]
            again = await late.call("command.send", session_id=session, command=command)
            assert again["status"] == "consumed"
            assert await late.silent(0.2)


@proves("ws-command")
async def test_expiry_and_deletion_are_told_to_the_sender(hub: HubProcess, session: str) -> None:
    async with open_socket(hub) as sender:
        late = {"id": "late", "type": "abort", "expires_in_s": 0.3}
        await sender.call("command.send", session_id=session, command=late)
        (told,) = await updates(sender, 1)
        assert (told["id"], told["status"], told["delivered_at"]) == ("late", "expired", None)
        await sender.call("command.send", session_id=session, command={"id": "c", "type": "abort"})
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        (told,) = await updates(sender, 1)
        assert (told["id"], told["status"]) == ("c", "expired")
        assert (await refused(sender, "command.send", session_id=session, command=late)).word == (
            "session_deleted"
        )
        assert await sender.call("ping") == {}


@proves("ws-command")
async def test_a_command_survives_its_senders_connection(hub: HubProcess, session: str) -> None:
    async with open_socket(hub) as sender:
        await sender.call("command.send", session_id=session, command={"id": "c", "type": "abort"})
        sender.socket.transport.abort()
    async with attached(hub, session) as (host, _):
        assert [each["id"] for each in await told_of(host, 1)] == ["c"]


@proves("ws-host-redelivery")
async def test_fifty_commands_wait_for_a_host_that_is_cut_off_again_and_again(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """Hosts come by WebSocket and SSE and go without a word; nothing is lost, none comes back."""
    async with open_socket(other_hub) as sender:
        open_ones = [f"c{n}" for n in range(50)]
        for name in open_ones:
            command = {"id": name, "type": "x.test"}
            await sender.call("command.send", session_id=session, command=command)
        consumed: list[str] = []
        for attempt in range(1, 8):
            where = (hub, other_hub)[attempt % 2]
            keep = 3 if attempt < 7 else 1
            if attempt % 3 == 0:
                async with hosting(where, session, "?host_id=h") as (stream, _):
                    seen = read(await stream.take(len(open_ones)))
                    for each in seen[::-1][::keep]:
                        assert (await acknowledge(hub, session, each["id"])).status == 200
                        consumed.append(each["id"])
            else:
                async with attached(where, session, host_id="h") as (host, lease):
                    seen = await told_of(host, len(open_ones))
                    assert await host.silent(0.1)
                    for each in seen[::-1][::keep]:
                        said = {"id": each["id"], "outcome": "consumed", "lease": lease["lease"]}
                        await host.call("command.ack", session_id=session, **said)
                        consumed.append(each["id"])
                    host.socket.transport.abort()
            assert [each["id"] for each in seen] == open_ones, "all of them, in order"
            assert {each["attempt"] for each in seen} == {attempt}
            open_ones = [name for name in open_ones if name not in consumed]
        assert (open_ones, len(consumed), len(set(consumed))) == ([], 50, 50)
        told = [each["status"] for each in await updates(sender, 100)]
        assert (told.count("delivered"), told.count("consumed")) == (50, 50)


@proves("ws-host-redelivery")
async def test_a_hosts_cursor_leaves_out_what_it_has(hub: HubProcess, session: str) -> None:
    for n in range(4):
        await send(hub, session, id=f"c{n}")
    async with attached(hub, session) as (host, told):
        seen = await told_of(host, 4)
    for since, expected in (
        (told["cursor"], ["c0", "c1", "c2", "c3"]),
        (seen[1]["cursor"], ["c2", "c3"]),
        (seen[3]["cursor"], []),
        (f"aaaaaaaa.{2}", ["c0", "c1", "c2", "c3"]),
        (f"{seen[3]['cursor']}9", ["c0", "c1", "c2", "c3"]),
        ("", ["c0", "c1", "c2", "c3"]),
    ):
        async with attached(hub, session, since=since) as (host, told):
            assert [each["id"] for each in await told_of(host, len(expected))] == expected
            assert await host.silent(0.1)
    # What was sent before is not between the result and the first command either.
    async with attached(hub, session, since=seen[3]["cursor"]) as (host, _):
        await send(hub, session, id="new")
        assert [each["id"] for each in await told_of(host, 1)] == ["new"]


@proves("ws-host-lease")
async def test_hosts_of_both_transports_take_a_session_over_from_each_other(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    async with attached(hub, session, host_id="one") as (one, first):
        async with open_socket(other_hub) as two:
            conflict = await refused(two, "host.attach", session_id=session, host_id="two")
            assert (conflict.word, conflict.data["status"]) == ("host_conflict", 409)
            assert conflict.data["since"]
        async with hosting(other_hub, session, "?host_id=two&takeover=1") as (stream, second):
            lost = ("host.detached", {"session_id": session, "reason": "lease_lost"})
            assert await one.note() == lost
            assert second["lease"] > first["lease"]
            stale = await refused(
                one, "command.ack", session_id=session, id="x", outcome="consumed", lease=1
            )
            assert stale.word == "command_not_found"
            await send(hub, session, id="c")
            read(await stream.take(1))
            stale = await refused(
                one,
                "command.ack",
                session_id=session,
                id="c",
                outcome="consumed",
                lease=first["lease"],
            )
            assert (stale.word, stale.data["status"]) == ("lease_lost", 409)
            third = await one.call("host.attach", session_id=session, host_id="one", takeover=True)
            assert third["lease"] > second["lease"]
            assert [each["id"] for each in await told_of(one, 1)] == ["c"]
            (last,) = await stream.drain()
            assert last.json()["reason"] == "lease_lost"
        again = await refused(one, "host.attach", session_id=session, host_id="one")
        assert (again.word, again.data["status"]) == ("already_attached", 409)
        assert await one.call("ping") == {}


@proves("ws-host-lease")
async def test_a_name_takes_its_own_lease_back(hub: HubProcess, session: str) -> None:
    async with attached(hub, session) as (one, _), attached(hub, session) as (two, _):
        assert (await one.note())[1]["reason"] == "lease_lost"
        await send(hub, session, id="c")
        assert [each["id"] for each in await told_of(two, 1)] == ["c"]
        assert await one.silent(0.1)


@proves("ws-host-lease")
async def test_detaching_gives_the_lease_back_and_ends_the_commands(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    async with attached(hub, session, host_id="one") as (host, _):
        assert (await call(hub, "GET", f"/v1/sessions/{session}"))["host"]["connected"]
        assert await host.call("host.detach", session_id=session) == {}
        seen = await call(hub, "GET", f"/v1/sessions/{session}")
        assert seen["host"] == {"connected": False, "since": None}
        assert await host.call("host.detach", session_id=session) == {}, "again is fine"
        await send(hub, session, id="c")
        async with attached(other_hub, session, host_id="two") as (two, _):
            assert [each["id"] for each in await told_of(two, 1)] == ["c"]
        assert await host.silent(0.1)
        await host.call("host.attach", session_id=session, host_id="one")
        assert [each["attempt"] for each in await told_of(host, 1)] == [2]


@proves("ws-host-lease")
@pytest.mark.parametrize("how", ["closed", "cut"])
async def test_a_connection_that_ends_gives_its_leases_back(
    hub: HubProcess, other_hub: HubProcess, how: str
) -> None:
    sessions = [new_session() for _ in range(20)]
    for each in sessions:
        await publish(hub, each, note())
    async with open_socket(hub) as host:
        for each in sessions:
            await host.call("host.attach", session_id=each, host_id="one")
        if how == "cut":
            host.socket.transport.abort()

    async def is_free() -> bool:
        seen = [await call(other_hub, "GET", f"/v1/sessions/{each}") for each in sessions]
        return not any(each["host"]["connected"] for each in seen)

    await eventually(is_free, "all leases are back")
    for each in sessions:
        async with attached(other_hub, each, host_id="two"):
            pass


@proves("ws-host-lease")
async def test_a_lease_is_kept_while_the_host_is_attached(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"host_lease_s": 0.6}) as short:
        await publish(short, session, note())
        async with attached(short, session, host_id="one") as (host, _):
            assert await host.silent(2)
            async with open_socket(short) as other:
                error = await refused(other, "host.attach", session_id=session, host_id="two")
                assert error.word == "host_conflict"


@proves("ws-host-many")
async def test_one_connection_hosts_many_sessions(hub: HubProcess, other_hub: HubProcess) -> None:
    sessions = [new_session() for _ in range(12)]
    for each in sessions:
        await publish(hub, each, note())
    async with open_socket(hub) as host:
        for each in sessions:
            await host.call("host.attach", session_id=each)
            await host.call("session.subscribe", session_id=each, from_="now")
            assert (await host.note())[0] == "session.caught_up"
        for n in range(3):
            for each in sessions:
                await send((hub, other_hub)[n % 2], each, id=f"{each}-{n}")
        by_session: dict[str, list[str]] = {each: [] for each in sessions}
        for told in await told_of(host, 36):
            by_session[told["session_id"]].append(told["id"])
        for each, ids in by_session.items():
            assert ids == [f"{each}-{n}" for n in range(3)], "in order within each"
        event = note()
        await publish(other_hub, sessions[3], event)
        method, params = await host.note()
        assert (method, params["event"]["id"]) == ("session.event", event["id"])
        await host.call("host.detach", session_id=sessions[3])
        await publish(other_hub, sessions[3], note())
        assert (await host.note())[0] == "session.event", "it is followed all the same"


@proves("ws-host-many")
async def test_only_so_many_sessions_are_hosted(redis_url: str) -> None:
    with running_hub(redis_url, env={"max_sessions_per_connection": 2}) as small:
        sessions = [new_session() for _ in range(3)]
        for each in sessions:
            await publish(small, each, note())
        async with open_socket(small) as host:
            for each in sessions[:2]:
                await host.call("host.attach", session_id=each)
            error = await refused(host, "host.attach", session_id=sessions[2])
            assert (error.word, error.data["status"]) == ("too_many_sessions", 429)
            await host.call("host.detach", session_id=sessions[0])
            await host.call("host.attach", session_id=sessions[2])


@proves("ws-host-ends")
async def test_deleting_what_is_hosted_is_told_and_the_last_of_it_closes(
    hub: HubProcess, other_hub: HubProcess
) -> None:
    first, second = new_session(), new_session()
    async with open_socket(hub) as host:
        for each in (first, second):
            await publish(hub, each, note())
            await host.call("host.attach", session_id=each)
        await host.call("session.subscribe", session_id=second, from_="now")
        assert (await host.note())[0] == "session.caught_up"
        await call(other_hub, "DELETE", f"/v1/sessions/{first}", status=204)
        gone = ("host.detached", {"session_id": first, "reason": "deleted"})
        assert await host.note() == gone
        error = await refused(host, "host.attach", session_id=first)
        assert error.data["status"] in (404, 410)
        await call(other_hub, "DELETE", f"/v1/sessions/{second}", status=204)
        code, before = await host.closed()
        assert code == 4504
        assert {each["method"] for each in before} == {"host.detached", "disconnecting"}


@proves("ws-host-ends")
async def test_a_session_begun_anew_is_hosted_anew(hub: HubProcess, session: str) -> None:
    other = new_session()
    await publish(hub, other, note())
    async with attached(hub, session) as (host, first), attached(hub, other) as (_, _):
        await host.call("session.subscribe", session_id=other, from_="now")
        await send(hub, session, id="old")
        (old,) = [told for told in [await host.note() for _ in range(2)] if told[0] == "command"]
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        assert (await host.note())[0] == "host.detached"
        body = json.dumps({"id": session, "catalog": "copilot"}).encode()
        await call(hub, "POST", "/v1/sessions", status=201, body=body)
        await send(hub, session, id="new")
        told = await host.call("host.attach", session_id=session, since=old[1]["cursor"])
        assert told["lease"] > first["lease"]
        assert told["cursor"].split(".")[0] != first["cursor"].split(".")[0]
        assert [each["id"] for each in await told_of(host, 1)] == ["new"]


@proves("ws-host-ends")
async def test_a_redis_that_lost_its_data_ends_host_and_watch(
    own_redis: RedisProcess, session: str
) -> None:
    with running_hub(own_redis.url, env={"host_lease_s": 1, "head_check_s": 1}) as lone:
        await publish(lone, session, note())
        async with open_socket(lone) as sender, attached(lone, session) as (host, _):
            command = {"id": "c", "type": "abort"}
            await sender.call("command.send", session_id=session, command=command)
            await told_of(host, 1)
            await updates(sender, 1)
            async with RedisLink(Settings(redis_url=own_redis.url)) as link:
                await link.pipeline([("FLUSHALL",)])
            method, params = await host.note(timeout=30)
            assert (method, params["reason"]) == ("host.detached", "error")
            assert params["retry_ms"] > 0
            method, params = await sender.note(timeout=30)
            assert method == "command.updated"
            assert params == {"session_id": session, "id": "c", "status": "unknown"}


@proves("ws-host-ends")
async def test_a_host_and_its_commands_outlive_a_restart_of_redis(
    own_redis: RedisProcess, session: str
) -> None:
    with running_hub(own_redis.url) as lone:
        await publish(lone, session, note())
        async with open_socket(lone) as sender, attached(lone, session) as (host, lease):
            await sender.call(
                "command.send", session_id=session, command={"type": "abort", "id": "a"}
            )
            await told_of(host, 1)
            await updates(sender, 1)
            own_redis.kill()
            away = await refused(
                sender, "command.send", session_id=session, command={"type": "abort", "id": "b"}
            )
            assert (away.word, away.data["status"]) == ("redis_unavailable", 503)
            assert away.data["retry_after"] > 0
            own_redis.start()

            async def is_back() -> bool:
                try:
                    await sender.call(
                        "command.send", session_id=session, command={"type": "abort", "id": "b"}
                    )
                except Refused:
                    return False
                return True

            await eventually(is_back, "commands are taken again")
            assert [each["id"] for each in await told_of(host, 1)] == ["b"]
            for name in ("a", "b"):
                said = {"id": name, "outcome": "consumed", "lease": lease["lease"]}
                await host.call("command.ack", session_id=session, **said)
            heard = [(each["id"], each["status"]) for each in await updates(sender, 3)]
            assert sorted(heard) == [("a", "consumed"), ("b", "consumed"), ("b", "delivered")]


@proves("ws-host-ends")
async def test_a_draining_hub_gives_back_what_its_connections_host(
    redis_url: str, other_hub: HubProcess, session: str
) -> None:
    with running_hub(redis_url, env={"drain_s": 1}) as ending:
        await publish(ending, session, note())
        async with attached(ending, session, host_id="one") as (host, _):
            await send(ending, session, id="c")
            await told_of(host, 1)
            ending.terminate()
            code, before = await host.closed()
            assert (code, before[-1]["params"]["reason"]) == (4000, "shutdown")
        ending.wait()
    async with attached(other_hub, session, host_id="two") as (host, _):
        assert [each["attempt"] for each in await told_of(host, 1)] == [2]


ABORT = {"type": "abort"}
TOO_LARGE = {"type": "x.a", "data": {"filler": "x" * 2**20}}

REFUSALS: list[tuple[str, dict[str, Any], int, str, str | None]] = [
    ("command.send", {}, -32602, "invalid_parameter", None),
    ("command.send", {"session_id": "a b", "command": {}}, -32602, "invalid_session_id", None),
    (
        "command.send",
        {"session_id": "no", "command": {"type": "abort"}},
        404,
        "session_not_found",
        None,
    ),
    ("command.send", {"command": {}}, -32602, "invalid_body", "/type"),
    ("command.send", {"command": 7}, -32602, "invalid_body", ""),
    ("command.send", {"command": {"type": "abort", "odd": 1}}, -32602, "invalid_body", "/odd"),
    ("command.send", {"command": {"type": "odd"}}, 422, "invalid_command", "/type"),
    ("command.send", {"command": {"type": "abort", "id": "sse"}}, 422, "invalid_command", "/id"),
    (
        "command.send",
        {"command": {"type": "x.a", "data": "x" * 2**20}},
        413,
        "body_too_large",
        None,
    ),
    ("command.ack", {"outcome": "consumed"}, -32602, "invalid_parameter", None),
    ("command.ack", {"id": "c"}, -32602, "invalid_body", "/outcome"),
    ("command.ack", {"id": "c", "outcome": "odd"}, -32602, "invalid_body", "/outcome"),
    ("command.ack", {"id": "c", "outcome": "consumed", "x": 1}, -32602, "invalid_body", "/x"),
    ("command.ack", {"id": "no", "outcome": "consumed"}, 404, "command_not_found", None),
    ("host.attach", {"since": "x"}, -32602, "invalid_cursor", None),
    ("host.attach", {"takeover": 1}, -32602, "invalid_parameter", None),
    ("host.attach", {"host_id": "x" * 257}, -32602, "invalid_parameter", None),
    ("host.attach", {"session_id": "no"}, 404, "session_not_found", None),
    ("host.detach", {"session_id": 7}, -32602, "invalid_parameter", None),
]


@pytest.mark.parametrize(
    ("method", "params", "number", "word", "pointer"),
    REFUSALS,
    ids=[f"{method}-{n}" for n, (method, *_) in enumerate(REFUSALS)],
)
@proves("ws-steering-refused")
async def test_what_is_refused_has_its_code_and_place(
    hub: HubProcess, session: str, method: str, params: Any, number: int, word: str, pointer: Any
) -> None:
    async with open_socket(hub) as client:
        if word != "invalid_parameter" or "command" not in method or params:
            params = {"session_id": session, **params}
        error = await refused(client, method, **params)
        assert error.word == word
        if number < 0:
            assert error.code == number
        else:
            assert (error.code, error.data["status"]) == (-32000, number)
        assert error.data.get("pointer") == pointer
        assert await client.call("ping") == {}


@proves("ws-steering-refused")
async def test_a_session_that_takes_no_commands_says_so(hub: HubProcess, session: str) -> None:
    steerable = "session.remote_steerable_changed"
    await publish(hub, session, copilot(steerable, {"remoteSteerable": False}))
    async with open_socket(hub) as client:
        error = await refused(client, "command.send", session_id=session, command=ABORT)
        assert (error.word, error.data["status"]) == ("not_steerable", 409)
        await publish(hub, session, copilot(steerable, {"remoteSteerable": True}))
        await client.call("command.send", session_id=session, command=ABORT)


@proves("ws-steering-refused")
async def test_what_was_said_before_cannot_be_said_otherwise(hub: HubProcess, session: str) -> None:
    async with open_socket(hub) as client:
        command = {"type": "abort", "id": "c"}
        await client.call("command.send", session_id=session, command=command)
        other = {"type": "x.other", "id": "c"}
        error = await refused(client, "command.send", session_id=session, command=other)
        assert (error.word, error.data["status"]) == ("command_id_reused", 409)
        await client.call("command.ack", session_id=session, id="c", outcome="consumed")
        said = {"session_id": session, "id": "c", "outcome": "rejected"}
        error = await refused(client, "command.ack", **said)
        assert (error.word, error.data["outcome"]) == ("already_acknowledged", "consumed")


@proves("ws-steering-refused")
async def test_only_so_many_unfinished_commands_are_watched(hub: HubProcess, session: str) -> None:
    others = [new_session() for _ in range(2)]
    for each in others:
        await publish(hub, each, note())
    async with open_socket(hub) as client:
        for n in range(1_000):
            where = (session, *others)[n % 3]
            await client.send(
                {
                    "jsonrpc": "2.0",
                    "id": n,
                    "method": "command.send",
                    "params": {"session_id": where, "command": {"type": "abort", "id": f"c{n}"}},
                }
            )
        for _ in range(1_000):
            assert "result" in await client.receive(timeout=30)
        again = {"session_id": session, "command": {"type": "abort"}}
        error = await refused(client, "command.send", **again)
        assert (error.word, error.data["status"]) == ("too_many_commands", 429)
        assert error.data["retry_after"] > 0
        await acknowledge(hub, session, "c0")
        (told,) = await updates(client, 1)
        assert (told["id"], told["status"]) == ("c0", "consumed")
        await client.call("command.send", **again)


@proves("ws-steering-scopes")
async def test_steering_and_hosting_need_their_own_scopes(
    redis_url: str, hub: HubProcess, session: str, tmp_path: Any
) -> None:
    scopes = {"reader": ["read"], "agent": ["publish", "read"], "person": ["steer", "read"]}
    entries = [{"key": key, "scopes": given, "sessions": ["*"]} for key, given in scopes.items()]
    entries.append({"key": "elsewhere", "scopes": ["publish", "steer"], "sessions": ["other-*"]})
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(entries))
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("command.send", {"command": {"type": "abort", "id": "c"}}, "person"),
        ("command.ack", {"id": "c", "outcome": "consumed"}, "agent"),
        ("host.attach", {"takeover": True}, "agent"),
    ]
    with running_hub(redis_url, args=["--keys", str(keys)]) as strict:
        for method, params, may in calls:
            for key in (*scopes, "elsewhere"):
                async with open_socket(
                    strict, headers={"Authorization": f"Bearer {key}"}
                ) as client:
                    if key == may:
                        await client.call(method, session_id=session, **params)
                        continue
                    error = await refused(client, method, session_id=session, **params)
                    expected = "session_not_found" if key == "elsewhere" else "forbidden"
                    assert error.word == expected, (method, key)
        headers = {"Authorization": "Bearer agent"}
        async with open_socket(strict, headers=headers) as client:
            await client.call("host.attach", session_id=session)
            await client.call("authenticate", token="agent")
            assert await client.call("ping") == {}
            await client.call("authenticate", token="person")
            assert (await client.closed())[0] == 4501, "it may not host what it hosts"
        headers = {"Authorization": "Bearer person"}
        async with open_socket(strict, headers=headers) as client:
            await client.call("command.send", session_id=session, command={"type": "x.a"})
            await client.call("authenticate", token="agent")
            assert (await client.closed())[0] == 4501, "it may not steer what it steers"


@proves("ws-host-ends")
async def test_an_expired_token_gives_its_leases_back_unless_another_has_its_place(
    hub: HubProcess, other_hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    kept = new_session()
    await publish(hub, kept, note())
    keys = ApiKeys.load(Settings(key=hub.key))
    (key_id,) = keys.by_id
    ends_at = time.time() + 2
    grant = Grant(key_id, ("publish",), ("*",), False, False, time.time() + 60, ends_at)
    ticket = await Signer(redis_link, keys).sign("ticket", grant)
    ticketed: dict[str, Any] = {"path": f"/v1/ws?ticket={ticket}", "headers": {"Authorization": ""}}
    async with open_socket(hub, **ticketed) as ending, open_socket(hub, **ticketed) as renewed:
        await ending.call("host.attach", session_id=session, host_id="one")
        await renewed.call("host.attach", session_id=kept, host_id="one")
        await renewed.call("authenticate", token=hub.key)
        code, before = await ending.closed()
        assert (code, before[-1]["params"]) == (4503, {"reason": "token_expired"})
        async with attached(other_hub, session, host_id="two"):
            pass
        error = await refused(renewed, "host.attach", session_id=kept, host_id="two")
        assert error.word == "already_attached"
        await send(hub, kept, id="c")
        assert [each["id"] for each in await told_of(renewed, 1)] == ["c"]


@proves("ws-host-redelivery")
async def test_a_host_whose_hub_was_killed_goes_on_at_another(
    redis_url: str, other_hub: HubProcess, session: str
) -> None:
    with running_hub(redis_url) as doomed:
        await publish(doomed, session, note())
        async with open_socket(other_hub) as sender:
            for n in range(3):
                command = {"type": "x.test", "id": f"c{n}"}
                await sender.call("command.send", session_id=session, command=command)
            async with attached(doomed, session, host_id="one") as (host, first):
                seen = await told_of(host, 3)
                await host.call("command.ack", session_id=session, id="c0", outcome="consumed")
                doomed.kill()
                assert (await host.closed())[0] is None
            async with attached(other_hub, session, host_id="one") as (host, second):
                assert second["lease"] > first["lease"]
                again = await told_of(host, 2)
                assert [(each["id"], each["attempt"]) for each in again] == [("c1", 2), ("c2", 2)]
                assert [each["cursor"] for each in again] == [each["cursor"] for each in seen[1:]]
                for each in again:
                    said = {"id": each["id"], "outcome": "consumed", "lease": second["lease"]}
                    await host.call("command.ack", session_id=session, **said)
            told = [(each["id"], each["status"]) for each in await updates(sender, 6)]
            assert sorted(told) == sorted(
                (f"c{n}", status) for n in range(3) for status in ("delivered", "consumed")
            )


@proves("ws-host-slow")
async def test_a_host_that_does_not_read_costs_little_and_keeps_its_lease(
    redis_url: str, session: str, redis_link: RedisLink
) -> None:
    """Commands of many sessions wait in Redis, not in the hub, until the host has room."""
    env = {"send_timeout_s": 30, "host_lease_s": 1, "commands_max": 100, "max_calls_per_s": 10_000}
    with running_hub(redis_url, env=env) as busy:
        sessions = [new_session() for _ in range(30)]
        filler = "x" * 250_000
        for each in sessions:
            await publish(busy, each, note())
            for n in range(8):
                await send(busy, each, id=f"c{n}", data={"filler": filler})
        before = busy.private_kib()
        async with open_socket(busy, max_queue=1) as host:
            for n, each in enumerate(sessions):
                # Sent, and the answers not read: the library stops reading when its queue is full.
                await host.send(
                    {
                        "jsonrpc": "2.0",
                        "id": n,
                        "method": "host.attach",
                        "params": {"session_id": each, "host_id": "one"},
                    }
                )

            async def is_stuck() -> bool:
                seen = await call(busy, "GET", f"/v1/sessions/{sessions[0]}")
                return bool(seen["host"]["connected"])

            await eventually(is_stuck, "it hosts")
            await asyncio.sleep(2)
            grown = busy.private_kib() - before
            assert grown < 30 * 1024, f"{grown} KiB of 57 MiB"
            told: dict[str, list[str]] = {each: [] for each in sessions}
            answers = 0
            while sum(map(len, told.values())) < 240 or answers < 30:
                message = await host.receive(timeout=30)
                if message.get("method") == "command":
                    told[message["params"]["session_id"]].append(message["params"]["id"])
                elif message.get("method") not in STATES:
                    assert "result" in message, message
                    answers += 1
            assert set(map(tuple, told.values())) == {tuple(f"c{n}" for n in range(8))}


async def test_who_waits_for_no_more_commands_leaves_nothing_behind(
    hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    tasks = hub.metrics()["sessionwire_tasks"]
    async with open_socket(hub) as client:
        for n in range(10):
            command = {"id": f"c{n}", "type": "abort"}
            await client.call("command.send", session_id=session, command=command)
        await listened(redis_link, session, 1)
        assert hub.metrics()["sessionwire_tasks"] > tasks
        for n in range(10):
            await acknowledge(hub, session, f"c{n}")
        await updates(client, 10)
        assert live_channel(session)
    assert (await request(hub, "GET", commands(session, "c1"))).json()["status"] == "consumed"

    async def is_quiet() -> bool:
        return hub.metrics()["sessionwire_tasks"] <= tasks

    await eventually(is_quiet, "no task of it is left")
