"""Numbering, duplicates and batches: publishing as a producer sees it."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from sessionwire_schemas.cursor import NO_CHECK, check_of
from sessionwire_server.entries import Entry, Position, Verdict
from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import durable, ids, passing, pushes, read_all, send

pytestmark = pytest.mark.anyio


def numbers(verdicts: list[Verdict]) -> list[tuple[int, int, int | None]]:
    return [(v.position.sequence, v.position.offset, v.sequence) for v in verdicts]


async def test_sequence_counts_durable_events_and_offset_all(store: EventStore, sid: str) -> None:
    verdicts = await send(store, sid, passing("p0"), durable("a"), passing("p1"), durable("b"))
    assert numbers(verdicts) == [(0, 1, None), (1, 2, 1), (1, 3, None), (2, 4, 2)]
    assert [v.check for v in verdicts] == [NO_CHECK, check_of("a"), check_of("a"), check_of("b")]
    assert len({v.epoch for v in verdicts}) == 1
    assert numbers(await send(store, sid, durable("c"))) == [(3, 5, 3)]


async def test_an_id_sent_again_is_a_duplicate_with_the_first_place(
    store: EventStore, sid: str
) -> None:
    first = await send(store, sid, durable("a", b"1"), passing("p"), durable("b"))
    again = await send(store, sid, durable("a", b"2"), passing("p"), durable("c"), durable("b"))
    assert [v.duplicate for v in again] == [True, True, False, True]
    assert [v.position for v in again] == [
        first[0].position,
        first[1].position,
        Position(3, 4),
        first[2].position,
    ]
    assert [v.check for v in again] == [
        check_of("a"),
        check_of("a"),
        check_of("c"),
        check_of("b"),
    ]
    events, _ = await read_all(store, sid)
    assert ids(events) == ["a", "p", "b", "c"]
    assert events[0].body == b"1"


async def test_an_id_twice_in_one_batch_is_one_event(store: EventStore, sid: str) -> None:
    verdicts = await send(store, sid, durable("a"), durable("a"), passing("p"), passing("p"))
    assert numbers(verdicts) == [(1, 1, 1), (1, 1, 1), (1, 2, None), (1, 2, None)]
    assert [v.duplicate for v in verdicts] == [False, True, False, True]


async def test_an_id_is_one_event_across_kinds(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("a"), passing("p"))
    verdicts = await send(store, sid, passing("a"), durable("p"))
    assert numbers(verdicts) == [(1, 1, 1), (1, 2, None)]
    assert all(v.duplicate for v in verdicts)


async def test_a_minted_id_is_not_looked_up(store: EventStore, sid: str) -> None:
    """The hub's own ids are new by construction; looking them up would be waste."""
    await send(store, sid, durable("a"))
    (verdict,) = await send(store, sid, durable("a", minted=True))
    assert not verdict.duplicate


async def test_duplicates_alone_change_nothing(
    store: EventStore, sid: str, redis_link: RedisLink
) -> None:
    await send(store, sid, durable("a"))
    before = await redis_link.command("HGETALL", SessionKeys.of(sid).meta)
    await send(store, sid, durable("a"))
    assert await redis_link.command("HGETALL", SessionKeys.of(sid).meta) == before


async def test_a_duplicate_of_an_ephemeral_event_that_left_the_tail_keeps_its_place(
    redis_url: str, sid: str
) -> None:
    settings = Settings(redis_url=redis_url, tail_max=2)
    async with RedisLink(settings) as link:
        store = EventStore(link, settings)
        first = await send(store, sid, durable("a"), passing("p"), durable("b"))
        await send(store, sid, *(durable(f"c{n}") for n in range(20)))
        (again,) = await send(store, sid, passing("p"))
        assert again == first[1]._replace(duplicate=True)


