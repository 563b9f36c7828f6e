"""The ephemeral openers of open prompts in pages: protocol §6.3, replay rule 2.

The hash is written here as `lua/_prompts.lua` writes it, so that any history can be made.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from sessionwire_schemas.cursor import NO_CHECK, check_of
from sessionwire_server.entries import Position, StoredEvent
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import START, durable, ids, passing, read_all, send

pytestmark = pytest.mark.anyio


@pytest.fixture
async def short(redis_url: str) -> AsyncGenerator[EventStore]:
    """A store whose tail holds four events, and whose log holds ten."""
    settings = Settings(redis_url=redis_url, tail_max=4, log_max_events=10)
    async with RedisLink(settings) as link:
        yield EventStore(link, settings)


async def keep(
    link: RedisLink, sid: str, offset: int, sequence: int, *, body: bytes = b"{}", kind: str = "p"
) -> None:
    """Keep the opener at a place."""
    keys = SessionKeys.of(sid)
    check = check_of(f"d{sequence}") if sequence else NO_CHECK
    words = f"{offset} {sequence} {check} {kind} o{offset} user_input.requested\n"
    await link.command("HSET", keys.openers, str(offset), words.encode() + body)
    await link.command("HINCRBY", keys.meta, "open_prompts", 1)


async def asked(store: EventStore, link: RedisLink, sid: str) -> None:
    """o1 d1 o3 d2 d3 o6 d4 … d8, the openers at offsets 1, 3 and 6 still open."""
    await send(store, sid, passing("o1", b"[1]"), durable("d1"), passing("o3", b"[3]"))
    await send(store, sid, durable("d2"), durable("d3"), passing("o6", b"[6]"))
    await send(store, sid, *(durable(f"d{n}") for n in range(4, 9)))
    for offset, sequence in ((1, 0), (3, 1), (6, 3)):
        await keep(link, sid, offset, sequence, body=b"[%d]" % offset)


@pytest.mark.parametrize("max_events", [1, 2, 3, 5, 512])
async def test_openers_that_the_tail_has_passed_stand_in_their_place(
    short: EventStore, redis_link: RedisLink, sid: str, max_events: int
) -> None:
    await asked(short, redis_link, sid)
    events, pages = await read_all(short, sid, max_events=max_events)
    assert ids(events) == ["o1", "d1", "o3", "d2", "d3", "o6", *(f"d{n}" for n in range(4, 9))]
    assert [event.offset for event in events] == list(range(1, 12))
    assert max(len(page.events) for page in pages) <= max_events
    opener = events[5]
    assert (opener.durable, opener.body, opener.sequence) == (False, b"[6]", 3)
    assert (opener.type, opener.check) == ("user_input.requested", check_of("d3"))


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (Position(0, 1), ["d1", "o3", "d2", "d3", "o6", "d4"]),
        (Position(1, 2), ["o3", "d2", "d3", "o6", "d4"]),
        (Position(1, 3), ["d2", "d3", "o6", "d4"]),
        (Position(3, 5), ["o6", "d4"]),
        (Position(3, 6), ["d4"]),
        (Position(4, 7), []),
    ],
    ids=str,
)
async def test_a_cursor_passes_over_what_it_has(
    short: EventStore, redis_link: RedisLink, sid: str, place: Position, wanted: list[str]
) -> None:
    await asked(short, redis_link, sid)
    events, _ = await read_all(short, sid, place, max_events=2)
    assert ids(events) == [*wanted, *(f"d{n}" for n in range(5, 9))]


async def test_the_same_event_is_not_given_by_hash_and_tail(
    short: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(short, sid, *(durable(f"d{n}") for n in range(1, 6)), passing("o6", b"[6]"))
    await keep(redis_link, sid, 6, 5, body=b"[6]")
    events, pages = await read_all(short, sid)
    assert ids(events) == ["d1", "d2", "d3", "d4", "d5", "o6"]
    assert [page.exact for page in pages] == [False, True]


async def test_a_durable_opener_comes_from_the_log_alone(
    short: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(short, sid, *(durable(f"d{n}") for n in range(1, 9)))
    await keep(redis_link, sid, 2, 2, kind="d")
    events, _ = await read_all(short, sid)
    assert ids(events) == [f"d{n}" for n in range(1, 9)]


async def test_a_tail_that_expired_leaves_the_openers(
    short: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(short, sid, durable("d1"), passing("o2"), passing("p3"))
    await keep(redis_link, sid, 2, 1)
    await redis_link.command("DEL", SessionKeys.of(sid).tail)
    events, pages = await read_all(short, sid)
    assert ids(events) == ["d1", "o2"]
    assert pages[-1].position == (1, 3)


async def read_from_floor(
    store: EventStore, sid: str, floor: int, max_events: int
) -> list[StoredEvent]:
    """Read to the head; the first places may be before the floor, which is no place."""
    position, events = Position(floor, floor), list[StoredEvent]()
    for _ in range(20):
        page = await store.page(sid, position, max_events=max_events, max_bytes=2**20)
        events += page.events
        position = page.position
        if not page.more:
            return events
    raise AssertionError("there is no end")


@pytest.mark.parametrize("max_events", [1, 2, 7])
async def test_an_opener_older_than_the_log_is_given_from_the_start(
    short: EventStore, redis_link: RedisLink, sid: str, max_events: int
) -> None:
    """The place before the oldest event kept is made of its sequence; see `replay.oldest`."""
    for n in range(1, 31):
        await send(short, sid, durable(f"d{n}"), *([passing("o6")] if n == 5 else []))
    await keep(redis_link, sid, 6, 5)
    await redis_link.command("XTRIM", SessionKeys.of(sid).log, "MAXLEN", 10)
    outlook = await short.look(sid)
    assert outlook.first_sequence == 21
    events = await read_from_floor(short, sid, 20, max_events)
    assert ids(events) == ["o6", *(f"d{n}" for n in range(21, 31))]


async def test_an_opener_at_the_floor_itself_is_given_once(
    short: EventStore, redis_link: RedisLink, sid: str
) -> None:
    for n in range(1, 31):
        await send(short, sid, durable(f"d{n}"), *([passing("o20")] if n == 19 else []))
    await keep(redis_link, sid, 20, 19)
    await redis_link.command("XTRIM", SessionKeys.of(sid).log, "MAXLEN", 10)
    events = await read_from_floor(short, sid, 20, 1)
    assert ids(events) == ["o20", *(f"d{n}" for n in range(21, 31))]


async def test_openers_in_the_tail_are_open_like_messages(
    short: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await send(short, sid, passing("o1"), durable("d1"), passing("o3", b"[3]"), passing("p4"))
    await send(short, sid, durable("d2"), durable("d3", b"{}"))
    await keep(redis_link, sid, 1, 0)
    await keep(redis_link, sid, 3, 1)
    head, messages = await short.open_messages(sid)
    assert head[:2] == (3, 6)
    assert [ids(message.deltas) for message in messages] == [["o3"]]
    assert [message.deltas[0].body for message in messages] == [b"[3]"]
    assert (await read_all(short, sid, START))[0][0].id == "o1"
