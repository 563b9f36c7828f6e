"""The seam of replay and live: protocol §6.3, replay rule 1, over any interleaving.

A model session stands in for Redis: it is published to, its live messages are delivered late, cut
short or lost, its tail moves on, sockets fill and drain, while two viewers read: one that pulls
only and one that goes live. Whatever happens, both get every durable event once and in order, and
a full socket is left alone.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from sessionwire_schemas.cursor import NO_CHECK, check_of
from sessionwire_server.audience import Taste, Wire
from sessionwire_server.channel import Channel
from sessionwire_server.entries import Head, Outlook, Page, Position, StoredEvent
from sessionwire_server.fan_out import FanOut
from sessionwire_server.live_message import LiveBatch
from sessionwire_server.opening import Opening
from sessionwire_server.pages import Pages
from sessionwire_server.sender import TransportSender
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from sessionwire_server.viewer import Viewer

EPOCH = "abcdefgh"
SETTINGS = Settings(ring_events=6, page_events=3, page_bytes=1024, heartbeat_s=60)


class ModelSession:
    """A session that answers reads as the scripts do, from a list."""

    def __init__(self) -> None:
        self.events: list[StoredEvent] = []
        self.tail_from = 1
        self.messages: deque[LiveBatch] = deque()
        self.reads = 0

    @property
    def head(self) -> Head:
        if not self.events:
            return Head(0, 0, NO_CHECK)
        last = self.events[-1]
        return Head(last.sequence, last.offset, last.check)

    def publish(self, kinds: Sequence[bool], *, inline: bool = True) -> None:
        first = self.head.offset + 1
        for durable in kinds:
            before = self.head
            sequence, offset = before.sequence + durable, before.offset + 1
            check = check_of(str(offset)) if durable else before.check
            body = b"%d" % offset
            self.events.append(
                StoredEvent(offset, sequence, check, durable, str(offset), "t", body)
            )
        batch = tuple(self.events[first - 1 :])
        head = self.head
        self.messages.append(
            LiveBatch(
                EPOCH, first, head.offset, head.sequence, head.check, batch if inline else None
            )
        )

    async def page(self, sid: str, position: Position, *, max_events: int, max_bytes: int) -> Page:
        self.reads += 1
        head = self.head
        exact = position.offset + 1 >= self.tail_from or position.offset == head.offset
        if exact:
            found = [e for e in self.events if e.offset > position.offset]
        else:
            found = [
                e
                for e in self.events
                if e.durable and e.sequence > position.sequence and e.offset < self.tail_from
            ]
        events, more = tuple(found[:max_events]), len(found) > max_events
        if more:
            after = Position(events[-1].sequence, events[-1].offset)
        elif exact:
            after = Position(head.sequence, head.offset)
        else:
            sequence = events[-1].sequence if events else position.sequence
            after, more = Position(sequence, self.tail_from - 1), True
        page = Page(EPOCH, head, events, after, more, exact, trimmed=False)
        await asyncio.sleep(0)  # the answer travels while the world goes on
        return page

    async def open_messages(self, sid: str) -> tuple[Head, list[object]]:
        head = self.head
        await asyncio.sleep(0)
        return head, []


class FakeTransport:
    """A socket that fills and drains when told to."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.forced = 0
        self.most_forced = 0
        self.write_paused = False
        self.closed = False
        self.buffered = 0
        self._open = asyncio.Event()
        self._open.set()

    def write(self, data: bytes) -> None:
        self.got.append(data)
        if self.write_paused:
            self.forced += 1
            self.most_forced = max(self.most_forced, self.forced)

    async def drain(self) -> None:
        await self._open.wait()

    @property
    def paused(self) -> bool:
        return self.write_paused

    @property
    def wire(self) -> Wire:
        return Wire(self.write, self)

    def fill(self, full: bool) -> None:
        self.write_paused = full
        self.forced = 0
        if full:
            self._open.clear()
        else:
            self._open.set()

    def abort(self) -> None:
        self.closed = True