async def test_the_hole_for_the_sequence_is_filled_with_it(store: EventStore, sid: str) -> None:
    first = durable("a", b'{"sequence":', hole="sequence", tail=b"}")
    await send(store, sid, first, passing("p"), durable("b", b"<", hole="sequence", tail=b">"))
    events, _ = await read_all(store, sid)
    assert [event.body for event in events] == [b'{"sequence":1}', b"{}", b"<2>"]


async def test_the_hole_for_the_parent_names_the_durable_event_before(
    store: EventStore, sid: str
) -> None:
    """Ephemeral events and duplicates do not move the chain; ids are spelled as JSON."""

    def linked(entry: Entry) -> Entry:
        return replace(entry, head=b"<", hole="parent", tail=b">")

    quoted = 'q"\\'
    await send(store, sid, linked(durable(quoted)), linked(passing("p")))
    await send(store, sid, durable(quoted), linked(durable("b")))
    await send(store, sid, linked(durable("c")))
    events, _ = await read_all(store, sid)
    assert [event.body for event in events] == [
        b"<null>",
        b'<"q\\"\\\\">',
        b'<"q\\"\\\\">',
        b'<"b">',
    ]


async def test_an_unknown_session_is_made_only_if_asked(store: EventStore, sid: str) -> None:
    with pytest.raises(HubError) as caught:
        await store.publish(sid, "copilot", [durable("a")], create=False)
    assert (caught.value.status, caught.value.code) == (404, "session_not_found")
    assert await store.heads([sid]) == {sid: None}


async def test_an_event_of_another_catalog_is_refused_with_its_whole_request(
    store: EventStore, sid: str
) -> None:
    await store.publish(sid, None, [durable("a")], create=True)
    assert (await store.look(sid)).catalog == ""
    await send(store, sid, durable("b"))
    assert (await store.look(sid)).catalog == "copilot"
    with pytest.raises(HubError) as caught:
        await store.publish(sid, "everruns", [durable("c"), durable("d")], create=True)
    assert (caught.value.status, caught.value.code) == (409, "catalog_mismatch")
    assert ids((await read_all(store, sid))[0]) == ["a", "b"]


async def test_joined_requests_are_refused_each_on_its_own(store: EventStore, sid: str) -> None:
    """All or nothing is per request: the neighbour in the same call is stored."""
    await send(store, sid, durable("a"))
    results: dict[str, object] = {}

    async def publish(catalog: str, name: str) -> None:
        try:
            results[name] = await store.publish(sid, catalog, [durable(name)], create=True)
        except HubError as error:
            results[name] = error.code

    async with anyio.create_task_group() as group:
        for catalog, name in [("copilot", "b"), ("everruns", "c"), ("copilot", "d")]:
            group.start_soon(publish, catalog, name)
    assert results["c"] == "catalog_mismatch"
    assert ids((await read_all(store, sid))[0]) == ["a", "b", "d"]


async def test_concurrent_publishes_from_two_hubs_leave_no_hole(redis_url: str, sid: str) -> None:
    settings = Settings(redis_url=redis_url)
    verdicts: list[Verdict] = []
    async with RedisLink(settings) as one, RedisLink(settings) as two:
        stores = EventStore(one, settings), EventStore(two, settings)

        async def publish(n: int) -> None:
            batch = [durable(f"e{n}"), passing(f"p{n}"), durable(f"f{n}")]
            verdicts.extend(await send(stores[n % 2], sid, *batch))

        async with anyio.create_task_group() as group:
            for n in range(100):
                group.start_soon(publish, n)
        assert sorted(v.position.offset for v in verdicts) == list(range(1, 301))
        assert sorted(v.sequence for v in verdicts if v.sequence) == list(range(1, 201))
        events, _ = await read_all(stores[0], sid)
        by_id = {v.id: (v.position.offset, v.position.sequence, v.check) for v in verdicts}
        assert {e.id: (e.offset, e.sequence, e.check) for e in events} == by_id


async def test_an_empty_request_does_nothing(store: EventStore, sid: str) -> None:
    assert await store.publish(sid, "copilot", [], create=True) == []
    assert await store.heads([sid]) == {sid: None}


