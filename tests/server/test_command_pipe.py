"""Commands joined into one write: each keeps its own reply, refusal and order."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

import anyio
import pytest
from redis.asyncio.connection import BlockingConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from sessionwire_server.command_pipe import CommandPipe, Pool
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def pipe_to(url: str) -> AsyncGenerator[CommandPipe]:
    """Open a pipe with one write in flight."""
    words = urlsplit(url)
    pool = BlockingConnectionPool(
        host=words.hostname, port=words.port, protocol=3, max_connections=1
    )
    yield CommandPipe(cast("Pool", pool), 1, 5)
    await pool.disconnect()


@pytest.fixture
async def pipe(redis_url: str) -> AsyncGenerator[CommandPipe]:
    """A pipe to the shared server."""
    async with pipe_to(redis_url) as pipe:
        yield pipe


async def test_each_command_gets_its_own_reply(pipe: CommandPipe, sid: str) -> None:
    replies: dict[int, int] = {}

    async def count(n: int) -> None:
        replies[n] = await pipe.send("INCR", sid)

    async with anyio.create_task_group() as group:
        for n in range(500):
            group.start_soon(count, n)
    assert sorted(replies.values()) == list(range(1, 501))
    assert pipe.writes < 20


async def test_a_refused_command_leaves_its_neighbours_alone(pipe: CommandPipe, sid: str) -> None:
    results: list[object] = [None] * 20

    async def send(n: int) -> None:
        try:
            results[n] = await pipe.send(*(("GET",) if n % 3 == 0 else ("ECHO", n)))
        except ResponseError as refused:
            results[n] = type(refused)

    async with anyio.create_task_group() as group:
        for n in range(20):
            group.start_soon(send, n)
    assert results == [ResponseError if n % 3 == 0 else str(n).encode() for n in range(20)]


async def test_a_connection_that_fails_fails_its_commands_and_is_replaced(
    own_redis: RedisProcess,
) -> None:
    async with pipe_to(own_redis.url) as pipe:
        assert await pipe.send("ECHO", "a") == b"a"
        own_redis.stop()
        failures = 0

        async def send() -> None:
            nonlocal failures
            try:
                await pipe.send("ECHO", "b")
            except (RedisConnectionError, OSError):
                failures += 1

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(send)
        assert failures == 10
        own_redis.start()
        assert await pipe.send("ECHO", "c") == b"c"


async def test_a_cancelled_command_does_not_shift_the_replies(pipe: CommandPipe) -> None:
    """Its reply is read all the same, by nobody."""
    with anyio.move_on_after(0):
        await pipe.send("ECHO", "given up")
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(pipe.send, "ECHO", "x")
        group.cancel_scope.cancel()
    assert [await pipe.send("ECHO", n) for n in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


async def test_commands_of_one_write_are_joined_with_others(pipe: CommandPipe, sid: str) -> None:
    """`send_all` is one item of the queue: its replies stay together."""
    replies: dict[int, list[object]] = {}

    async def send(n: int) -> None:
        replies[n] = await pipe.send_all([("ECHO", n), ("INCR", sid), ("ECHO", -n)])

    async with anyio.create_task_group() as group:
        for n in range(1, 50):
            group.start_soon(send, n)
    for n, (first, _, last) in replies.items():
        assert (first, last) == (str(n).encode(), str(-n).encode())
    assert sorted(reply[1] for reply in replies.values()) == list(range(1, 50))  # type: ignore[type-var]
    assert await pipe.send_all([]) == []
    with pytest.raises(ResponseError):
        await pipe.send_all([("ECHO", 1), ("GET",), ("ECHO", 2)])
    assert await pipe.send("ECHO", "in step") == b"in step"
