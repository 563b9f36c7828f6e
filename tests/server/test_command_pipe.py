"""Commands joined into one write: each keeps its own reply, refusal and order."""

from __future__ import annotations

from typing import cast

import anyio
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from sessionwire_server.command_pipe import CommandPipe, Pool
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio


def pipe_over(link: RedisLink) -> CommandPipe:
    return CommandPipe(cast("Pool", link.client.connection_pool))


async def test_each_command_gets_its_own_reply(redis_link: RedisLink, sid: str) -> None:
    pipe = pipe_over(redis_link)
    replies: dict[int, int] = {}

    async def count(n: int) -> None:
        replies[n] = await pipe.send("INCR", sid)

    async with anyio.create_task_group() as group:
        for n in range(500):
            group.start_soon(count, n)
    assert sorted(replies.values()) == list(range(1, 501))
    assert pipe.writes < 20


async def test_a_refused_command_leaves_its_neighbours_alone(
    redis_link: RedisLink, sid: str
) -> None:
    pipe = pipe_over(redis_link)
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
    async with RedisLink(Settings(redis_url=own_redis.url)) as link:
        pipe = pipe_over(link)
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


async def test_a_cancelled_command_does_not_shift_the_replies(redis_link: RedisLink) -> None:
    """Its reply is read all the same, by nobody."""
    pipe = pipe_over(redis_link)
    with anyio.move_on_after(0):
        await pipe.send("ECHO", "given up")
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(pipe.send, "ECHO", "x")
        group.cancel_scope.cancel()
    assert [await pipe.send("ECHO", n) for n in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
