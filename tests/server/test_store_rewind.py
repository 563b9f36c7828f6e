"""Rewinds: what they hide from streams, and what becomes of them (protocol.md §3.6)."""

from __future__ import annotations

import pytest

from sessionwire_server.entries import Position, RewoundRange
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import delta, durable, ids, passing, read_all, send

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[2_000, 1], ids=["tail", "log"])
def settings(request: pytest.FixtureRequest, redis_url: str) -> Settings:
    """Each test reads once from the tail and once from the log."""
    return Settings(redis_url=redis_url, tail_max=request.param)


async def shown(store: EventStore, sid: str) -> list[str]:
    """List what a stream from the start shows of the durable events."""
    events, _ = await read_all(store, sid, max_events=3)
    return [event.id for event in events if event.durable]


async def test_a_rewind_hides_the_named_event_and_all_after_it(store: EventStore, sid: str) -> None:
    await send(store, sid, *(durable(f"e{n}") for n in range(1, 6)))
    await send(store, sid, durable("r", rewind_to="e3"), durable("e6"))
    assert await shown(store, sid) == ["e1", "e2", "r", "e6"]
    outlook = await store.look(sid)
    assert outlook.rewound == (RewoundRange(3, 5, 6),)
    assert outlook.head.sequence == 7, "numbers are not given again"
    everything = await store.log_page(sid, after=0, until=None, limit=100)
    assert ids(everything) == ["e1", "e2", "e3", "e4", "e5", "r", "e6"]


async def test_a_rewind_hides_ephemeral_events_of_the_range(store: EventStore, sid: str) -> None:
    await send(store, sid, passing("p0"), durable("e1"), passing("p1"), durable("e2"))
    await send(store, sid, passing("p2"), delta("m", "m|a"), durable("r", rewind_to="e2"))
    await send(store, sid, passing("p3"))
    page = await store.page(sid, Position(0, 0), max_events=100, max_bytes=2**20)
    if page.exact:
        assert ids(page.events) == ["p0", "e1", "p1", "r", "p3"]
        assert (await store.open_messages(sid))[1] == []
    else:
        assert await shown(store, sid) == ["e1", "r"]


async def test_a_rewind_to_an_event_of_its_own_batch_works(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("a"), durable("b"), durable("r", rewind_to="b"), durable("c"))
    assert await shown(store, sid) == ["a", "r", "c"]


async def test_nested_rewinds_become_one_range(store: EventStore, sid: str) -> None:
    await send(store, sid, *(durable(f"e{n}") for n in range(1, 6)))
    await send(store, sid, durable("r1", rewind_to="e4"))
    await send(store, sid, durable("e6"), durable("r2", rewind_to="e2"))
    assert await shown(store, sid) == ["e1", "r2"]
    assert (await store.look(sid)).rewound == (RewoundRange(2, 7, 8),)


async def test_a_rewind_into_a_hidden_range_hides_what_came_after_it(
    store: EventStore, sid: str
) -> None:
    await send(store, sid, *(durable(f"e{n}") for n in range(1, 6)))
    await send(store, sid, durable("r1", rewind_to="e2"), durable("e6"))
    await send(store, sid, durable("r2", rewind_to="e4"))
    assert await shown(store, sid) == ["e1", "r2"]


async def test_a_rewind_to_a_rewind_hides_it(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("e1"), durable("e2"), durable("r1", rewind_to="e2"))
    await send(store, sid, durable("r2", rewind_to="r1"))
    assert await shown(store, sid) == ["e1", "r2"]
    assert (await store.look(sid)).rewound == (RewoundRange(2, 3, 4),)


async def test_separate_rewinds_stay_apart(store: EventStore, sid: str) -> None:
    await send(store, sid, *(durable(f"e{n}") for n in range(1, 4)))
    await send(store, sid, durable("r1", rewind_to="e3"), durable("e5"), durable("e6"))
    await send(store, sid, durable("r2", rewind_to="e6"))
    assert await shown(store, sid) == ["e1", "e2", "r1", "e5", "r2"]
    assert (await store.look(sid)).rewound == (RewoundRange(3, 3, 4), RewoundRange(6, 6, 7))


@pytest.mark.parametrize("target", ["unknown", "p", "r"])
async def test_a_rewind_to_nothing_durable_before_it_hides_nothing(
    store: EventStore, sid: str, target: str
) -> None:
    await send(store, sid, durable("a"), passing("p"), durable("r", rewind_to=target))
    assert await shown(store, sid) == ["a", "r"]
    assert (await store.look(sid)).rewound == ()


async def test_a_long_hidden_range_is_passed_over(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("first"))
    for at in range(0, 400, 200):
        await send(store, sid, *(durable(f"e{n}") for n in range(at, at + 200)))
    await send(store, sid, durable("r", rewind_to="e0"), durable("last"))
    assert await shown(store, sid) == ["first", "r", "last"]


async def test_a_page_that_ends_in_a_hidden_range_goes_on_after_it(
    store: EventStore, sid: str
) -> None:
    await send(store, sid, *(durable(f"e{n}") for n in range(1, 40)))
    await send(store, sid, durable("r", rewind_to="e2"), durable("last"))
    for start in range(1, 40):
        events, _ = await read_all(store, sid, Position(start, start), max_events=1)
        assert [event.id for event in events] == ["r", "last"]


async def test_rewound_last_values_are_left_out(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("a", last_key="usage"), durable("b", last_key="title"))
    await send(store, sid, durable("r", rewind_to="b"))
    assert ids(await store.lasts(sid)) == ["a"]


async def test_trimming_drops_ranges_that_are_no_longer_kept(redis_url: str, sid: str) -> None:
    settings = Settings(redis_url=redis_url, log_max_events=5, tail_max=1)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        await send(store, sid, durable("a"), durable("b"), durable("r", rewind_to="b"))
        assert len((await store.look(sid)).rewound) == 1
        await send(store, sid, *(durable(f"e{n}") for n in range(250)))
        outlook = await store.look(sid)
        assert outlook.first_sequence > 100
        assert outlook.rewound == ()
        await send(store, sid, durable("late", rewind_to="a"))
        assert (await store.look(sid)).rewound == (), "what is trimmed cannot be rewound to"
