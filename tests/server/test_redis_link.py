"""The link: what errors mean, that nothing is sent twice, and whether a Redis is fit."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import anyio
import anyio.abc
import pytest

from sessionwire_server import scripts
from sessionwire_server.errors import HubError
from sessionwire_server.fitness import findings
from sessionwire_server.redis_link import (
    WRITES_IN_FLIGHT,
    RedisLink,
    StorageFull,
    StoreUnavailable,
)
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.redis_process import RedisProcess
from tests.server.store_events import durable, ids, read_all, send

pytestmark = pytest.mark.anyio


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_redis_that_is_away_is_503_with_retry_after(sid: str) -> None:
    settings = Settings(redis_url=f"redis://127.0.0.1:{closed_port()}")
    async with RedisLink(settings) as link:
        with pytest.raises(StoreUnavailable) as caught:
            await send(EventStore(link, settings), sid, durable("a"))
        assert not link.is_up
    error = caught.value
    assert (error.status, error.code) == (503, "redis_unavailable")
    assert error.headers == {"Retry-After": "1"}


async def test_a_url_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisLink(Settings(redis_url="http://127.0.0.1"))


async def test_publishes_go_on_after_a_restart_and_nothing_is_lost_or_doubled(
    own_redis: RedisProcess, sid: str
) -> None:
    settings = Settings(redis_url=own_redis.url)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        await send(store, sid, durable("a"))
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await send(store, sid, durable("b"))
        own_redis.start()
        verdicts = await send(store, sid, durable("a"), durable("b"))
        assert [v.duplicate for v in verdicts] == [True, False]
        assert ids((await read_all(store, sid))[0]) == ["a", "b"]
        assert link.is_up


async def test_a_lost_reply_is_not_sent_again(redis_server: RedisProcess, sid: str) -> None:
    """A proxy swallows the reply to the publish: the event is stored once and the answer is 503."""
    publishes = 0

    async def relay(client: anyio.abc.SocketStream) -> None:
        nonlocal publishes
        async with client, await anyio.connect_tcp("127.0.0.1", redis_server.port) as server:
            deaf = False

            async def answers() -> None:
                async for data in server:
                    if deaf:
                        await client.aclose()
                        return
                    await client.send(data)

            async with anyio.create_task_group() as group:
                group.start_soon(answers)
                try:
                    async for data in client:
                        if b"EVAL" in data:
                            publishes += 1
                            deaf = True
                        await server.send(data)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    pass
                group.cancel_scope.cancel()

    settings = Settings(redis_url=redis_server.url)
    async with RedisLink(settings) as direct:
        store = EventStore(direct, settings)
        await send(store, sid, durable("a"))
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        proxied = Settings(redis_url=f"redis://127.0.0.1:{port}")
        async with listener, anyio.create_task_group() as group, RedisLink(proxied) as link:
            group.start_soon(listener.serve, relay)
            with pytest.raises(StoreUnavailable):
                await send(EventStore(link, proxied), sid, durable("b"))
            group.cancel_scope.cancel()
        assert publishes == 1
        (verdict,) = await send(store, sid, durable("b"))
        assert verdict.duplicate


async def test_a_silent_redis_ends_in_a_timeout(sid: str) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    settings = Settings(redis_url=f"redis://127.0.0.1:{port}", redis_timeout_s=0.2)
    async with listener, RedisLink(settings) as link:
        started = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await link.command("PING")
        assert time.monotonic() - started < 3


async def test_what_waits_behind_a_silent_redis_ends_in_time_too(sid: str) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    settings = Settings(redis_url=f"redis://127.0.0.1:{port}", redis_timeout_s=0.2)
    failed = 0
    async with listener, RedisLink(settings) as link:

        async def ask() -> None:
            nonlocal failed
            with pytest.raises(StoreUnavailable):
                await link.command("PING")
            failed += 1

        started = time.monotonic()
        async with anyio.create_task_group() as group:
            for _ in range(2_000):
                group.start_soon(ask)
        assert failed == 2_000
        assert time.monotonic() - started < 4


async def test_a_server_that_forgot_the_scripts_gets_their_text(
    own_redis: RedisProcess, sid: str
) -> None:
    settings = Settings(redis_url=own_redis.url)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        await send(store, sid, durable("a"))
        await link.command("SCRIPT", "FLUSH")
        await send(store, sid, durable("b"))
        await link.command("SCRIPT", "FLUSH")
        assert ids((await read_all(store, sid))[0]) == ["a", "b"]


async def test_a_full_redis_takes_nothing_and_still_reads(
    own_redis: RedisProcess, sid: str
) -> None:
    settings = Settings(redis_url=own_redis.url)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        await send(store, sid, durable("a"))
        await link.command("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StorageFull) as caught:
            await send(store, sid, durable("b"), durable("c"))
        assert (caught.value.status, caught.value.code) == (507, "storage_full")
        with pytest.raises(StorageFull):
            await send(store, sid + "new", durable("b"))
        assert ids((await read_all(store, sid))[0]) == ["a"]
        await link.command("CONFIG", "SET", "maxmemory", 0)
        assert await store.heads([sid + "new"]) == {sid + "new": None}
        (verdict,) = await send(store, sid, durable("b"))
        assert verdict.sequence == 2


async def test_a_replica_is_unavailable_for_publishes(own_redis: RedisProcess, sid: str) -> None:
    settings = Settings(redis_url=own_redis.url)
    async with RedisLink(settings) as link:
        await link.command("REPLICAOF", "127.0.0.1", closed_port())
        with pytest.raises(StoreUnavailable):
            await send(EventStore(link, settings), sid, durable("a"))
        assert {f.subject: f.level for f in await link.fitness()}["role"] == "error"


GREETING = {b"HELLO": b"%1\r\n+proto\r\n:3\r\n", b"CLIENT": b"+OK\r\n"}


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        ("TRYAGAIN Multiple keys request during rehashing of slot", 503),
        ("CLUSTERDOWN The cluster is down", 503),
        ("MOVED 3999 127.0.0.1:6381", 503),
        ("LOADING Redis is loading the dataset in memory", 503),
        ("READONLY You can't write against a read only replica.", 503),
        ("MASTERDOWN Link with MASTER is down", 503),
        ("MISCONF Redis is configured to save RDB snapshots", 503),
        ("NOREPLICAS Not enough good replicas to write.", 503),
        ("BUSY Redis is busy running a script.", 503),
        ("OOM command not allowed when used memory > 'maxmemory'.", 507),
    ],
    ids=lambda value: str(value).split()[0],
)
async def test_what_a_refusal_means(sid: str, refusal: str, status: int) -> None:
    """A server that greets as Redis does and refuses every script."""

    async def refuse(client: anyio.abc.SocketStream) -> None:
        async with client:
            async for data in client:
                for name in re.findall(rb"\*\d+\r\n\$\d+\r\n([A-Z]+)\r\n", data):
                    known = GREETING.get(name) or f"-{refusal}\r\n".encode()
                    await client.send(known)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    settings = Settings(redis_url=f"redis://127.0.0.1:{port}", redis_timeout_s=2)
    async with listener, anyio.create_task_group() as group, RedisLink(settings) as link:
        group.start_soon(listener.serve, refuse)
        with pytest.raises(HubError) as caught:
            await send(EventStore(link, settings), sid, durable("a"))
        assert caught.value.status == status
        group.cancel_scope.cancel()


async def test_a_unix_socket_is_taken(tmp_path: Path, sid: str) -> None:
    path = tmp_path / "r.sock"
    with RedisProcess("--unixsocket", str(path)):
        settings = Settings(redis_url=f"unix://{path}")
        async with RedisLink(settings) as link:
            (verdict,) = await send(EventStore(link, settings), sid, durable("a"))
            assert verdict.sequence == 1


async def test_a_fault_of_our_own_is_not_hidden_as_unavailable(redis_link: RedisLink) -> None:
    with pytest.raises(Exception, match="wrong number of arguments") as caught:
        await redis_link.command("GET")
    assert not isinstance(caught.value, HubError)


async def test_fitness_follows_the_settings_of_the_server(own_redis: RedisProcess) -> None:
    async with RedisLink(Settings(redis_url=own_redis.url)) as link:

        async def levels() -> dict[str, str]:
            return {finding.subject: finding.level for finding in await link.fitness()}

        name = "client-output-buffer-limit"
        before = await levels()
        assert (before["version"], before["role"], before["appendonly"]) == ("ok", "ok", "ok")
        assert before[name] == "warning"
        await link.command("CONFIG", "SET", name, "pubsub 256mb 64mb 60")
        await link.command("CONFIG", "SET", "appendonly", "no")
        await link.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        after = await levels()
        assert (after[name], after["appendonly"]) == ("ok", "warning")
        assert after["maxmemory-policy"] == "warning"


def test_old_evicting_and_clustered_servers_are_found() -> None:
    levels = {
        finding.subject: finding.level
        for finding in findings(
            {"redis_version": "6.2.14", "cluster_enabled": "1"},
            {"maxmemory-policy": "allkeys-lru", "appendonly": "yes"},
        )
    }
    assert levels == {
        "version": "error",
        "role": "error",
        "maxmemory-policy": "warning",
        "appendonly": "ok",
        "client-output-buffer-limit": "ok",
    }
    hidden = findings({"redis_version": "7.2.4", "valkey_version": "8.0.1"}, None)
    assert [finding.level for finding in hidden] == ["ok", "ok", "warning"]
    assert hidden[0].detail == "Valkey 8.0.1"


def test_every_script_is_loaded_whole() -> None:
    for name in scripts.names():
        script = scripts.load(name)
        assert script.text.startswith("#!lua")
        assert "--#include" not in script.text
        assert len(script.sha) == 40


async def test_many_commands_share_few_connections(own_redis: RedisProcess) -> None:
    async with RedisLink(Settings(redis_url=own_redis.url)) as link:

        async def ask() -> None:
            assert await link.command("ECHO", "x") == b"x"

        async with anyio.create_task_group() as group:
            for _ in range(300):
                group.start_soon(ask)
        info = str(await link.command("INFO", "clients"))
        count = int(info.partition("connected_clients:")[2].split("\\r")[0].split()[0])
        assert 1 <= count <= WRITES_IN_FLIGHT
