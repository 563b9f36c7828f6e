"""The list of sessions: order, pages, filters, and hints written seldom but never lost."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import anyio
import pytest

from sessionwire_server.errors import HubError
from sessionwire_server.keys import FEED, SESSIONS, SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.session_index import SessionIndex, SessionPage, SessionQuery
from sessionwire_server.session_record import SessionFields
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.redis_process import RedisProcess
from tests.server.store_events import durable, pushes, send, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def link(own_redis: RedisProcess) -> AsyncGenerator[RedisLink]:
    """A link to a server with no other sessions."""
    async with RedisLink(Settings(redis_url=own_redis.url)) as link:
        yield link


@pytest.fixture
def lone(link: RedisLink) -> EventStore:
    """A store that lists only what the test makes."""
    return EventStore(link, Settings(redis_url=link.url))


async def listed(link: RedisLink, count: int) -> None:
    """Make sessions s0 … with rising scores, in pairs of equal ones."""
    store = EventStore(link, Settings(redis_url=link.url))
    for n in range(count):
        catalog = "copilot" if n % 3 else "everruns"
        given = json.dumps({"agent_id": f"agent{n % 2}"}).encode()
        title = f"Title Ö{n}"
        await store.create_session(f"s{n}", SessionFields(catalog, title, given))
        await link.command("ZADD", SESSIONS, 1_000 + n // 2, f"s{n}")


async def pages(store: EventStore, query: SessionQuery) -> list[SessionPage]:
    found = [await store.sessions(query)]
    while found[-1].next_page_token:
        token = found[-1].next_page_token
        following = SessionQuery(
            query.status, query.catalog, query.q, query.agent_id, query.limit, token, query.visible
        )
        found.append(await store.sessions(following))
    return found


async def test_pages_give_every_session_once_newest_first(
    lone: EventStore, link: RedisLink
) -> None:
    await listed(link, 23)
    found = await pages(lone, SessionQuery(limit=5))
    names = [session.id for page in found for session in page.data]
    assert sorted(names) == sorted(f"s{n}" for n in range(23))
    assert [int(name[1:]) // 2 for name in names] == sorted(
        (n // 2 for n in range(23)), reverse=True
    )
    assert [(page.offset, page.total) for page in found] == [(n, 23) for n in range(0, 23, 5)]


ONES = [1, *range(10, 20)]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (SessionQuery(catalog="everruns"), [*range(0, 20, 3)]),
        (SessionQuery(q="title ö1"), ONES),
        (SessionQuery(q="S1"), ONES),
        (SessionQuery(agent_id="agent1", limit=3), [*range(1, 20, 2)]),
        (SessionQuery(visible=lambda sid: sid == "s7"), [7]),
        (SessionQuery(status="started", limit=1), [*range(20)]),
        (SessionQuery(status="idle"), []),
    ],
    ids=["catalog", "title", "id", "agent", "visible", "status", "none"],
)
async def test_filters_leave_sessions_out_and_count_the_rest(
    lone: EventStore, link: RedisLink, query: SessionQuery, numbers: list[int]
) -> None:
    await listed(link, 20)
    found = await pages(lone, query)
    wanted = {f"s{n}" for n in numbers}
    names = [session.id for page in found for session in page.data]
    assert (set(names), len(names)) == (wanted, len(wanted))
    assert {page.total for page in found} == {len(wanted)}


async def test_many_sessions_of_one_moment_are_listed_once(
    lone: EventStore, link: RedisLink
) -> None:
    for n in range(250):
        await lone.create_session(f"s{n:03}", SessionFields())
        await link.command("ZADD", SESSIONS, 5, f"s{n:03}")
    found = await pages(lone, SessionQuery(limit=30))
    names = [session.id for page in found for session in page.data]
    assert names == [f"s{n:03}" for n in range(249, -1, -1)]
    walked = [sid async for page in lone.walk(7) for sid in page]
    assert walked == [f"s{n:03}" for n in range(250)]


async def test_an_entry_without_a_session_is_skipped_and_in_time_removed(
    lone: EventStore, link: RedisLink
) -> None:
    await lone.create_session("real", SessionFields())
    seconds, _ = map(int, await link.command("TIME"))
    await link.command("ZADD", SESSIONS, 1, "stale", (seconds + 60) * 1000, "being-made")
    page = await lone.sessions(SessionQuery(status="started"))
    assert [session.id for session in page.data] == ["real"]
    left = await link.command("ZRANGE", SESSIONS, 0, -1)
    assert set(left) == {b"real", b"being-made"}


@pytest.mark.parametrize(
    "token", ["x", "!", "YWJj", "äö", "MSAyIA", "OTk5OTk5OTk5OTk5OTk5OTk5IDIgeA"]
)
async def test_a_token_that_is_not_ours_is_400(store: EventStore, token: str) -> None:
    with pytest.raises(HubError) as caught:
        await store.sessions(SessionQuery(page_token=token))
    assert (caught.value.status, caught.value.code) == (400, "invalid_page_token")


async def test_a_scan_that_takes_too_long_is_503(link: RedisLink) -> None:
    store = EventStore(link, Settings(redis_url=link.url, list_scan_s=1e-9))
    await store.create_session("a", SessionFields())
    with pytest.raises(HubError) as caught:
        await store.sessions(SessionQuery(q="a"))
    assert (caught.value.status, caught.value.code) == (503, "query_too_broad")


async def test_a_session_is_listed_before_its_first_event_is_stored(
    lone: EventStore, link: RedisLink
) -> None:
    """A hub that dies in between must not leave a session that no list shows."""
    await send(lone, "s", durable("a"))
    assert await link.command("ZSCORE", SESSIONS, "s") is not None


async def test_changes_are_written_at_most_once_a_second_and_the_last_always(
    lone: EventStore, link: RedisLink
) -> None:
    seen: list[bytes] = []
    count, took = 0, 0.0
    started = anyio.current_time()
    async with (
        pushes(link, FEED, "SUBSCRIBE") as next_push,
        anyio.create_task_group() as group,
    ):
        group.start_soon(lone.run)
        while anyio.current_time() - started < 1.5:
            count += 1
            await send(lone, "s", durable(f"e{count}"))
        last = (await lone.session("s")).updated_ms

        async def is_written() -> bool:
            return bool(await link.command("ZSCORE", SESSIONS, "s") == last)

        await until(is_written)
        took = anyio.current_time() - started
        await lone.delete_session("s")
        while seen[-1:] != [b"d s"]:
            seen.append(await next_push())
        group.cancel_scope.cancel()
    assert count > 20
    assert 2 <= seen.count(b"u s") <= took + 1
    assert await link.command("ZSCORE", SESSIONS, "s") is None


async def test_the_last_change_is_written_when_the_hub_stops(link: RedisLink) -> None:
    index = SessionIndex(link, Settings(redis_url=link.url))
    async with anyio.create_task_group() as group:
        group.start_soon(index.run)
        await index.note("s", 1_000)

        async def is_written() -> bool:
            return bool(await link.command("ZSCORE", SESSIONS, "s") == 1_000)

        await until(is_written)
        await index.note("s", 2_000)
        group.cancel_scope.cancel()
    assert await link.command("ZSCORE", SESSIONS, "s") == 2_000


async def test_changes_noted_while_redis_is_away_are_written_later(
    own_redis: RedisProcess, lone: EventStore, link: RedisLink
) -> None:
    index = SessionIndex(link, Settings(redis_url=link.url))
    own_redis.stop()
    await index.note("s", 1_000)
    with pytest.raises(HubError):
        await index.flush()
    await index.note("t", 5)
    own_redis.start()
    await index.flush()
    assert await link.command("ZRANGE", SESSIONS, 0, -1) == [b"t", b"s"]
    assert await lone.heads(["s"]) == {"s": None}


async def test_a_score_never_goes_back(link: RedisLink) -> None:
    """Two hubs write one session; the older change may come later."""
    one, two = (SessionIndex(link, Settings(redis_url=link.url)) for _ in range(2))
    await one.note("s", 2_000)
    await two.note("s", 1_000)
    await one.flush()
    await two.flush()
    assert await link.command("ZSCORE", SESSIONS, "s") == 2_000
    assert not await link.command("EXISTS", SessionKeys.of("s").meta)
