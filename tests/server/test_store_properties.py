"""Random histories: whatever was published, pages from any place give it once and in order."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionwire_schemas.cursor import NO_CHECK
from sessionwire_server.entries import Entry, Position
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import durable, ids, passing, send

BODIES = st.integers(0, 3).map(lambda power: b"x" * 10**power)

KINDS = st.sampled_from(["durable", "passing", "rewind", "again", "expire"])


@dataclass
class Model:
    """What the session should hold: the events in order, and which are hidden."""

    events: list[tuple[str, bool, int, int]] = field(
        default_factory=list[tuple[str, bool, int, int]]
    )
    """Id, durable, sequence, offset."""
    hidden: set[str] = field(default_factory=set[str])
    tail_from: int = 1

    @property
    def sequence(self) -> int:
        return sum(is_durable for _, is_durable, _, _ in self.events)

    def add(self, entry: Entry) -> None:
        if entry.effects.rewind_to:
            names = [name for name, *_ in self.events]
            if entry.effects.rewind_to in names:
                self.hidden.update(names[names.index(entry.effects.rewind_to) :])
        number = self.sequence + entry.durable
        self.events.append((entry.id, entry.durable, number, len(self.events) + 1))

    def durable_ids(self) -> list[str]:
        return [name for name, is_durable, _, _ in self.events if is_durable]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batches=st.lists(st.lists(st.tuples(KINDS, BODIES), min_size=1, max_size=30), max_size=8),
    tail_max=st.integers(1, 60),
    inline=st.sampled_from([0, 50, 4_096]),
    reads=st.lists(
        st.tuples(st.floats(0, 1), st.integers(1, 40), st.integers(1, 5_000)), min_size=1
    ),
    picks=st.randoms(use_true_random=False),
)
def test_pages_give_every_event_after_a_place_once_and_in_order(
    redis_url: str,
    batches: list[list[tuple[str, bytes]]],
    tail_max: int,
    inline: int,
    reads: list[tuple[float, int, int]],
    picks: object,
) -> None:
    """From a place in the tail all events come, from an older one the durable ones until then."""
    limits = Settings(redis_url=redis_url, tail_max=tail_max, tail_inline_bytes=inline)

    async def run() -> None:
        async with RedisLink(limits) as link:
            sid = f"session_{secrets.token_hex(16)}"
            store = EventStore(link, limits)
            model = await published(store, link, sid, batches, picks)
            for place, max_events, max_bytes in reads:
                at = round(place * len(model.events))
                await check(store, sid, model, at, max_events, max_bytes)

    anyio.run(run)


async def published(
    store: EventStore,
    link: RedisLink,
    sid: str,
    batches: list[list[tuple[str, bytes]]],
    picks: object,
) -> Model:
    """Publish the batches, and keep the model in step; "expire" ends the tail after its batch."""
    choose = getattr(picks, "choice")  # noqa: B009
    model = Model()
    await send(store, sid, durable("first"))
    model.add(durable("first"))
    for number, batch in enumerate(batches):
        entries: list[Entry] = []
        for index, (kind, body) in enumerate(batch):
            name = f"e{number}.{index}"
            if kind == "again":
                known = [event[0] for event in model.events]
                entries.append(durable(choose(known), body))
                continue
            if kind == "rewind":
                entry = durable(name, body, rewind_to=choose(model.durable_ids()))
            elif kind == "passing":
                entry = passing(name, body)
            else:
                entry = durable(name, body)
            entries.append(entry)
            model.add(entry)
        await send(store, sid, *entries)
        if batch[-1][0] == "expire":
            await link.command("DEL", SessionKeys.of(sid).tail)
            model.tail_from = len(model.events) + 1
    return model


async def check(
    store: EventStore, sid: str, model: Model, at: int, max_events: int, max_bytes: int
) -> None:
    outlook = await store.look(sid)
    assert (outlook.head.sequence, outlook.head.offset) == (model.sequence, len(model.events))
    assert outlook.first_offset >= model.tail_from
    position = Position(model.events[at - 1][2], at) if at else Position(0, 0)
    exact_from = None if position.offset + 1 < outlook.first_offset else position.offset
    given: list[str] = []
    while True:
        page = await store.page(sid, position, max_events=max_events, max_bytes=max_bytes)
        assert not page.trimmed
        assert len(page.events) <= max_events
        assert len(page.events) <= 1 or sum(len(e.body) for e in page.events) <= max_bytes
        if page.exact and exact_from is None:
            exact_from = position.offset
        for event in page.events:
            name, is_durable, sequence, offset = model.events[event.offset - 1]
            assert (event.id, event.durable) == (name, is_durable)
            assert (event.sequence, event.offset) == (sequence, offset)
            assert (event.check == NO_CHECK) == (sequence == 0)
        given += ids(page.events)
        assert page.position.offset > position.offset or not page.more
        position = page.position
        if not page.more:
            break
    assert position == page.head[:2]
    bound = len(model.events) if exact_from is None else exact_from
    assert given == [
        name
        for name, is_durable, _, offset in model.events
        if offset > at and name not in model.hidden and (is_durable or offset > bound)
    ]
