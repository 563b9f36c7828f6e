"""How far a followed session has been handed over: the cursor, and what is not to come twice.

The hub never repeats an event on a connection and always goes on after the cursor. Whatever stands
between may: so an event whose number was handed over already is left out. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Progress"]

WINDOW: Final = 1_024
"""Numbers that are remembered: an event that comes late by more is taken for a repeated one."""


class Progress:
    """The place of a consumer.

    Attributes:
        cursor: the place just after what was handed over; empty at first.
    """

    def __init__(self) -> None:
        self.cursor = ""
        self._epoch = ""
        self._top = 0
        """Highest offset handed over."""
        self._floor = 0
        """At or below it everything was handed over, or is not wanted."""
        self._recent: set[int] = set()
        self._order: deque[int] = deque()

    def restart(self, cursor: str) -> None:
        """Go to a place, forward or back: whatever comes after it is new."""
        self.cursor = cursor
        self._epoch, self._top = _numbers(cursor)
        self._floor = self._top
        self._recent.clear()
        self._order.clear()

    def move(self, cursor: str) -> None:
        """Go on to a place that is not an event's."""
        epoch, offset = _numbers(cursor)
        if epoch != self._epoch:
            self.restart(cursor)
        elif offset >= self._top:
            self.cursor, self._top = cursor, offset

    def take(self, cursor: str) -> bool:
        """Take an event by the cursor just after it, and move there.

        Returns: whether it is to be handed over. One that comes late is, and moves nothing.
        """
        epoch, offset = _numbers(cursor)
        if not epoch:
            self.cursor = cursor or self.cursor
            return True
        if epoch != self._epoch:
            self.restart(cursor)
            return True
        if offset <= self._floor or offset in self._recent:
            return False
        if offset > self._top:
            self.cursor, self._top = cursor, offset
        self._remember(offset)
        return True

    def _remember(self, offset: int) -> None:
        self._recent.add(offset)
        self._order.append(offset)
        if len(self._order) > WINDOW:
            oldest = self._order.popleft()
            self._recent.discard(oldest)
            self._floor = max(self._floor, oldest)


def _numbers(cursor: str) -> tuple[str, int]:
    """Give epoch and offset; no epoch for what is not a cursor."""
    parts = cursor.split(".")
    if len(parts) != 4 or not parts[2].isdigit():
        return "", 0
    return parts[0], int(parts[2])
