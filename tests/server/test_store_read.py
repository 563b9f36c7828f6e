"""Pages from tail and log, and the other reads of a session's events."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from sessionwire_schemas.cursor import NO_CHECK, check_of
from sessionwire_server.entries import Head, Position
from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import START, delta, durable, ids, passing, read_all, send, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def short(redis_url: str) -> AsyncGenerator[EventStore]:
    """A store whose tail holds four events."""
    settings = Settings(redis_url=redis_url, tail_max=4)
    async with RedisLink(settings) as link:
        yield EventStore(link, settings)


async def mixed(store: EventStore, sid: str, count: int) -> None:
    """Publish d1 p1 d2 p2 …: the n-th durable event has offset 2n - 1."""
    for at in range(1, count + 1, 50):
        numbers = range(at, min(at + 50, count + 1))
        pairs = [(durable(f"d{n}"), passing(f"p{n}")) for n in numbers]
        await send(store, sid, *(entry for pair in pairs for entry in pair))


async def test_a_place_in_the_tail_gives_every_event(store: EventStore, sid: str) -> None:
    await mixed(store, sid, 30)
    page = await store.page(sid, Position(10, 20), max_events=512, max_bytes=2**20)
    assert page.exact
    assert not page.more
    assert not page.trimmed
    assert ids(page.events) == [f"{kind}{n}" for n in range(11, 31) for kind in "dp"]
    assert page.position == page.head[:2] == (30, 60)


async def test_an_older_place_gives_durable_events_up_to_the_tail(
    short: EventStore, sid: str
) -> None:
    await mixed(short, sid, 30)
    events, pages = await read_all(short, sid)
    assert [page.exact for page in pages] == [False, True]
    assert ids(pages[0].events) == [f"d{n}" for n in range(1, 29)]
    assert pages[0].position == (28, 56)
    assert ids(pages[1].events) == ["d29", "p29", "d30", "p30"]
    assert [event.offset for event in events] == sorted(event.offset for event in events)


async def test_a_tail_that_expired_leaves_the_log_up_to_the_head(
    store: EventStore, sid: str, redis_link: RedisLink
) -> None:
    await mixed(store, sid, 20)
    tail = SessionKeys.of(sid).tail
    assert 0 < await redis_link.command("TTL", tail) <= 300
    await redis_link.command("DEL", tail)
    events, pages = await read_all(store, sid, Position(3, 6))
    assert ids(events) == [f"d{n}" for n in range(4, 21)]
    assert pages[-1].position == (20, 40)
    page = await store.page(sid, Position(20, 40), max_events=5, max_bytes=100)
    assert (page.events, page.exact, page.trimmed, page.more) == ((), True, False, False)


@pytest.mark.parametrize("max_events", [1, 2, 15, 16, 17, 31, 32, 33])
async def test_every_count_limit_gives_everything_once(
    store: EventStore, sid: str, max_events: int
) -> None:
    await mixed(store, sid, 40)
    events, pages = await read_all(store, sid, max_events=max_events)
    assert ids(events) == [f"{kind}{n}" for n in range(1, 41) for kind in "dp"]
    assert {len(page.events) for page in pages[:-1]} <= {max_events}


@pytest.mark.parametrize("max_bytes", [1, 99, 100, 101, 250, 1_000])
@pytest.mark.parametrize("inline", [0, 4_096], ids=["log bodies", "tail bodies"])
async def test_every_byte_limit_gives_everything_once(
    redis_url: str, sid: str, max_bytes: int, inline: int
) -> None:
    settings = Settings(redis_url=redis_url, tail_inline_bytes=inline)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        await send(store, sid, *(durable(f"d{n}", b"x" * 100) for n in range(20)))
        events, pages = await read_all(store, sid, max_bytes=max_bytes)
    assert ids(events) == [f"d{n}" for n in range(20)]
    assert {event.body for event in events} == {b"x" * 100}
    assert max(len(page.events) for page in pages) == max(1, max_bytes // 100)


async def test_a_large_durable_event_stands_once_in_redis_and_is_read_from_the_tail(
    store: EventStore, sid: str, redis_link: RedisLink
) -> None:
    big = bytes(range(256)) * 8192
    await send(store, sid, durable("a"), durable("big", big), passing("p", big))
    events, _ = await read_all(store, sid, Position(1, 1))
    assert [(event.id, event.body == big) for event in events] == [("big", True), ("p", True)]
    entries = await redis_link.command("XRANGE", SessionKeys.of(sid).tail, "-", "+")
    assert [len(fields) > 2 for _, fields in entries] == [True, False, True]


async def test_a_batch_larger_than_the_tail_leaves_no_hole_in_it(
    short: EventStore, sid: str
) -> None:
    await send(short, sid, durable("a"), *(passing(f"p{n}") for n in range(10)), durable("b"))
    outlook = await short.look(sid)
    assert (outlook.first_offset, outlook.head.offset) == (9, 12)
    events, _ = await read_all(short, sid)
    assert ids(events) == ["a", "p7", "p8", "p9", "b"]


async def test_look_tells_bounds_and_the_event_at_a_sequence(short: EventStore, sid: str) -> None:
    await mixed(short, sid, 5)
    outlook = await short.look(sid, 3)
    assert outlook.head == Head(5, 10, check_of("d5"))
    assert (outlook.first_sequence, outlook.first_offset) == (1, 7)
    assert (outlook.id_at, outlook.offset_at) == ("d3", 5)
    assert outlook.catalog == "copilot"
    outlook = await short.look(sid, 6)
    assert (outlook.id_at, outlook.offset_at) == (None, None)


async def test_heads_reads_many_sessions_at_once(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("a"), passing("p"))
    await send(store, sid + "2", passing("p"))
    heads = await store.heads([sid, sid + "1", sid + "2"])
    outlook = await store.look(sid)
    assert heads[sid] == (outlook.epoch, Head(1, 2, check_of("a")))
    assert heads[sid + "1"] is None
    other = heads[sid + "2"]
    assert other is not None
    assert other[1] == Head(0, 1, NO_CHECK)
    assert await store.heads([]) == {}


async def test_locate_finds_durable_and_ephemeral_ids(short: EventStore, sid: str) -> None:
    await mixed(short, sid, 30)
    assert await short.locate(sid, "d7") == (7, 13)
    assert await short.locate(sid, "p30") == (30, 60)
    assert await short.locate(sid, "p7") == (7, 14), "the tail has passed it"
    assert await short.locate(sid, "nope") is None


async def test_locate_time_is_just_before_the_first_event_received_later(
    store: EventStore, sid: str, redis_link: RedisLink
) -> None:
    await mixed(store, sid, 10)
    before = (await store.session(sid)).updated_ms

    async def moved_on() -> bool:
        return bool(int((await redis_link.command("TIME"))[0]) * 1000 > before)

    await until(moved_on)
    await send(store, sid, passing("p"), durable("d11"))
    assert await store.locate_time(sid, before) == (10, 21)
    assert await store.locate_time(sid, before - 60_000) == (0, 0)
    assert await store.locate_time(sid, before + 60_000) == (11, 22)


async def test_position_at_is_just_after_the_event(store: EventStore, sid: str) -> None:
    await mixed(store, sid, 10)
    assert await store.position_at(sid, 0) == (0, 0)
    assert await store.position_at(sid, 4) == (4, 7)
    assert await store.position_at(sid, 11) is None


async def test_log_page_reads_by_sequence_both_ways(store: EventStore, sid: str) -> None:
    await mixed(store, sid, 40)

    async def sequences(**words: int | None) -> list[int]:
        given = {"after": 0, "until": None, "limit": 100, **words}
        newest = bool(given.pop("newest", 0))
        page = await store.log_page(sid, newest_first=newest, **given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return [event.sequence for event in page]

    assert await sequences() == list(range(1, 41))
    assert await sequences(newest=1) == list(range(40, 0, -1))
    assert await sequences(after=5, until=8) == [6, 7, 8]
    assert await sequences(after=5, until=30, limit=20) == list(range(6, 26))
    assert await sequences(after=5, until=30, limit=20, newest=1) == list(range(30, 10, -1))
    assert await sequences(after=40) == []
    assert await sequences(after=8, until=8) == []


async def test_log_page_stops_at_a_byte_bound_and_continues_over_its_own(
    store: EventStore, sid: str
) -> None:
    body = b"x" * 400_000
    await send(store, sid, *(durable(f"d{n}", body) for n in range(8)))
    whole = await store.log_page(sid, after=0, until=None, limit=100)
    assert ids(whole) == [f"d{n}" for n in range(8)]
    part = await store.log_page(sid, after=0, until=None, limit=100, max_bytes=600_000)
    assert ids(part) == ["d0", "d1"]


async def test_a_stored_event_keeps_what_lists_ask_for(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("a", at_ms=1_700_000_000_123, members=b'{"turn_id":"t"}'))
    (event,) = await store.log_page(sid, after=0, until=None, limit=1)
    assert (event.at_ms, event.members) == (1_700_000_000_123, b'{"turn_id":"t"}')
    assert event.received_ms == (await store.session(sid)).updated_ms


async def test_open_messages_are_those_begun_in_the_tail_and_not_replaced(
    store: EventStore, sid: str
) -> None:
    await send(store, sid, delta("a1", "m|a", "A"), delta("b1", "m|b é", "B"))
    await send(store, sid, durable("mid"), delta("a2", "m|a", "C"))
    head, messages = await store.open_messages(sid)
    assert head == Head(1, 4, check_of("mid"))
    assert [(m.key, ids(m.deltas)) for m in messages] == [("m|a", ["a1", "a2"]), ("m|b é", ["b1"])]
    await send(store, sid, durable("end", closes=("m|a",)))
    _, messages = await store.open_messages(sid)
    assert [m.key for m in messages] == ["m|b é"]
    await send(store, sid, delta("c1", "m|c"), passing("idle", closes=("*",)), delta("d1", "m|d"))
    _, messages = await store.open_messages(sid)
    assert [m.key for m in messages] == ["m|d"]


async def test_a_message_whose_first_delta_left_the_tail_is_not_given(
    short: EventStore, sid: str, redis_link: RedisLink
) -> None:
    await send(short, sid, delta("a1", "m|a"), delta("a2", "m|a"), delta("b1", "m|b"))
    await send(short, sid, durable("x"), delta("a3", "m|a"))
    _, messages = await short.open_messages(sid)
    assert [(m.key, ids(m.deltas)) for m in messages] == [("m|b", ["b1"])]
    await redis_link.command("DEL", SessionKeys.of(sid).tail)
    await send(short, sid, delta("a4", "m|a"))
    _, messages = await short.open_messages(sid)
    assert messages == [], "a message that began before the tail expired must not look new"


async def test_the_number_of_open_messages_is_bounded(store: EventStore, sid: str) -> None:
    await send(store, sid, *(delta(f"e{n}", f"m|{n}") for n in range(600)))
    _, messages = await store.open_messages(sid)
    assert len(messages) == 512
    await send(store, sid, durable("end", closes=("*",)), delta("x", "m|599"))
    _, messages = await store.open_messages(sid)
    assert [m.key for m in messages] == ["m|599"]


async def test_a_message_name_too_long_gets_no_catch_up(store: EventStore, sid: str) -> None:
    await send(store, sid, delta("a", "m|" + "x" * 600), delta("b", "m|b"))
    _, messages = await store.open_messages(sid)
    assert [m.key for m in messages] == ["m|b"]


async def test_reads_of_an_unknown_session_are_404(store: EventStore, sid: str) -> None:
    reads = [
        store.look(sid),
        store.page(sid, START, max_events=1, max_bytes=1),
        store.locate(sid, "x"),
        store.locate_time(sid, 0),
        store.position_at(sid, 1),
        store.open_messages(sid),
        store.log_page(sid, after=0, until=None, limit=1),
        store.renew_epoch(sid, "aaaaaaaa", Head(0, 0, NO_CHECK)),
        store.session(sid),
        store.delete_session(sid),
    ]
    for read in reads:
        with pytest.raises(HubError) as caught:
            await read
        assert (caught.value.status, caught.value.code) == (404, "session_not_found")
    assert await store.lasts(sid) == []
