"""One viewer of a session: a place, a taste, and no queue (protocol.md §6).

`chunks` is the whole of replay and catching up: it pulls pages from Redis until the ring goes on
from its place, then frames from the ring until it is at the head. A viewer that can be written to
synchronously stops there and goes live; any other waits for the ring to move and pulls on. Between
"at the head" and "live" there is no await, so nothing can slip in between.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal, TypeVar

import anyio
from starlette.types import Receive

from sessionwire_schemas.catalog import CATALOGS
from sessionwire_schemas.cursor import NO_CHECK, Cursor
from sessionwire_schemas.frames import comment, control_frame
from sessionwire_server.audience import Sender, Span, Taste
from sessionwire_server.catch_up import CatchUp, plan
from sessionwire_server.channel import Channel
from sessionwire_server.entries import Position, StoredEvent
from sessionwire_server.errors import HubError
from sessionwire_server.opening import Opening
from sessionwire_server.pages import Pages
from sessionwire_server.replay import Gap
from sessionwire_server.state_frames import STATES, StateName

__all__ = ["EndReason", "Viewer", "gap_frame"]

EndReason = Literal[
    "connection_cycle",
    "shutdown",
    "deleted",
    "token_expired",
    "slow",
    "reset",
    "lease_lost",
    "error",
]

REDIS_PAUSE_S = (0.2, 1.0)
"""How long a puller waits before it asks an absent Redis again, jittered."""

NOWHERE = 2**53
"""An offset beyond all: no ephemeral event is replayed as published."""

T = TypeVar("T")


class Viewer:
    """Somebody who reads a session.

    Attributes:
        channel, audience: what it belongs to.
        position: place up to which it has been written, while it pulls; a live one is at the head.
        ending: why it ends, None while it goes on.
        beat_s: how long it gives nothing before it gives a heartbeat.
        deadline, drain_at, expires_at: loop times at which the connection is cycled, is drained, or
            loses its token.
    """

    __slots__ = (
        "_catalog",
        "_catch_up",
        "_caught_up",
        "_epoch",
        "_from_offset",
        "_pages",
        "_plan_wanted",
        "_reset_to",
        "_scope",
        "_sender",
        "_snapshot_sent",
        "_state_serial",
        "_states_by",
        "_states_first",
        "_whole_from",
        "audience",
        "beat_s",
        "channel",
        "deadline",
        "drain_at",
        "ending",
        "expires_at",
        "position",
    )

    def __init__(self, channel: Channel, taste: Taste, pages: Pages, sender: Sender | None) -> None:
        self.channel = channel
        self.position = Position(0, 0)
        self.ending: EndReason | None = None
        self.beat_s = channel.settings.heartbeat_s
        self.deadline: float | None = None
        self.drain_at: float | None = None
        self.expires_at: float | None = None
        self._pages = pages
        self._sender = sender
        self._epoch = ""
        self._catalog = ""
        self._from_offset = 0
        self._whole_from = NOWHERE
        self._catch_up: CatchUp | None = None
        self._plan_wanted = False
        self._caught_up = False
        self._snapshot_sent = False
        self._reset_to: str | None = None
        self._state_serial: int | None = None
        """Number of the newest state it was told, -1 for none; None while it wants none."""
        self._states_first: tuple[StateName, ...] = ()
        """Names of states that it is told before anything else."""
        self._states_by = 0.0
        """Loop time until which the first ones are waited for."""
        self._scope: anyio.CancelScope | None = None
        self.audience = channel.join(self, taste)

    def begin(
        self, opening: Opening, *, ephemeral_replay: bool, snapshot_sent: bool = False
    ) -> None:
        """Take the place where delivery begins.

        Args:
            opening: the place, read while the channel was subscribed.
            ephemeral_replay: whether ephemeral events inside the tail are replayed as published;
                without it only open messages are caught up.
            snapshot_sent: whether the client has the last values already.
        """
        self.position = opening.position
        self._epoch = opening.outlook.epoch
        self._catalog = opening.outlook.catalog
        self._from_offset = opening.position.offset
        self._snapshot_sent = snapshot_sent
        in_tail = opening.position.offset + 1 >= opening.outlook.first_offset
        self._plan_wanted = not (in_tail and ephemeral_replay)
        self._whole_from = NOWHERE if self._plan_wanted else self._from_offset
        self.channel.observe(opening.outlook.epoch, opening.outlook.head)
        if self.audience.taste.control and self._state_serial is None:
            self.channel.watch_states()
            self._await_states()

    @property
    def wants_states(self) -> bool:
        """Whether it wants to be told what the session is like."""
        return self._state_serial is not None

    def _await_states(self) -> None:
        """Be told every state there is, and nothing else before that, if it is soon known."""
        self._state_serial, self._states_first = -1, STATES
        patience = self.channel.settings.redis_timeout_s if self.channel.states_are_read else 0
        self._states_by = anyio.current_time() + patience

    @property
    def epoch(self) -> str:
        """The epoch of its place, empty before `begin`."""
        return self._epoch

    @property
    def is_live(self) -> bool:
        """Whether it is written to synchronously."""
        return self in self.audience.live

    # What the channel and the hub do to it, synchronously.

    def fall_behind(self, position: Position) -> None:
        """Become a puller at a place; until now it was told everything."""
        self.position = position
        if self._state_serial is not None:
            self._state_serial = self.channel.states.serial
        self.channel.stats.lagged += 1
        self._wake()

    def reset(self, epoch: str) -> None:
        """Begin anew in another epoch, or end where the client cannot be told."""
        if self.audience.taste.control:
            self._reset_to = epoch
            self._wake()
        else:
            self.end("reset")

    def end(self, reason: EndReason) -> None:
        """Have the stream end with a `disconnecting` frame; the first reason stands."""
        if self.ending is None:
            self.ending = reason
            self._wake()

    def _wake(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.channel.wake()

    # The request task.

    async def pull(self) -> None:
        """Deliver until the viewer is live or ends; then it is in its audience's live set."""
        sender = self._sender
        assert sender is not None, "only viewers with a sender pull by themselves"
        if sender.paused and not await self.drained(sender):
            return
        async with aclosing(self.chunks()) as chunks:
            async for data in chunks:
                sender.write(data)
                if sender.paused and not await self.drained(sender):
                    return
                if sender.closed:
                    return
        # `aclosing` of a generator that has run out does not suspend, so this is still the head.
        if self.ending is None:
            self.go_live(sender)

    def go_live(self, sender: Sender) -> None:
        """Be written to from now on; `chunks` has just run out, and nothing was awaited since."""
        if not self.audience.live:
            # Silence is counted from here; the audience may have been nobody's for long.
            self.audience.written_at = anyio.current_time()
        self.audience.live[self] = sender.wire

    async def drained(self, sender: Sender) -> bool:
        """Wait for the socket; a write that makes no progress for `send_timeout_s` ends it."""
        left = sender.buffered
        while sender.paused and not sender.closed:
            with anyio.move_on_after(self.channel.settings.send_timeout_s):
                await sender.drain()
                continue
            if sender.buffered >= left:
                self.channel.stats.slow_closed += 1
                self.end("slow")
                sender.abort()
                return False
            left = sender.buffered
        return not sender.closed

    async def sleep(self, receive: Receive) -> bool:
        """Be live until woken; True when the client is gone."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                while self.is_live:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return True
            finally:
                self._scope = None
        return False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Give framed bytes, in order, from the place on.

        Ends when the viewer ends; with a sender also at the head, from where it can go live.
        """
        taste = self.audience.taste
        heartbeat = taste.framing(taste.spelling.heartbeat)
        while self.ending is None and not self._can_go_live():
            data = await self._step()
            if data is None:
                yield heartbeat
            elif data:
                yield data

    def _can_go_live(self) -> bool:
        """Whether everything before the head was delivered, and the rest can be written to it."""
        head = self.channel.head
        return (
            self._sender is not None
            and self._caught_up
            and self._reset_to is None
            and head is not None
            and self.position.offset == head.offset
            and self._epoch == self.channel.epoch
            and self._is_past_catch_up()
            and not self._lacks_state()
        )

    def _is_past_catch_up(self) -> bool:
        """Whether nothing of the catch-up, which is this viewer's own, is still to be written."""
        return self._catch_up is None or self.position.offset >= self._catch_up.until

    async def _step(self) -> bytes | None:
        """Get on: bytes to write, empty for none yet, None when a heartbeat is due."""
        if self._reset_to is not None:
            return self._restart()
        if self._lacks_state():
            return await self._told_state()
        if self.channel.epoch not in ("", self._epoch):
            # One of us has not heard of a new epoch yet: the other's numbers mean nothing.
            self.channel.suspect()
            return await self._moved()
        if not self.channel.reaches(self.position):
            return await (self._moved() if self._is_ahead() else self._paged())
        frames = self.channel.after(self.position, self._pages.max_bytes)
        if not frames:
            if self._plan_wanted:  # nothing lies before the head that it could stand in for
                self._plan_wanted, self._whole_from = False, self.position.offset
            return await (self._moved() if self._caught_up else self._arrived())
        if self._plan_wanted:
            return await self._make_plan()
        return self._shown(Span(frames))

    def _lacks_state(self) -> bool:
        """Whether a state was shown that it was not told, or it waits for the first."""
        serial = self._state_serial
        return serial is not None and (
            serial != self.channel.states.serial or bool(self._states_first)
        )

    async def _told_state(self) -> bytes | None:
        """Tell the next state; of each name only the newest, however long it was behind."""
        states, serial = self.channel.states, self._state_serial
        assert serial is not None, "it wants states"
        if not self._states_first:
            frame = states.after(serial)
            self._state_serial = states.serial if frame is None else frame.serial
        else:
            left = self._states_by - anyio.current_time()
            if serial < 0 and not states.known and left > 0:
                return await self._moved(left)
            if serial < 0:
                self._state_serial = states.serial
            frame = states.newest(self._states_first[0])
            self._states_first = self._states_first[1:]
        return b"" if frame is None else frame.framed(self.audience.taste)

    def _is_ahead(self) -> bool:
        """Whether Redis was read further than the channel has heard; the message is on its way."""
        head = self.channel.head
        return head is not None and self.position.offset > head.offset

    async def _moved(self, most_s: float = math.inf) -> bytes | None:
        """Wait until something was shown, for as long as silence may last and `most_s`."""
        with anyio.move_on_after(min(self.beat_s, most_s)):
            await self.channel.moved()
            return b""
        return None if self.beat_s <= most_s else b""

    async def _patiently(self, read: Callable[[], Awaitable[T]]) -> T | None:
        """Read from Redis, waiting while it is away; None when a heartbeat is due or it ended."""
        patience = anyio.current_time() + self.beat_s
        while self.ending is None and anyio.current_time() < patience:
            try:
                return await read()
            except HubError:
                # Also where the session is not found: its state was lost, and may come back in a
                # new epoch. Of a deletion the feed tells.
                pass
            await anyio.sleep(random.uniform(*REDIS_PAUSE_S))
        return None

    async def _paged(self) -> bytes | None:
        """Pull a page and spell it."""
        sid, position = self.channel.sid, self.position
        found = await self._patiently(lambda: self._pages.read(sid, position))
        if found is None:
            return None
        page, span = found
        if page.epoch != self._epoch:
            self.channel.suspect()
            self.reset(page.epoch)
            return b""
        self.channel.observe(page.epoch, page.head)
        if page.exact and self._plan_wanted and await self._make_plan() is None:
            return None
        if not (page.exact or self._plan_wanted):
            self._whole_from = page.position.offset
        gap = b""
        if page.trimmed and page.events and (self._from_offset or position.sequence):
            # The opener of a prompt may be older than everything that is kept.
            durable = next((event for event in page.events if event.durable), page.events[0])
            gap = self._gap(durable.sequence - 1)
        data = gap + self._shown(span)
        self.position = page.position
        return data

    async def _make_plan(self) -> bytes | None:
        """Plan the catch-up of open messages."""
        found = await self._patiently(lambda: self._pages.open_messages(self.channel.sid))
        if found is None:
            return None
        head, messages = found
        self._catch_up = plan(CATALOGS[self._catalog], head.offset, messages, self._from_offset)
        self._plan_wanted, self._whole_from = False, head.offset
        return b""

    def _shown(self, span: Span) -> bytes:
        """Spell events and move the place past them."""
        if span.frames:
            last = span.frames[-1].event
            self.position = Position(last.sequence, last.offset)
        if self._catch_up is not None:
            events = self._catch_up.apply(frame.event for frame in span.frames)
            span = Span.of(events, self._epoch)
            if self.position.offset >= self._catch_up.until:
                self._catch_up = None
        data, shown = self.audience.encode(span, self.channel.settings.filtered_cursor_every)
        self.channel.stats.delivered += shown
        return data

    def _gap(self, resumed: int) -> bytes:
        self.channel.stats.gaps += 1
        gap = Gap("trimmed", self.position.sequence, resumed)
        taste = self.audience.taste
        if taste.control:
            return taste.framing(taste.spelling.own("gap", dict(gap.members())))
        return taste.framing(gap_frame(gap, control=False))

    def _restart(self) -> bytes:
        epoch, self._reset_to = self._reset_to or "", None
        self._epoch = epoch
        self.position, self._from_offset = Position(0, 0), 0
        self._plan_wanted, self._whole_from, self._catch_up = True, NOWHERE, None
        self._caught_up = self._snapshot_sent = False
        if self._state_serial is not None:
            self._await_states()
        cursor = str(Cursor(epoch, 0, 0, NO_CHECK))
        taste = self.audience.taste
        return taste.framing(
            taste.spelling.own("reset", {"epoch": epoch, "cursor": cursor}, cursor=cursor)
        )

    async def _arrived(self) -> bytes | None:
        """Tell who asked for the hub's own frames that the head is reached, once.

        The snapshot is written as soon as it is read: whatever came meanwhile is newer and follows
        it, and `caught_up` waits for that.
        """
        taste = self.audience.taste
        if not taste.control:
            self._caught_up = True
            return b""
        if not self._snapshot_sent:
            lasts = await self._patiently(lambda: self._pages.lasts(self.channel.sid))
            if lasts is None:
                return None
            self._snapshot_sent = True
            bodies = [event.body for event in lasts if self._needs(event)]
            return taste.framing(taste.spelling.snapshot(bodies))
        self._caught_up = True
        head = self.channel.head
        assert head is not None, "the ring reached the place"
        cursor = str(Cursor(self._epoch, head.sequence, head.offset, head.check))
        return taste.framing(taste.spelling.own("caught_up", {"cursor": cursor}, cursor=cursor))

    def _needs(self, event: StoredEvent) -> bool:
        """Whether a last value lies before the head and replay has not brought it."""
        if event.offset > self.position.offset or not self.audience.taste.filter.admits(event):
            return False
        return event.offset <= (self._from_offset if event.durable else self._whole_from)


def gap_frame(gap: Gap, *, control: bool) -> bytes:
    """Tell a gap: as a frame to who asked for the hub's own, as a comment to the others."""
    if control:
        return control_frame("gap", dict(gap.members()))
    return comment(
        f"gap {gap.reason} after_sequence={gap.after_sequence}"
        f" resumed_sequence={gap.resumed_sequence}"
    )
