"""The life of a session: made, deleted, begun anew, trimmed, retired; its epochs."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from sessionwire_schemas.cursor import check_of
from sessionwire_server.entries import Head, Position
from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.session_record import SessionFields
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import (
    START,
    delta,
    durable,
    ids,
    passing,
    pushes,
    read_all,
    send,
    until,
)

pytestmark = pytest.mark.anyio


def fields(**members: Any) -> SessionFields:
    return SessionFields(
        members.get("catalog", ""), members.get("title"), json.dumps(members).encode()
    )


async def existing_keys(link: RedisLink, sid: str) -> set[str]:
    keys = SessionKeys.of(sid).all()
    return {key for key in keys if await link.command("EXISTS", key)}


async def test_a_session_is_made_once(store: EventStore, sid: str) -> None:
    given = fields(catalog="everruns", title="Tïtle", metadata={"a": [1, None]})
    made, is_new = await store.create_session(sid, given)
    assert is_new
    assert (made.catalog, made.title, made.status) == ("everruns", "Tïtle", "started")
    assert made.head == Head(0, 0, "0")
    assert made.created_ms == made.updated_ms > 0
    again, is_new = await store.create_session(sid, given)
    assert (again, is_new) == (made, False)
    assert await store.session(sid) == made
    fewer, is_new = await store.create_session(sid, fields(id=sid, title="Tïtle"))
    assert (fewer, is_new) == (made, False)


@pytest.mark.parametrize(
    "other", [{"catalog": "copilot"}, {"title": "b"}, {"metadata": {}}], ids=str
)
async def test_a_session_that_has_other_members_is_a_conflict(
    store: EventStore, sid: str, other: dict[str, Any]
) -> None:
    before, _ = await store.create_session(sid, fields(catalog="everruns", title="a"))
    with pytest.raises(HubError) as caught:
        await store.create_session(sid, fields(**other))
    assert (caught.value.status, caught.value.code) == (409, "session_exists")
    assert await store.session(sid) == before


async def test_a_session_made_by_its_first_event_agrees_with_its_catalog(
    store: EventStore, sid: str
) -> None:
    await send(store, sid, durable("a"))
    _, is_new = await store.create_session(sid, fields(catalog="copilot"))
    assert not is_new


async def test_the_first_event_gives_a_session_its_catalog(store: EventStore, sid: str) -> None:
    made, _ = await store.create_session(sid, fields(title="a"))
    (verdict,) = await send(store, sid, durable("a"))
    session = await store.session(sid)
    assert (session.catalog, session.epoch, verdict.epoch) == ("copilot", made.epoch, made.epoch)
    assert str(session.cursor) == f"{made.epoch}.1.1.{check_of('a')}"


async def test_a_deleted_session_leaves_a_tombstone(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    (first,) = await send(store, sid, durable("a", last_key="t"))
    await send(store, sid, passing("p"), delta("d", "m|a"))
    keys = SessionKeys.of(sid)
    async with pushes(redis_link, keys.live) as next_push:
        await store.delete_session(sid)
        assert await next_push() == f"x {first.epoch}\n".encode()
    assert await existing_keys(redis_link, sid) == {keys.meta}
    assert 86_000 < await redis_link.command("TTL", keys.meta) <= 86_400
    with pytest.raises(HubError) as caught:
        await send(store, sid, durable("b"))
    assert (caught.value.status, caught.value.code) == (410, "session_deleted")
    for read in (store.session(sid), store.look(sid), store.delete_session(sid)):
        with pytest.raises(HubError) as caught:
            await read
        assert caught.value.status == 404
    assert await store.heads([sid]) == {sid: None}


async def test_a_deleted_session_made_again_begins_anew(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    (first,) = await send(store, sid, durable("a"))
    await store.delete_session(sid)
    made, is_new = await store.create_session(sid, fields(catalog="everruns"))
    assert is_new
    assert made.epoch != first.epoch
    assert await redis_link.command("TTL", SessionKeys.of(sid).meta) == -1
    (again,) = await store.publish(sid, "everruns", [durable("a")], create=False)
    assert (again.sequence, again.duplicate, again.epoch) == (1, False, made.epoch)


async def test_a_session_whose_meta_is_lost_begins_anew(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    """Numbers without their epoch mean nothing, so all that hangs on them goes."""
    keys = SessionKeys.of(sid)
    await send(store, sid, durable("a", last_key="t"), passing("p"), delta("d", "m|a"))
    for key in (keys.prompts, keys.closed, keys.receipts, keys.presence):
        await redis_link.command("HSET", key, "a", "b")
    before = await store.look(sid)
    await redis_link.command("DEL", keys.meta)
    (verdict,) = await send(store, sid, durable("a"))
    assert (verdict.sequence, verdict.duplicate) == (1, False)
    assert verdict.epoch != before.epoch
    assert await existing_keys(redis_link, sid) == {keys.meta, keys.log, keys.tail, keys.ids}
    assert ids((await read_all(store, sid))[0]) == ["a"]


async def test_the_epoch_is_renewed_by_whoever_saw_the_head_first(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(store, sid, durable("a"), passing("p"))
    seen = await store.look(sid)
    found: list[str] = []

    async def renew() -> None:
        found.append(await store.renew_epoch(sid, seen.epoch, seen.head))

    async with pushes(redis_link, SessionKeys.of(sid).live) as next_push:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(renew)
        assert len(set(found)) == 1
        assert found[0] != seen.epoch
        assert await next_push() == f"r {found[0]}\n".encode()
        after = await store.look(sid)
        assert (after.epoch, after.head) == (found[0], seen.head)
        assert ids((await read_all(store, sid))[0]) == ["a", "p"]
        await send(store, sid, durable("b"))
        assert (await next_push()).startswith(f"e {found[0]} 3 ".encode()), "only one renewal"
    stale = await store.renew_epoch(sid, found[0], seen.head)
    assert stale == found[0], "the head has moved on, so the caller's view is old"


async def test_the_log_is_trimmed_by_count_and_its_ids_with_it(redis_url: str, sid: str) -> None:
    settings = Settings(redis_url=redis_url, log_max_events=100, tail_max=1)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        for at in range(0, 500, 50):
            await send(store, sid, *(durable(f"e{n}") for n in range(at, at + 50)))
        outlook = await store.look(sid)
        kept = outlook.head.sequence - outlook.first_sequence + 1
        assert 100 <= kept < 300, "trimming is by whole nodes of the stream"
        scores = await link.command("ZRANGE", SessionKeys.of(sid).ids, 0, -1, "WITHSCORES")
        assert [int(score) for _, score in scores] == list(range(outlook.first_sequence, 501))
        page = await store.page(sid, START, max_events=1, max_bytes=1)
        assert page.trimmed
        assert page.events[0].sequence == outlook.first_sequence
        at_edge = Position(outlook.first_sequence - 1, outlook.first_sequence - 1)
        assert not (await store.page(sid, at_edge, max_events=1, max_bytes=1)).trimmed
        assert await store.locate(sid, "e0") is None
        assert await store.position_at(sid, 1) is None
        (again,) = await send(store, sid, durable("e0"))
        assert not again.duplicate, "an id is kept as long as its event"


async def test_the_log_is_trimmed_by_age(redis_url: str, sid: str) -> None:
    settings = Settings(redis_url=redis_url, log_max_age_s=0.3, tail_max=1)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        await send(store, sid, *(durable(f"old{n}") for n in range(40)))

        async def is_old() -> bool:
            seconds, micros = map(int, await link.command("TIME"))
            now = seconds * 1000 + micros // 1000
            return bool(now > (await store.session(sid)).updated_ms + 300)

        await until(is_old)
        await send(store, sid, durable("new1"))
        assert (await store.look(sid)).first_sequence == 17, "sixteen looks a publish"
        await store.trim(sid)
        assert (await store.look(sid)).first_sequence == 41
        assert ids((await read_all(store, sid))[0]) == ["new1"]
        assert await store.locate(sid, "old39") is None
        await until(is_old)
        await store.trim(sid)
        outlook = await store.look(sid)
        assert (outlook.first_sequence, outlook.head.sequence) == (42, 41)
        at_head = await store.page(sid, Position(41, 41), max_events=1, max_bytes=1)
        assert not at_head.trimmed, "a place at the head of an empty log lacks nothing"
        behind = await store.page(sid, Position(40, 40), max_events=1, max_bytes=1)
        assert behind.trimmed
        (verdict,) = await send(store, sid, durable("new2"))
        assert verdict.sequence == 42


async def test_retention_switched_off_keeps_everything(redis_url: str, sid: str) -> None:
    settings = Settings(redis_url=redis_url, log_max_events=0, log_max_age_s=0)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        for at in range(0, 1_000, 250):
            await send(store, sid, *(durable(f"e{n}") for n in range(at, at + 250)))
        await store.trim(sid)
        assert (await store.look(sid)).first_sequence == 1


async def test_received_times_never_go_back(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(store, sid, durable("a"))
    later = (await store.session(sid)).updated_ms + 60_000
    await redis_link.command("HSET", SessionKeys.of(sid).meta, "received_ms", later)
    await send(store, sid, durable("b"))
    (event,) = await store.log_page(sid, after=1, until=None, limit=1)
    assert event.received_ms == later


async def test_nothing_but_hints_of_the_moment_expires(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(store, sid, durable("a", last_key="t"), passing("p"), delta("d", "m|a"))
    keys = SessionKeys.of(sid)
    ttls = {key: await redis_link.command("TTL", key) for key in keys.all()}
    assert {key for key, ttl in ttls.items() if ttl == -1} == {
        keys.meta,
        keys.log,
        keys.ids,
        keys.last,
    }
    assert 0 < ttls[keys.tail] <= 300
    assert 0 < ttls[keys.eids] <= 900


async def test_the_newest_ephemeral_ids_are_kept(
    store: EventStore, redis_link: RedisLink, sid: str
) -> None:
    for at in range(0, 10_250, 250):
        await send(store, sid, *(passing(f"p{n}") for n in range(at, at + 250)))
    assert await redis_link.command("ZCARD", SessionKeys.of(sid).eids) == 10_000
    assert await store.locate(sid, "p249") is None
    assert await store.locate(sid, "p250") == (0, 251)


async def test_an_idle_session_is_retired_and_finds_its_numbers_again(
    redis_url: str, sid: str
) -> None:
    settings = Settings(redis_url=redis_url, session_ttl_s=0.2)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        keys = SessionKeys.of(sid)
        (first,) = await send(store, sid, durable("a"))
        assert not await store.retire(sid)
        await link.command("HSET", keys.prompts, "r1", "open")

        async def is_idle() -> bool:
            seconds, micros = map(int, await link.command("TIME"))
            now = seconds * 1000 + micros // 1000
            return bool(now > (await store.session(sid)).updated_ms + 200)

        await until(is_idle)
        assert not await store.retire(sid), "a prompt is open"
        await link.command("DEL", keys.prompts)
        assert await store.retire(sid)
        assert await existing_keys(link, sid) == {keys.meta}
        assert 86_000 < await link.command("TTL", keys.meta) <= 86_400
        assert await store.retire(sid)
        at_head = await store.page(sid, Position(1, 1), max_events=1, max_bytes=1)
        assert (at_head.events, at_head.trimmed) == ((), False)
        (verdict,) = await send(store, sid, durable("b"))
        assert (verdict.epoch, verdict.sequence) == (first.epoch, 2)
        assert await link.command("TTL", keys.meta) == -1
        assert not await store.retire(sid)
