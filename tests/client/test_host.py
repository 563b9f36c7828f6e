"""The host of the SDK against real hubs: commands in order, over every interruption."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from sessionwire import Command, ConnectionFailed, Host, ProtocolError, RequestRejected, host
from tests.client.scripted_hub import frame, scripted_hub, status, stream
from tests.hub_process import HubProcess, running_hub, start_hub

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url) as process:
        yield process


@asynccontextmanager
async def client(hub: HubProcess) -> AsyncGenerator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {hub.key}"}
    async with httpx2.AsyncClient(base_url=hub.url, headers=headers, timeout=30) as http:
        yield http


async def create(http: httpx2.AsyncClient, sid: str) -> None:
    (await http.post("/v1/sessions", json={"id": sid})).raise_for_status()


async def send(http: httpx2.AsyncClient, sid: str, *ids: str) -> None:
    for name in ids:
        body = {"id": name, "type": "x.test", "data": {"n": name}}
        (await http.post(f"/v1/sessions/{sid}/commands", json=body)).raise_for_status()


async def receipt(http: httpx2.AsyncClient, sid: str, name: str) -> Any:
    return (await http.get(f"/v1/sessions/{sid}/commands/{name}")).json()


async def take(commands: Host, count: int) -> list[Command]:
    with anyio.fail_after(20):
        return [await anext(commands) for _ in range(count)]


async def test_commands_come_in_order_and_are_acknowledged(hub: HubProcess, sid: str) -> None:
    async with client(hub) as http:
        await create(http, sid)
        await send(http, sid, "a", "b")
        async with host(http, sid) as commands:
            first, second = await take(commands, 2)
            assert (first.id, first.type, first.data, first.attempt) == (
                *("a", "x.test", {"n": "a"}, 1),
            )
            assert first.by["human"] is True
            assert commands.lease > 0
            await commands.acknowledge(second, event_id="e1")
            await commands.acknowledge(second, event_id="e1")
            await commands.acknowledge(first, "rejected", detail="no")
            with pytest.raises(RequestRejected) as caught:
                await commands.acknowledge(first)
            assert caught.value.code == "already_acknowledged"
        told = await receipt(http, sid, "a")
        assert (told["status"], told["detail"]) == ("rejected", "no")
        told = await receipt(http, sid, "b")
        assert (told["status"], told["event_id"]) == ("consumed", "e1")


async def test_a_program_that_begins_anew_gets_what_it_had_not_acknowledged(
    hub: HubProcess, sid: str
) -> None:
    async with client(hub) as http:
        await create(http, sid)
        await send(http, sid, "a", "b", "c")
        async with host(http, sid) as commands:
            await commands.acknowledge((await take(commands, 3))[1])
        async with host(http, sid) as commands:
            again = await take(commands, 2)
        assert [(each.id, each.attempt) for each in again] == [("a", 2), ("c", 2)]


async def test_a_connection_that_is_cycled_again_and_again_doubles_nothing(
    redis_url: str, sid: str
) -> None:
    with running_hub(redis_url, env={"max_connection_s": 0.3}) as hub:
        async with client(hub) as http:
            await create(http, sid)
            ids = [f"c{n}" for n in range(30)]
            seen: list[Command] = []
            leases: set[int] = set()
            async with host(http, sid, host_id="me") as commands:
                for at in range(0, 30, 5):
                    await send(http, sid, *ids[at : at + 5])
                    seen += await take(commands, 5)
                    leases.add(commands.lease)
                    await anyio.sleep(0.3)  # past the end of a connection
            assert [each.id for each in seen] == ids, "unacknowledged, and yet each once"
            assert {each.attempt for each in seen} == {1}
            assert len(leases) > 2


async def test_a_host_outlives_its_hub(redis_url: str, sid: str) -> None:
    first = start_hub(redis_url, env={"host_lease_s": 60})
    try:
        async with client(first) as http:
            await create(http, sid)
            await send(http, sid, "a")
            async with host(http, sid, host_id="me") as commands:
                (a,) = await take(commands, 1)
                first.kill()
                port = ["--port", str(first.port)]
                with running_hub(redis_url, args=port) as second:
                    assert second.port == first.port
                    await commands.acknowledge(a)
                    await send(http, sid, "b")
                    (b,) = await take(commands, 1)
                    assert (b.id, b.attempt) == ("b", 1)
                    await commands.acknowledge(b)
                    assert (await receipt(http, sid, "a"))["status"] == "consumed"
    finally:
        first.stop()


async def test_another_host_is_a_conflict_until_it_takes_over(hub: HubProcess, sid: str) -> None:
    async with client(hub) as http:
        await create(http, sid)
        await send(http, sid, "a")
        async with host(http, sid, host_id="one") as one:
            (a,) = await take(one, 1)
            with pytest.raises(RequestRejected) as caught:
                await take(host(http, sid, host_id="two"), 1)
            assert caught.value.code == "host_conflict"
            async with host(http, sid, host_id="two", takeover=True) as two:
                assert [each.id for each in await take(two, 1)] == ["a"]
                with pytest.raises(RequestRejected) as caught:
                    await one.acknowledge(a)
                assert caught.value.code == "lease_lost"
                with pytest.raises(RequestRejected) as caught:
                    await take(one, 1)
                assert caught.value.code == "lease_lost"
                with pytest.raises(StopAsyncIteration):
                    await anext(one)


async def test_a_deleted_session_ends_the_commands(hub: HubProcess, sid: str) -> None:
    async with client(hub) as http:
        await create(http, sid)
        await send(http, sid, "a")
        async with host(http, sid) as commands:
            await take(commands, 1)
            await http.delete(f"/v1/sessions/{sid}")
            with anyio.fail_after(20), pytest.raises(StopAsyncIteration):
                await anext(commands)
        with pytest.raises(RequestRejected) as caught:
            await take(host(http, sid), 1)
        assert caught.value.status == 404


async def test_a_hub_that_cannot_be_reached_at_first_is_an_error() -> None:
    async with httpx2.AsyncClient(base_url="http://127.0.0.1:9", trust_env=False) as http:
        with pytest.raises(ConnectionFailed):
            await take(host(http, "s"), 1)


CONNECTED = frame("connected", '{"lease":7,"cursor":"e.3","expires_at":""}', id="e.3", retry=100)


def told(n: int) -> bytes:
    """Spell a command."""
    body = (
        '{"id":"c%d","cursor":"e.%d","type":"abort","data":{},"by":{},"created_at":"","attempt":1}'
    )
    return frame("command", body % (n, n), id=f"e.{n}")


async def test_the_place_is_the_last_command_that_was_handed_over() -> None:
    async with scripted_hub(
        stream(CONNECTED, told(4) + told(5), end="cut"),
        status(503, retry_after="0"),
        stream(CONNECTED, told(6), end="silent"),
    ) as hub:
        async with (
            httpx2.AsyncClient(base_url=hub.url, trust_env=False) as http,
            host(http, "s", host_id="me", takeover=True) as commands,
        ):
            assert [each.id for each in await take(commands, 3)] == ["c4", "c5", "c6"]
        asked = [request.query for request in hub.requests]
        assert asked == [
            {"host_id": ["me"], "takeover": ["1"]},
            {"host_id": ["me"], "since_id": ["e.5"]},
            {"host_id": ["me"], "since_id": ["e.5"]},
        ]


@pytest.mark.parametrize("data", ["x", "[]", "{}"])
async def test_a_command_that_makes_no_sense_is_an_error(data: str) -> None:
    async with (
        scripted_hub(stream(CONNECTED, frame("command", data, id="e.4"))) as hub,
        httpx2.AsyncClient(base_url=hub.url, trust_env=False) as http,
        host(http, "s") as commands,
    ):
        with pytest.raises(ProtocolError):
            await take(commands, 1)
