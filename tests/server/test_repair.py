"""Hints that were lost are found again from the sessions themselves."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator

import pytest

from sessionwire_server.keys import ASKING, DEADLINES, SESSIONS, SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.repair import PAGE, Repaired, repair
from sessionwire_server.settings import Settings
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server() -> Generator[RedisProcess]:
    """A server of these tests' own: they count everything on it."""
    with RedisProcess() as server:
        yield server


@pytest.fixture
async def link(server: RedisProcess) -> AsyncGenerator[RedisLink]:
    async with RedisLink(Settings(redis_url=server.url)) as link:
        await link.command("FLUSHALL")
        yield link


async def lay(link: RedisLink, sid: str, *, due_ms: int = 0, asks: bool = False) -> None:
    """Lay down a session as the scripts do, without its hints."""
    keys = SessionKeys.of(sid)
    await link.command("HSET", keys.meta, "epoch", "abcdefgh", "updated_ms", 1_000)
    await link.command("RPUSH", f"sw:{{{sid}}}:other", "x")
    if due_ms:
        await link.command("ZADD", keys.due, due_ms, "p:r1", due_ms + 5, "c:x")
    if asks:
        await link.command("HSET", keys.prompts, "r1", "{}")


async def test_what_is_missing_is_added(link: RedisLink) -> None:
    now = int(time.time() * 1000)
    await lay(link, "plain")
    await lay(link, "asks", due_ms=now, asks=True)
    assert await repair(link) == Repaired(sessions=2, listed=2, due=1, asking=1)
    assert await link.command("ZSCORE", SESSIONS, "plain") == 1_000
    assert await link.command("ZSCORE", DEADLINES, "asks") == now
    assert await link.command("ZRANGE", ASKING, 0, -1) == [b"asks"]
    assert await repair(link) == Repaired(sessions=2)


async def test_what_a_hub_has_noted_stays(link: RedisLink) -> None:
    await lay(link, "live", due_ms=9_000, asks=True)
    await link.command("ZADD", SESSIONS, 5_000, "live")
    await link.command("ZADD", DEADLINES, 8_000, "live")
    await link.command("ZADD", ASKING, 0, "live")
    assert await repair(link) == Repaired(sessions=1)
    assert await link.command("ZSCORE", SESSIONS, "live") == 5_000
    assert await link.command("ZSCORE", DEADLINES, "live") == 8_000


async def test_a_deadline_that_would_have_been_missed_is_moved_ahead(link: RedisLink) -> None:
    await lay(link, "late", due_ms=9_000)
    await link.command("ZADD", DEADLINES, 10_000, "late")
    assert (await repair(link)).due == 1
    assert await link.command("ZSCORE", DEADLINES, "late") == 9_000


async def test_deleted_sessions_and_foreign_keys_are_left_alone(link: RedisLink) -> None:
    await lay(link, "gone", due_ms=9_000, asks=True)
    await link.command("HSET", SessionKeys.of("gone").meta, "deleted", 1)
    await link.command("HSET", "sw:{not an id}:meta", "epoch", "abcdefgh")
    await link.command("HSET", "other:{x}:meta", "epoch", "abcdefgh")
    await link.command("SET", "sw:{text}:meta", "no hash")
    assert await repair(link) == Repaired()
    assert await link.command("EXISTS", SESSIONS, DEADLINES, ASKING) == 0


async def test_more_sessions_than_one_step_takes_are_all_found(link: RedisLink) -> None:
    count = 3 * PAGE + 1
    for number in range(count):
        await lay(link, f"s{number}")
    assert (await repair(link)).listed == count
    assert await link.command("ZCARD", SESSIONS) == count
