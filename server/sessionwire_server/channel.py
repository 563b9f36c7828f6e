"""One session's live side in this process: a ring of its newest frames, and its viewers.

Messages are appended as they arrive and become visible at the next flush, once per iteration of the
event loop: what came together is joined and written together. A viewer that is caught up is written
to right there; one whose socket is full becomes a puller, with a place and nothing else.

The ring has no holes. A message that does not follow the last one empties it and begins it anew;
viewers behind it pull from the log. Nothing here awaits, so no viewer can hold up another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import anyio
import msgspec

from sessionwire_schemas.cursor import NO_CHECK
from sessionwire_server.audience import Audience, Frame, Span, State, Taste
from sessionwire_server.bell import Bell
from sessionwire_server.entries import Head, Position
from sessionwire_server.live_message import HostNews, LiveBatch, News, PresenceNews, PromptNews
from sessionwire_server.presence import Presence
from sessionwire_server.settings import Settings
from sessionwire_server.state_frames import STATES, StateName, States

if TYPE_CHECKING:
    from sessionwire_server.fan_out import FanOut, Stats
    from sessionwire_server.viewer import Viewer

__all__ = ["Channel"]


class Channel:
    """The viewers of a session and what they share.

    Attributes:
        sid: the session.
        epoch: life of the numbers below; empty until the first message or read.
        head: newest place that viewers may be at, None until the first message or read.
        viewers: all of them, live or pulling.
        bells: those who wait for news of commands, prompts, viewers or the host.
        states: what the session is like now, for those who are told.
        idle_since: loop time at which the last viewer or bell left.
    """

    def __init__(self, sid: str, fan_out: FanOut) -> None:
        self.sid = sid
        self.epoch = ""
        self.head: Head | None = None
        self.viewers: set[Viewer] = set()
        self.audiences: dict[Taste, Audience] = {}
        self.bells: set[Bell] = set()
        self.states = States()
        self.idle_since = 0.0
        self.behind_at: int | None = None
        """Offset that Redis had at a head check while we had less; a hole if it still lacks."""
        self.ring_bytes = 0
        self._fan_out = fan_out
        self._ring: deque[Frame] = deque()
        self._fresh: list[Frame] = []
        self._tip: Head | None = None
        """Newest place received; `head` follows at the flush."""
        self._broken = False
        self._moved = anyio.Event()

    @property
    def settings(self) -> Settings:
        """The hub's settings."""
        return self._fan_out.settings

    @property
    def stats(self) -> Stats:
        """The process's counts."""
        return self._fan_out.stats

    def suspect(self) -> None:
        """Have the feed read this session's epoch and head; a read has contradicted ours."""
        self._fan_out.suspects.add(self)

    @property
    def states_are_read(self) -> bool:
        """Whether somebody reads states that are outdated."""
        return self._fan_out.outdated is not None

    @property
    def tip(self) -> Head | None:
        """The newest place received or read, flushed or not."""
        return self._tip

    def observe(self, epoch: str, head: Head) -> None:
        """Take the head of a read that was made while subscribed, if nothing is known yet."""
        if self._tip is None:
            self.epoch, self.head, self._tip = epoch, head, head

    def append(self, batch: LiveBatch) -> None:
        """Take a message of this channel's epoch; it becomes visible at the next flush."""
        tip = self._tip
        if tip is None:
            # The first message before any read: everything before it is for pullers.
            self.epoch = batch.epoch
            self.head = Head(0, 0, NO_CHECK)
            self._broken = True
        elif batch.last_offset <= tip.offset:
            return
        elif batch.first_offset != tip.offset + 1:
            self._fresh.clear()
            self._broken = True
        if batch.events is None:
            self._fresh.clear()
            self._broken = True
        else:
            self._fresh.extend([Frame(event, batch.epoch) for event in batch.events])
        self._tip = Head(batch.sequence, batch.last_offset, batch.check)
        self._fan_out.mark(self)

    def skip_to(self, head: Head) -> None:
        """Begin anew after a loss: everybody pulls up to `head`, which Redis gave."""
        self._fresh.clear()
        self._broken = True
        self._tip = head
        self._fan_out.mark(self)
        self.outdate(STATES)

    def flush(self, now: float) -> None:
        """Show what was appended: write it to the live viewers, wake the others."""
        if self._tip is None:
            return
        if self._broken:
            self._break()
        fresh, self._fresh = self._fresh, []
        self.head = self._tip
        self._keep(fresh)
        if fresh:
            self._write(fresh, now)
        self.wake()

    def _break(self) -> None:
        self._broken = False
        for audience in self.audiences.values():
            for viewer in tuple(audience.live):
                self.lag(viewer)
        self.drop_ring()
        self.stats.breaks += 1

    def _write(self, fresh: list[Frame], now: float) -> None:
        stats, span = self.stats, Span(fresh)
        for audience in self.audiences.values():
            live = audience.live
            if not live:
                continue
            data, shown = audience.encode(span, self.settings.filtered_cursor_every)
            if not data:
                continue
            audience.written_at = now
            stats.delivered += shown * len(live)
            stats.writes += len(live)
            for viewer in audience.write(data):
                self.lag(viewer)

    def lag(self, viewer: Viewer) -> None:
        """Turn a live viewer into a puller, from the place it has been written up to."""
        head = self.head
        if head is not None and viewer in viewer.audience.live:
            viewer.audience.live.pop(viewer, None)
            viewer.fall_behind(Position(head.sequence, head.offset))

    def join(self, viewer: Viewer, taste: Taste) -> Audience:
        """Take a viewer in and give it the audience of its taste."""
        audience = self.audiences.get(taste)
        if audience is None:
            audience = self.audiences[taste] = Audience(taste, {})
        audience.members += 1
        self.viewers.add(viewer)
        return audience

    def leave(self, viewer: Viewer, now: float) -> None:
        """Forget a viewer, and its audience with the last of it."""
        self.viewers.discard(viewer)
        if viewer.wants_states:
            self.unwatch_states()
        audience = viewer.audience
        audience.live.pop(viewer, None)
        audience.members -= 1
        if not audience.members:
            self.audiences.pop(audience.taste, None)
        if not self.viewers:
            self.idle_since = now

    @contextmanager
    def bell(self, wants: Callable[[News], bool]) -> Generator[Bell]:
        """Hang up a bell for news while the block runs."""
        bell = Bell(wants)
        self.bells.add(bell)
        try:
            yield bell
        finally:
            self.bells.discard(bell)
            self.idle_since = anyio.current_time()

    def tell(self, news: News | None) -> None:
        """Ring for those who want this news; for all where some may have been missed (None)."""
        if news is None:
            self._doubt()
        elif isinstance(news, PresenceNews):
            self.outdate(("presence",))  # and it is told when it has been read
            return
        elif isinstance(news, HostNews):
            self.outdate(("presence",))
        elif isinstance(news, PromptNews) and self._is_new(news):
            self.outdate(("prompts",))
        self._ring_for(news)

    def _ring_for(self, news: News | None) -> None:
        for bell in self.bells:
            if news is None or bell.wants(news):
                bell.ring()

    def _is_new(self, news: PromptNews) -> bool:
        return news.epoch != self.epoch or news.version > self.states.prompts_version

    def _doubt(self) -> None:
        """Read everything again, and write again what Redis may have lost of ours."""
        self.outdate(STATES)
        if self._fan_out.doubted is not None:
            self._fan_out.doubted(self.sid)

    def outdate(self, names: Iterable[StateName]) -> None:
        """Have states read, where anybody watches them; those who do are told what is new."""
        if self.states.outdate(names) and self._fan_out.outdated is not None:
            self._fan_out.outdated(self)

    def watch_states(self) -> None:
        """Want states to be read; the channel is subscribed, so that no change is missed."""
        self.states.watchers += 1
        if self.states.watchers == 1 or not self.states.known:
            self.outdate(STATES)

    def unwatch_states(self) -> None:
        """Want it no more; what nobody wants is not kept."""
        self.states.watchers -= 1
        if not self.states.watchers:
            self.states.void()

    @contextmanager
    def watching_states(self) -> Generator[None]:
        """Want states to be read while the block runs."""
        self.watch_states()
        try:
            yield
        finally:
            self.unwatch_states()

    def show(self, state: State) -> None:
        """Tell a state that was read, if it is new: the live ones now, the others as they go.

        Like a flush it awaits nothing, so a live viewer has been told everything shown.
        """
        frame = self.states.put(state)
        if frame is None:
            return
        now = anyio.current_time()
        for audience in self.audiences.values():
            if audience.taste.control and audience.live:
                audience.written_at = now
                for viewer in audience.write(frame.framed(audience.taste)):
                    self.lag(viewer)
        self.wake()

    def show_presence(self, presence: Presence) -> None:
        """Tell who is there, if that is new, also to those who wait by a bell."""
        if presence != self.states.presence:
            self.states.presence = presence
            data = msgspec.json.encode(presence.members())
            self.show(State("presence", data, data))
            self._ring_for(PresenceNews(presence.viewers, presence.can_answer))

    def is_idle_since(self, then: float) -> bool:
        """Tell whether nobody has watched since a loop time."""
        return not self.viewers and not self.bells and self.idle_since <= then

    def reaches(self, position: Position) -> bool:
        """Tell whether the ring goes on from a place, or the place is the head itself."""
        if self.head is None or position.offset > self.head.offset:
            return False
        if position.offset == self.head.offset:
            return True
        return bool(self._ring) and self._ring[0].event.offset <= position.offset + 1

    def after(self, position: Position, max_bytes: int) -> list[Frame]:
        """Give the frames after a place that the ring reaches, up to `max_bytes` or one."""
        if not self._ring:
            return []
        start = position.offset + 1 - self._ring[0].event.offset
        frames: list[Frame] = []
        size = 0
        for frame in islice(self._ring, max(start, 0), None):
            size += len(frame.event.body)
            if frames and size > max_bytes:
                break
            frames.append(frame)
        return frames

    def restart(self, epoch: str, head: Head) -> None:
        """Go over to a new epoch: the ring is void, every viewer begins anew or ends.

        Those that were opened in the new one already go on from their place.
        """
        is_new = epoch != self.epoch
        self._void()
        self.states.void()
        self._doubt()
        self.epoch, self.head, self._tip = epoch, head, head
        for viewer in tuple(self.viewers):
            viewer.audience.live.pop(viewer, None)
            if not (is_new and viewer.epoch == epoch):
                viewer.reset(epoch)
        self.wake()

    def end(self) -> None:
        """End the viewers, for the session was deleted; what comes under its name is another."""
        for viewer in tuple(self.viewers):
            viewer.audience.live.pop(viewer, None)
            viewer.end("deleted")
        self._void()
        self.states.void()

    def fail(self) -> None:
        """End the viewers after a fault of ours: which of them got the last bytes is not known.

        Their own cursors know, so they come back and miss nothing.
        """
        for viewer in tuple(self.viewers):
            viewer.audience.live.pop(viewer, None)
            viewer.end("error")
        self._fresh.clear()
        self._broken = False
        self.drop_ring()
        self.head = self._tip

    def _void(self) -> None:
        self.epoch, self.head, self._tip, self.behind_at = "", None, None, None
        self.drop_ring()
        self._fresh.clear()
        self._broken = False

    def drop_ring(self) -> None:
        """Give the ring's memory back; viewers behind the head pull from Redis instead."""
        self._ring.clear()
        self._fan_out.account(self, -self.ring_bytes)
        self.ring_bytes = 0

    async def moved(self) -> None:
        """Wait until something was shown."""
        await self._moved.wait()

    def wake(self) -> None:
        """Have every puller look again."""
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    def _keep(self, fresh: list[Frame]) -> None:
        settings, ring = self.settings, self._ring
        ring.extend(fresh)
        size = self.ring_bytes + sum([frame.size for frame in fresh])
        while ring and (len(ring) > settings.ring_events or size > settings.ring_bytes):
            size -= ring.popleft().size
        self._fan_out.account(self, size - self.ring_bytes)
        self.ring_bytes = size
