"""The sweep: idle sessions are trimmed and retired, by one hub at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from sessionwire_server.errors import HubError
from sessionwire_server.keys import SESSIONS, SWEEP
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from sessionwire_server.sweeper import Swept, sweep, sweep_once
from tests.redis_process import RedisProcess
from tests.server.store_events import durable, send, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def link(own_redis: RedisProcess) -> AsyncGenerator[RedisLink]:
    """A link to a server with no other sessions."""
    async with RedisLink(Settings(redis_url=own_redis.url)) as link:
        yield link


async def filled(link: RedisLink, *sids: str) -> None:
    """Make sessions with 250 events each, without any retention."""
    store = EventStore(link, Settings(redis_url=link.url, log_max_events=0, log_max_age_s=0))
    for sid in sids:
        await send(store, sid, *(durable(f"e{n}") for n in range(250)))


async def test_a_pass_trims_every_session(link: RedisLink) -> None:
    sids = [f"s{n}" for n in range(12)]
    await filled(link, *sids)
    settings = Settings(redis_url=link.url, log_max_events=100)
    store = EventStore(link, settings)
    assert await sweep_once(store, settings) == Swept(sessions=12, retired=0)
    for sid in sids:
        assert 50 < (await store.look(sid)).first_sequence <= 151


async def test_a_pass_retires_what_is_idle_too_long_and_takes_it_off_the_list(
    link: RedisLink,
) -> None:
    await filled(link, "old", "new")
    await link.command("HINCRBY", "sw:{old}:meta", "updated_ms", -3_600_000)
    await link.command("ZADD", SESSIONS, 1, "gone")
    settings = Settings(redis_url=link.url, session_ttl_s=1_800)
    store = EventStore(link, settings)
    assert await sweep_once(store, settings) == Swept(sessions=3, retired=2)
    assert await link.command("ZRANGE", SESSIONS, 0, -1) == [b"new"]
    assert (await store.look("old")).first_sequence == 251
    with pytest.raises(HubError):
        await store.look("gone")


async def test_the_sweep_runs_in_one_hub_and_goes_on_after_a_failure(
    own_redis: RedisProcess, link: RedisLink
) -> None:
    await filled(link, "s")
    settings = Settings(redis_url=link.url, log_max_events=100, sweep_every_s=0.1)
    stores = [EventStore(link, settings) for _ in range(2)]
    await link.command("SET", SWEEP, "another hub", "PX", 300)

    async def is_trimmed() -> bool:
        return (await stores[0].look("s")).first_sequence > 1

    async with anyio.create_task_group() as group:
        own_redis.stop()
        for store in stores:
            group.start_soon(sweep, store, settings)
        await anyio.sleep(0.15)
        own_redis.start()
        await until(is_trimmed)
        group.cancel_scope.cancel()


async def test_taking_the_sweep_is_exclusive_for_a_while(link: RedisLink) -> None:
    settings = Settings(redis_url=link.url, sweep_every_s=60)
    stores = [EventStore(link, settings) for _ in range(3)]
    taken = [await store.take_sweep() for store in stores]
    assert taken == [True, False, False]
    assert 29_000 < await link.command("PTTL", SWEEP) <= 30_000