async def test_requests_that_meet_are_joined_into_few_calls(store: EventStore, sid: str) -> None:
    async def publish(n: int) -> None:
        await send(store, sid, durable(f"e{n}"))

    await send(store, sid, durable("first"))
    calls = store.queue.calls
    async with anyio.create_task_group() as group:
        for n in range(50):
            group.start_soon(publish, n)
    assert store.queue.calls - calls == 2
    events, _ = await read_all(store, sid)
    assert ids(events) == ["first", *(f"e{n}" for n in range(50))]


async def test_status_and_title_follow_the_events(store: EventStore, sid: str) -> None:
    await send(store, sid, durable("a"))
    assert (await store.session(sid)).status == "started"
    await send(store, sid, durable("b", status="active", title="Grüße"))
    await send(store, sid, durable("c"))
    session = await store.session(sid)
    assert (session.status, session.title) == ("active", "Grüße")
    await send(store, sid, passing("d", status="idle", title=""))
    session = await store.session(sid)
    assert (session.status, session.title) == ("idle", "")


async def test_the_newest_of_each_last_value_is_kept(store: EventStore, sid: str) -> None:
    big = b"x" * 300_000
    await send(
        store,
        sid,
        durable("a", b"1", last_key="title"),
        durable("b", b"2", last_key="canvas|Ä b"),
        passing("c", b"3\n4", last_key="idle"),
        durable("d", b"5", last_key="title"),
        durable("e", b"6", last_key="big"),
    )
    await send(store, sid, durable("f", big, last_key="big"))
    lasts = await store.lasts(sid)
    assert [(e.id, e.body, e.offset, e.sequence, e.durable) for e in lasts] == [
        ("b", b"2", 2, 2, True),
        ("c", b"3\n4", 3, 2, False),
        ("d", b"5", 4, 3, True),
    ]


async def test_last_values_are_bounded(store: EventStore, sid: str) -> None:
    names = [f"canvas|{n}" for n in range(600)]
    for at in range(0, 600, 200):
        batch = [durable(f"e{name}", last_key=name) for name in names[at : at + 200]]
        await send(store, sid, *batch)
    await send(store, sid, durable("again", last_key=names[0]))
    lasts = await store.lasts(sid)
    assert len(lasts) == 512
    assert lasts[-1].id == "again"


async def test_a_live_message_carries_the_batch(
    store: EventStore, sid: str, redis_link: RedisLink
) -> None:
    async with pushes(redis_link, SessionKeys.of(sid).live) as next_push:
        await send(store, sid, durable("a", b"AB"), passing("p", b"C", message_key="m|ä b"))
        epoch = (await store.look(sid)).epoch
        head, words, bodies = (await next_push()).split(b"\n")
        assert head.decode().split(" ")[:5] == ["e", epoch, "1", "0", "0"]
        assert head.decode().split(" ")[6:] == ["2", "1"]
        assert words.decode().split(" ") == [
            *("d", "2", "a", "assistant.message", check_of("a"), "-"),
            *("p", "1", "p", "assistant.message_delta", check_of("a"), "m|%C3%A4%20b"),
        ]
        assert bodies == b"ABC"
        await send(store, sid, durable("big", b"x" * 70_000))
        head, words, bodies = (await next_push()).split(b"\n")
        assert head.endswith(b" 1 0")
        assert (words.split(b" ")[1], bodies) == (b"70000", b"")


async def test_the_last_event_that_says_so_makes_a_session_steerable_or_not(
    store: EventStore, sid: str
) -> None:
    await send(store, sid, durable("a"))
    assert (await store.session(sid)).steerable
    await send(store, sid, durable("b", steerable=False), durable("c"))
    assert not (await store.session(sid)).steerable
    await send(store, sid, durable("d", steerable=False), durable("e", steerable=True))
    assert (await store.session(sid)).steerable
    await send(store, sid, durable("b", steerable=False))
    assert (await store.session(sid)).steerable, "a duplicate says nothing"
