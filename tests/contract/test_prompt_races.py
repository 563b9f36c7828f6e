"""One answer wins, whoever else answers and whatever is killed meanwhile (protocol.md §8.3)."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from websockets.exceptions import WebSocketException

from tests.chaos.hubs import admin
from tests.contract._requirements import proves
from tests.contract.events import call, new_session, note, publish
from tests.contract.prompting import (
    answer,
    answered,
    ask,
    ask_calls,
    look,
    open_ids,
    permit,
)
from tests.contract.rpc_client import Refused, open_socket
from tests.contract.test_commands import acknowledge, commands
from tests.contract.test_publish import check_problem
from tests.contract.wire import eventually, open_stream, request
from tests.hub_process import HubProcess, running_hub, start_hub
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

ANSWERERS = 200
LONG_S = 60.0
"""Two hundred answers, with everything restarted meanwhile, on two busy cores."""


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody who answered was told: `winner` is the answer that won."""

    status: int
    winner: Any


Send = Callable[[HubProcess, str, str, Any, str], Awaitable[Told]]
"""Answers a prompt of a session over one transport, under an idempotency key."""


async def over_http(hub: HubProcess, session: str, rid: str, value: Any, key: str) -> Told:
    given = await answer(hub, session, rid, value, key=key)
    if given.status == 200:
        return Told(200, given.json()["answer"])
    if given.status == 503:
        raise OSError(given.code)
    return Told(409, check_problem(given, 409, "prompt_already_answered")["answer"])


async def over_websocket(hub: HubProcess, session: str, rid: str, value: Any, key: str) -> Told:
    place = {"session_id": session, "request_id": rid}
    async with open_socket(hub) as client:
        try:
            prompt = await client.call("prompt.answer", answer=value, idempotency_key=key, **place)
            return Told(200, prompt["answer"])
        except Refused as error:
            refusal = error
    if refusal.data["status"] == 503:
        raise OSError(refusal.word)
    assert refusal.word == "prompt_already_answered"
    return Told(409, refusal.data["answer"])


async def over_tool_results(hub: HubProcess, session: str, rid: str, value: Any, key: str) -> Told:
    """As everruns' clients do, who have no key: what was taken and lost is told as a winner."""
    results = {"tool_results": [{"tool_call_id": rid, **value}]}
    path = f"/v1/sessions/{session}/tool-results"
    given = await request(hub, "POST", path, body=json.dumps(results).encode())
    if given.status == 503:
        raise OSError(given.code)
    if given.status == 200:
        return Told(200, value)
    winner = check_problem(given, 409, "prompt_already_answered")["answer"]
    return Told(200 if winner == value else 409, winner)


async def insist(send: Send, hubs: Sequence[HubProcess], *args: Any) -> Told:
    """Answer until the answer is known, at whichever hub is there."""
    for hub in itertools.cycle(hubs):
        try:
            return await send(hub, *args)
        except (OSError, EOFError, TimeoutError, WebSocketException):
            # Lost with its hub or its Redis: it is safe to send again, under its key.
            await anyio.sleep(0.05)
    raise AssertionError


@dataclass
class Host:
    """A host that reads the session's commands at whichever hub is there, as long as it lives.

    Attributes:
        seen: how often each command was handed to it.
        consumed: what it did, each command once.
    """

    hubs: Sequence[HubProcess]
    session: str
    seen: Counter[str] = field(default_factory=Counter[str])
    consumed: dict[str, Any] = field(default_factory=dict[str, Any])

    async def run(self) -> None:
        for hub in itertools.cycle(self.hubs):
            try:
                await self._read(hub)
            except (OSError, EOFError, AssertionError):
                await anyio.sleep(0.05)

    async def _read(self, hub: HubProcess) -> None:
        path = f"{commands(self.session)}/sse?host_id=one"
        async with open_stream(hub, path) as stream:
            while (frame := await stream.read(timeout=LONG_S)) is not None:
                if frame.event != "command":
                    continue
                command = frame.json()
                self.seen[command["id"]] += 1
                self.consumed.setdefault(command["id"], command["data"])
                said = await acknowledge(hub, self.session, command["id"])
                assert said.status in (200, 503), said


@asynccontextmanager
async def hosted(hubs: Sequence[HubProcess], session: str) -> AsyncGenerator[Host]:
    host = Host(hubs, session)
    async with anyio.create_task_group() as group:
        group.start_soon(host.run)
        yield host
        group.cancel_scope.cancel()


