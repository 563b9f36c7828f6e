"""The session list as it changes: one reader of hints, any number of streams (protocol.md §6.8).

A hint names a session; its record is read once however often it was named meanwhile and however
many streams are open. Streams read on from a place in a short ring, so a slow one holds nothing;
one that the ring has left behind takes a new snapshot.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import anyio

from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.live_feed import LiveFeed
from sessionwire_server.presence import Attendance
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.session_record import SessionRecord, record

__all__ = ["SessionChange", "SessionList"]

RING = 1_024
CONFLATE_S = 0.25
"""Hints of this long make one read; it is what a change of the list may be late by."""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A session that changed; `record` is None for one that was deleted."""

    number: int
    sid: str
    record: SessionRecord | None
    viewers: int = 0


class SessionList:
    """The changes of the session list.

    Attributes:
        number: number of the newest change.
        ending: whether streams end because the hub drains.
    """

    def __init__(self, feed: LiveFeed, link: RedisLink, presence: Attendance) -> None:
        self.number = 0
        self.ending = False
        self._feed = feed
        self._link = link
        self._presence = presence
        self._ring: deque[SessionChange] = deque(maxlen=RING)
        self._moved = anyio.Event()

    async def run(self) -> None:
        """Turn hints into changes for ever."""
        waiting: set[str] = set()
        while True:
            waiting |= {hint.partition(" ")[2] for hint in await self._feed.hints()}
            await anyio.sleep(CONFLATE_S)
            try:
                await self._read(waiting)
            except HubError:
                continue  # the next hint tries these again
            waiting = set()

    async def _read(self, sids: set[str]) -> None:
        ordered = sorted(sids)
        commands = [("HGETALL", SessionKeys.of(sid).meta) for sid in ordered]
        replies = await self._link.pipeline(commands)
        present = await self._presence.of_all(ordered)
        for sid, reply, there in zip(ordered, replies, present, strict=True):
            self.number += 1
            change = SessionChange(self.number, sid, record(sid, reply), there.viewers)
            self._ring.append(change)
        self._wake()

    def after(self, number: int) -> list[SessionChange] | None:
        """Give the changes after a number; None if the ring no longer reaches back to it."""
        if number < self.number - len(self._ring):
            return None
        return [change for change in self._ring if change.number > number]

    async def moved(self, number: int) -> None:
        """Wait for a change after a number, or for the end."""
        while self.number == number and not self.ending:
            await self._moved.wait()

    def end(self) -> None:
        """Have the streams end."""
        self.ending = True
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()
