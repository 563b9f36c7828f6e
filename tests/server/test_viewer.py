"""What a viewer is told at places that only bad timing leads to: protocol §6.3, §6.4."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest

from sessionwire_schemas.cursor import NO_CHECK, check_of
from sessionwire_server.audience import Taste
from sessionwire_server.channel import Channel
from sessionwire_server.entries import Head, OpenMessage, Outlook, Page, Position, StoredEvent
from sessionwire_server.fan_out import FanOut
from sessionwire_server.live_message import LiveBatch
from sessionwire_server.opening import Opening
from sessionwire_server.pages import Pages
from sessionwire_server.sender import TransportSender
from sessionwire_server.store import EventStore
from sessionwire_server.viewer import Viewer
from tests.server.test_splice import EPOCH, SETTINGS, FakeTransport, ModelSession, shown

pytestmark = pytest.mark.anyio

OLD_EPOCH = "oldepoch"
CONTROL = Taste(control=True)


def watch(
    channel: Channel,
    session: ModelSession,
    taste: Taste = CONTROL,
) -> tuple[Viewer, FakeTransport]:
    """Open a viewer that goes live on a socket."""
    pages = Pages(cast(EventStore, session), SETTINGS, channel.stats)
    socket = FakeTransport()
    viewer = Viewer(channel, taste, pages, cast(TransportSender, socket))
    outlook = Outlook(EPOCH, "copilot", session.head, 1, session.tail_from, 0, (), None, None)
    viewer.begin(Opening(outlook, Position(0, 0), NO_CHECK, None, True), ephemeral_replay=True)
    return viewer, socket


@asynccontextmanager
async def delivering(viewer: Viewer) -> AsyncGenerator[None]:
    """Run a viewer as its request's task does."""
    never = asyncio.Event()

    async def receive() -> dict[str, str]:
        await never.wait()
        return {"type": "http.disconnect"}

    async def run() -> None:
        while viewer.ending is None:
            await viewer.pull()
            await viewer.sleep(receive)

    task = asyncio.ensure_future(run())
    try:
        yield
        viewer.end("shutdown")
        await asyncio.wait_for(task, 5)
    finally:
        task.cancel()


async def settle() -> None:
    """Let everything happen that waits for nothing but its turn."""
    for _ in range(50):
        await asyncio.sleep(0)


def channel_of(session: ModelSession) -> Channel:
    fan_out = FanOut(SETTINGS)
    fan_out.channels["s"] = Channel("s", fan_out)
    return fan_out.channels["s"]


def old_batch(events: int) -> LiveBatch:
    """A session's life before the one that the tests are about."""
    old = tuple(
        StoredEvent(n, n, check_of(f"old{n}"), True, f"old{n}", "t", b"%d" % (100 + n))
        for n in range(1, events + 1)
    )
    return LiveBatch(OLD_EPOCH, 1, events, events, old[-1].check, old)


class StreamingSession(ModelSession):
    """One message is being streamed, and goes on while its catch-up is read."""

    async def open_messages(self, sid: str) -> tuple[Head, list[object]]:
        self.publish([False])
        self.publish([False])
        deltas = tuple(event for event in self.events if not event.durable)
        head = self.head
        await asyncio.sleep(0)
        return head, [OpenMessage("m", deltas)]

    async def lasts(self, sid: str) -> list[StoredEvent]:
        return []


class TrimmedSession(ModelSession):
    """Its log was trimmed up to a sequence."""

    trimmed_to = 0

    async def page(self, sid: str, position: Position, *, max_events: int, max_bytes: int) -> Page:
        kept = max(position.sequence, self.trimmed_to)
        is_trimmed = kept > position.sequence
        after = Position(kept, kept) if is_trimmed else position
        page = await super().page(sid, after, max_events=max_events, max_bytes=max_bytes)
        return replace(page, trimmed=is_trimmed)

    async def lasts(self, sid: str) -> list[StoredEvent]:
        return []


@pytest.mark.parametrize("taste", [Taste(), CONTROL], ids=["plain", "control"])
async def test_nobody_goes_live_before_the_catch_up_is_complete(taste: Taste) -> None:
    session = StreamingSession()
    session.publish([True])
    session.publish([False, False, False])
    session.messages.clear()
    session.tail_from = 2
    channel = channel_of(session)
    viewer, socket = watch(channel, session, taste)
    async with delivering(viewer):
        await settle()
        while session.messages:
            channel.append(session.messages.popleft())
            await settle()
        assert shown(socket.got) == [1, 6], "the last delta stands for all of them"
        session.publish([False, True])
        channel.append(session.messages.popleft())
        await settle()
        assert viewer.is_live
        assert shown(socket.got) == [1, 6, 7, 8]


async def test_a_viewer_whose_log_is_trimmed_under_it_is_told_wherever_it_began() -> None:
    session = TrimmedSession()
    session.publish([True] * 12)
    session.messages.clear()
    channel = channel_of(session)
    viewer, socket = watch(channel, session)
    async with delivering(viewer):
        for _ in range(50):
            await asyncio.sleep(0)
            if shown(socket.got):
                socket.fill(True)
        had = shown(socket.got)[-1]
        session.trimmed_to = 10
        socket.fill(False)
        await settle()
        assert shown(socket.got)[-2:] == [11, 12]
        gap = b'"after_sequence":%d,"resumed_sequence":10' % had
        assert b"".join(socket.got).count(b"event: gap") == 1
        assert gap in b"".join(socket.got)


async def test_who_begins_in_a_new_epoch_gets_nothing_of_the_old_one() -> None:
    session = TrimmedSession()
    channel = channel_of(session)
    channel.append(old_batch(5))
    await settle()
    session.publish([True, True])
    session.messages.clear()
    viewer, socket = watch(channel, session, Taste())
    async with delivering(viewer):
        await settle()
        assert socket.got == []
        assert channel in channel._fan_out.suspects  # pyright: ignore[reportPrivateUsage] - what the feed looks at
        channel.restart(EPOCH, session.head)
        await settle()
        assert viewer.ending is None, "it was opened in this epoch"
        assert shown(socket.got) == [1, 2]
        session.publish([True])
        channel.append(session.messages.popleft())
        await settle()
        assert shown(socket.got) == [1, 2, 3]


async def test_a_deleted_session_leaves_nothing_for_the_next_of_its_name() -> None:
    session = TrimmedSession()
    channel = channel_of(session)
    channel.append(old_batch(5))
    await settle()
    channel.end()
    assert (channel.head, channel.tip, channel.ring_bytes) == (None, None, 0)
    session.publish([True, True])
    session.messages.clear()
    viewer, socket = watch(channel, session)
    async with delivering(viewer):
        await settle()
        assert shown(socket.got) == [1, 2]
        assert viewer.is_live