async def race(
    sends: Sequence[Send],
    hubs: Sequence[HubProcess],
    session: str,
    *,
    after: int = 0,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> Any:
    """Have everybody answer `p1` at once; the answer that won, of which all were told.

    Args:
        sends: the transports, by turns.
        hubs: the hubs, by turns.
        session: the session.
        after: how many have been told when `meanwhile` happens.
        meanwhile: what happens then.
    """
    told: list[Told] = []
    now = anyio.Event()

    async def one(n: int) -> None:
        value = {"result": f"answer {n}"}
        mine = [*hubs[n % len(hubs) :], *hubs[: n % len(hubs)]]
        told.append(
            await insist(sends[n // 2 % len(sends)], mine, session, "p1", value, f"key {n}")
        )
        if len(told) >= after:
            now.set()

    async with anyio.create_task_group() as group:
        for n in range(ANSWERERS):
            group.start_soon(one, n)
        if meanwhile is not None:
            if after:
                await now.wait()
            await meanwhile()
    winners = [each for each in told if each.status == 200]
    assert len(winners) == 1, Counter(each.status for each in told)
    assert all(each.winner == winners[0].winner for each in told), "everybody is told the same"
    return winners[0].winner


SENDS: list[Send] = [over_http, over_websocket, over_tool_results]


@proves("prompt-first")
async def test_of_two_hundred_answers_over_three_transports_one_wins_and_all_are_told(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, ask_calls("p1"))
    async with hosted([hub, other_hub], session) as host:
        won = await race(SENDS, [hub, other_hub], session)
        await consumed(host)
    assert [each["answer"] for each in host.consumed.values()] == [won]
    await settled(hub, session, won)


async def consumed(host: Host) -> None:
    async def is_so() -> bool:
        return bool(host.consumed)

    await eventually(is_so, "the host has the answer", timeout=LONG_S)


async def settled(hub: HubProcess, session: str, won: Any) -> None:
    """The record, the log and the command agree with the winner, and there is one of each."""
    prompt = await look(hub, session, "p1")
    assert (prompt["status"], prompt["answer"]) == ("completed", won)
    path = f"/v1/sessions/{session}/events?types=tool.completed"
    (closed,) = (await call(hub, "GET", path))["data"]
    assert closed["data"]["tool_call_id"] == "p1"
    assert closed["data"]["result"] == [{"type": "text", "text": won["result"]}]
    assert await open_ids(hub, session) == []


KILLED = [("hub", 0), ("hub", 20), ("redis", 0), ("redis", 20), ("connections", 0), ("host", 0)]


@pytest.mark.parametrize(("what", "after"), KILLED)
@proves("prompt-first")
async def test_one_answer_wins_whatever_is_killed_meanwhile(
    own_redis: RedisProcess, what: str, after: int
) -> None:
    session = new_session()
    with running_hub(own_redis.url) as hub, running_hub(own_redis.url) as other:
        await publish(other, session, ask_calls("p1"))
        async with hosted([hub, other], session) as host:
            kill = partial(KILLS[what], hub, own_redis, session)
            with anyio.fail_after(LONG_S):
                won = await race(SENDS, [hub, other], session, after=after, meanwhile=kill)
            await consumed(host)
            assert [each["answer"] for each in host.consumed.values()] == [won]
            await settled(other, session, won)


async def kill_hub(hub: HubProcess, redis: RedisProcess, session: str) -> None:
    hub.kill()


async def kill_redis(hub: HubProcess, redis: RedisProcess, session: str) -> None:
    await anyio.to_thread.run_sync(redis.kill)
    await anyio.to_thread.run_sync(redis.start)


async def kill_connections(hub: HubProcess, redis: RedisProcess, session: str) -> None:
    for _ in range(5):
        for kind in ("normal", "pubsub"):
            await admin(redis.url, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


async def kill_host(hub: HubProcess, redis: RedisProcess, session: str) -> None:
    """Another program takes the lease under the same name, and is gone with what it has read."""
    for _ in range(5):
        await come_and_go(hub, session)


KILLS = {
    "hub": kill_hub,
    "redis": kill_redis,
    "connections": kill_connections,
    "host": kill_host,
}


async def come_and_go(hub: HubProcess, session: str) -> None:
    """Be a host that attaches, may read something, and crashes."""
    async with open_stream(hub, f"{commands(session)}/sse?host_id=one") as stream:
        await stream.until("connected")
        stream.connection.reset()


ORDERS = list(itertools.permutations(("hub", "redis", "host")))


@pytest.mark.parametrize("order", ORDERS, ids=["-".join(order) for order in ORDERS])
@proves("prompt-restarts")
async def test_questions_and_answers_outlive_restarts_in_every_order(
    own_redis: RedisProcess, order: tuple[str, ...]
) -> None:
    """Everything restarts between question and answer, and again between answer and host."""
    session = new_session()
    hub = start_hub(own_redis.url)
    host = Host([hub], session)
    try:
        await publish(hub, session, [note(), permit("p1"), ask("u2")])
        before = [await look(hub, session, rid) for rid in ("p1", "u2")]
        hub = await restart(order, hub, own_redis, session)
        after = [await look(hub, session, rid) for rid in ("p1", "u2")]
        assert [still(each) for each in after] == [still(each) for each in before]
        won = await answered(hub, session, "p1", {"kind": "reject", "feedback": "x"}, key="k")
        hub = await restart(order, hub, own_redis, session)
        again = await answered(hub, session, "p1", {"kind": "reject", "feedback": "x"}, key="k")
        assert again == won, "the same answer, told again"
        assert await open_ids(hub, session) == ["u2"]
        await settled_with_one_open(hub, session)
        host.hubs = [hub]
        async with hosted([hub], session) as host:
            await consumed(host)
        (data,) = host.consumed.values()
        assert data["request_id"] == "p1"
        assert data["answer"] == {"kind": "reject", "feedback": "x"}
        await answered(hub, session, "u2", {"answer": "x"})
    finally:
        hub.stop()


def still(prompt: Any) -> Any:
    """What stays the same of a prompt while programs come and go."""
    return {name: value for name, value in prompt.items() if name != "unattended"}


async def settled_with_one_open(hub: HubProcess, session: str) -> None:
    page = await call(hub, "GET", f"/v1/sessions/{session}/events")
    types = [each["type"] for each in page["data"]]
    assert types == ["session.info", "permission.requested", "permission.completed"]


async def restart(
    order: Sequence[str], hub: HubProcess, redis: RedisProcess, session: str
) -> HubProcess:
    """Restart each in turn, hard; the hub that is there afterwards."""
    for what in order:
        if what == "hub":
            hub.kill()
            hub.stop()
            hub = await anyio.to_thread.run_sync(start_hub, redis.url)
        elif what == "redis":
            redis.kill()
            redis.start()
            await eventually(ready(hub), "the hub has found Redis again", timeout=LONG_S)
        else:
            await come_and_go(hub, session)
    return hub


def ready(hub: HubProcess) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        return await anyio.to_thread.run_sync(hub.is_ready)

    return is_so
