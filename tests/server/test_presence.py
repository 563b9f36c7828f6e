"""Who watches a session, summed over hubs: protocol §6.5. Two attendances are two hubs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from sessionwire_server.keys import SessionKeys, live_channel
from sessionwire_server.presence import NOBODY, Attendance, Presence
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import durable, pushes, send, until

pytestmark = pytest.mark.anyio

SHORT_S = 1.0


@asynccontextmanager
async def attending(
    link: RedisLink, hub_id: str, *, presence_s: float = 60
) -> AsyncGenerator[Attendance]:
    """One hub's attendance while it runs."""
    attendance = Attendance(link, Settings(redis_url=link.url, presence_s=presence_s), hub_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attendance.run)
        yield attendance
        tasks.cancel_scope.cancel()


def reads(attendance: Attendance, sid: str, wanted: Presence) -> Callable[[], Awaitable[bool]]:
    async def as_wanted() -> bool:
        return await attendance.of(sid) == wanted

    return as_wanted


def shares(link: RedisLink, sid: str, wanted: int) -> Callable[[], Awaitable[bool]]:
    async def as_wanted() -> bool:
        return int(await link.command("HLEN", SessionKeys.of(sid).presence)) == wanted

    return as_wanted


@pytest.fixture
async def session(store: EventStore, sid: str) -> str:
    await send(store, sid, durable("e1"))
    return sid


async def test_viewers_of_all_hubs_are_summed(redis_link: RedisLink, session: str) -> None:
    async with attending(redis_link, "one") as one, attending(redis_link, "two") as two:
        with one.counted(session, can_answer=True), one.counted(session, can_answer=False):
            with two.counted(session, can_answer=True):
                for hub in (one, two):
                    await until(reads(hub, session, Presence(3, 2, host_connected=False)))
            for hub in (one, two):
                await until(reads(hub, session, Presence(2, 1, host_connected=False)))
        await until(reads(two, session, NOBODY))
        await until(shares(redis_link, session, 0))


async def test_our_own_viewers_count_before_they_are_written(
    redis_link: RedisLink, session: str
) -> None:
    attendance = Attendance(redis_link, Settings(redis_url=redis_link.url), "one")
    with attendance.counted(session, can_answer=True):
        assert await attendance.of(session) == Presence(1, 1, host_connected=False)
    assert await attendance.of(session) == NOBODY


async def test_a_change_is_told_and_a_renewal_is_not(redis_link: RedisLink, session: str) -> None:
    async with (
        pushes(redis_link, live_channel(session)) as next_push,
        attending(redis_link, "one", presence_s=SHORT_S) as one,
    ):
        with one.counted(session, can_answer=True):
            assert (await next_push()).split()[2:] == [b"1", b"1"]
            key = SessionKeys.of(session).presence
            first = await redis_link.command("HGET", key, "one")

            async def was_renewed() -> bool:
                return bool(await redis_link.command("HGET", key, "one") != first)

            await until(was_renewed)
        # The next message is that of the one who left: nothing was told meanwhile.
        assert (await next_push()).split()[2:] == [b"0", b"0"]


async def test_many_who_come_and_go_are_few_writes(redis_link: RedisLink, session: str) -> None:
    async with attending(redis_link, "one") as one:
        before = await _scripts_run(redis_link)
        with ExitStack() as held:
            for _ in range(500):
                with one.counted(session, can_answer=True):
                    held.enter_context(one.counted(session, can_answer=False))
                await anyio.lowlevel.checkpoint()
            await until(_is_written(redis_link, session, b"500 0 "))
        assert await _scripts_run(redis_link) - before < 10


def _is_written(link: RedisLink, sid: str, start: bytes) -> Callable[[], Awaitable[bool]]:
    async def as_wanted() -> bool:
        share = await link.command("HGET", SessionKeys.of(sid).presence, "one")
        return share is not None and bool(share.startswith(start))

    return as_wanted


async def _scripts_run(link: RedisLink) -> int:
    found = bytes(await link.command("INFO", "commandstats")).decode()
    lines = [line for line in found.splitlines() if line.startswith("cmdstat_eval")]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines)


async def test_the_share_of_a_hub_that_died_lapses_and_is_told(
    redis_link: RedisLink, session: str
) -> None:
    """A hub that is killed takes nothing back: here it is one that never runs its task again."""
    dead = Attendance(redis_link, Settings(redis_url=redis_link.url, presence_s=SHORT_S), "dead")
    async with attending(redis_link, "one", presence_s=SHORT_S) as one:
        with one.looking_on(session), dead.counted(session, can_answer=True):
            async with pushes(redis_link, live_channel(session)) as next_push:
                with anyio.move_on_after(0.5) as life:
                    await dead.run()
                assert life.cancelled_caught
                assert (await next_push()).split()[2:] == [b"1", b"1"]
                # It has taken its share back, as it does where it ends in order.
                assert (await next_push()).split()[2:] == [b"0", b"0"]
                keys = SessionKeys.of(session)
                soon = 1_000 * int((await redis_link.command("TIME"))[0]) + 2_000
                await redis_link.command("HSET", keys.presence, "dead", f"4 2 {soon}")
                assert await one.of(session) == Presence(4, 2, host_connected=False)
                assert (await next_push()).split()[2:] == [b"0", b"0"]
                assert await one.of(session) == NOBODY


async def test_a_lost_share_is_written_again(redis_link: RedisLink, session: str) -> None:
    async with attending(redis_link, "one") as one:
        with one.counted(session, can_answer=True):
            await until(shares(redis_link, session, 1))
            await redis_link.command("DEL", SessionKeys.of(session).presence)
            one.rewrite(session)
            await until(shares(redis_link, session, 1))


async def test_a_session_that_does_not_exist_keeps_nothing(
    redis_link: RedisLink, store: EventStore, session: str, sid: str
) -> None:
    async with attending(redis_link, "one", presence_s=SHORT_S) as one:
        with one.counted(session, can_answer=True):
            await until(shares(redis_link, session, 1))
            await store.delete_session(session)
            before = await _scripts_run(redis_link)
            one.rewrite(session)

            async def was_tried() -> bool:
                return await _scripts_run(redis_link) > before

            await until(was_tried)
            assert await shares(redis_link, session, 0)()


async def test_a_host_is_part_of_who_is_there(
    redis_link: RedisLink, settings: Settings, session: str
) -> None:
    attendance = Attendance(redis_link, settings, "one")
    await redis_link.command("HSET", SessionKeys.of(session).meta, "host_since", 5)
    there = await attendance.of(session)
    assert there.members() == {"viewers": 0, "can_answer": 0, "host": {"connected": True}}
    assert there.for_host() == {"viewers": 0, "can_answer": 0}