class Scene:
    """One channel, a viewer that only pulls, and one that goes live."""

    def __init__(self, session: ModelSession, start: Position) -> None:
        self.session = session
        self.fan_out = FanOut(SETTINGS)
        self.channel = self.fan_out.channels["s"] = Channel("s", self.fan_out)
        pages = Pages(cast(EventStore, session), SETTINGS, self.fan_out.stats)
        self.socket = FakeTransport()
        self.pulled: list[bytes] = []
        self.puller = Viewer(self.channel, Taste(), pages, None)
        self.writer = Viewer(self.channel, Taste(), pages, cast(TransportSender, self.socket))
        outlook = Outlook(EPOCH, "copilot", session.head, 1, session.tail_from, 0, (), None, None)
        for viewer in (self.puller, self.writer):
            viewer.begin(Opening(outlook, start, NO_CHECK, None, True), ephemeral_replay=True)

    async def pull(self) -> None:
        async for data in self.puller.chunks():
            self.pulled.append(data)

    async def write(self) -> None:
        never = asyncio.Event()

        async def receive() -> dict[str, str]:
            await never.wait()
            return {"type": "http.disconnect"}

        while self.writer.ending is None:
            await self.writer.pull()
            await self.writer.sleep(receive)

    def deliver(self) -> None:
        if self.session.messages:
            self.channel.append(self.session.messages.popleft())

    def recover(self) -> None:
        """What the feed does after a reconnection: what is lacking is lost, and pulled."""
        self.session.messages.clear()
        tip = self.channel.tip
        if tip is not None and tip.offset < self.session.head.offset:
            self.channel.skip_to(self.session.head)


ACTIONS = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.booleans(), min_size=1, max_size=5)),
    st.tuples(st.just("publish_large"), st.lists(st.booleans(), min_size=1, max_size=3)),
    st.tuples(st.just("deliver"), st.integers(1, 4)),
    st.tuples(st.just("lose"), st.just(1)),
    st.tuples(st.just("recover"), st.just(1)),
    st.tuples(st.just("move_tail"), st.integers(1, 8)),
    st.tuples(st.just("fill"), st.booleans()),
    st.tuples(st.just("drop_ring"), st.just(1)),
    st.tuples(st.just("run"), st.integers(1, 6)),
)


def shown(chunks: Sequence[bytes]) -> list[int]:
    return [int(n) for n in re.findall(rb"^data: (\d+)$", b"".join(chunks), re.MULTILINE)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.booleans(), max_size=30),
    st.integers(0, 30),
    st.integers(0, 30),
    st.lists(ACTIONS, max_size=60),
)
def test_both_viewers_get_every_durable_event_once_and_in_order(
    history: list[bool], start: int, tail: int, actions: list[tuple[str, object]]
) -> None:
    asyncio.run(play(history, start, tail, actions))


async def play(
    history: list[bool], start: int, tail: int, actions: list[tuple[str, object]]
) -> None:
    session = ModelSession()
    if history:
        session.publish(history)
        session.messages.clear()
    session.tail_from = min(tail, session.head.offset) + 1
    begin = min(start, session.head.offset)
    sequence = session.events[begin - 1].sequence if begin else 0
    scene = Scene(session, Position(sequence, begin))
    tasks = [asyncio.ensure_future(scene.pull()), asyncio.ensure_future(scene.write())]
    for name, value in actions:
        await act(scene, name, value)
    scene.socket.fill(False)
    session.publish([True])
    while session.messages:
        scene.deliver()
        await asyncio.sleep(0)
    for _ in range(4 * len(session.events) + 50):
        await asyncio.sleep(0)
        if scene.channel.tip != session.head:
            scene.recover()
    for viewer in (scene.puller, scene.writer):
        viewer.end("shutdown")
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert scene.socket.most_forced <= 1, "a socket known to be full is not written to"
    check(session, begin, sequence, shown(scene.pulled))
    check(session, begin, sequence, shown(scene.socket.got))


async def act(scene: Scene, name: str, value: object) -> None:
    session = scene.session
    match name, value:
        case (("publish" | "publish_large"), list()):
            session.publish(cast("list[bool]", value), inline=name == "publish")
        case "deliver", int():
            for _ in range(value):
                scene.deliver()
        case "lose", _:
            if session.messages:
                session.messages.popleft()
        case "recover", _:
            scene.recover()
        case "move_tail", int():
            session.tail_from = min(session.tail_from + value, session.head.offset + 1)
        case "fill", bool():
            scene.socket.fill(value)
        case "drop_ring", _:
            scene.channel.drop_ring()
        case _, int():
            for _ in range(value):
                await asyncio.sleep(0)
        case _:
            raise AssertionError(name)


def check(session: ModelSession, begin: int, sequence: int, got: list[int]) -> None:
    assert got == sorted(set(got)), "in order, nothing twice"
    assert all(offset > begin for offset in got)
    durable = [e.offset for e in session.events if e.durable and e.sequence > sequence]
    ours = {e.offset for e in session.events if e.durable}
    assert [offset for offset in got if offset in ours] == durable, "every durable event"


def test_a_full_socket_is_written_to_no_more_than_once_until_it_drains() -> None:
    step: list[tuple[str, object]] = [("publish", [True]), ("deliver", 1), ("run", 6)]
    asyncio.run(play([True], 0, 0, [("run", 6), *step, ("fill", True), *step, *step, *step]))
