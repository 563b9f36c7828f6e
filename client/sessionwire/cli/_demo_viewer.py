"""The demo's viewer: follows the session, is dropped, comes back, and is held against the log.

Knows nothing of the agent: what it must have seen is what the hub exports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import httpx2

from sessionwire._follow import Follow, Start, follow
from sessionwire._http import rejected_async, session_path
from sessionwire._items import CaughtUp, Event, Item

__all__ = ["Replayed", "Verdict", "Viewer", "judge"]

LAST_TYPE: Final = "session.shutdown"


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a viewer that came back was sent before it had reached live."""

    durable: int
    ephemeral: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the viewer saw, held against the hub's log.

    Attributes:
        lost: durable events of the log that it never saw.
        doubled: events, of either kind, that it saw more than once.
        in_order: whether the durable ones came in the order of the log.
    """

    durable: int
    ephemeral: int
    lost: int
    doubled: int
    in_order: bool

    @property
    def holds(self) -> bool:
        """Whether the hub kept its promise."""
        return not self.lost and not self.doubled and self.in_order


@dataclass(slots=True)
class Viewer:
    """One viewer of one session, over any number of connections.

    Attributes:
        show: called with every item, in the order it came.
        seen: ids of the events it saw, with whether each is durable.
    """

    http: httpx2.AsyncClient
    session: str
    show: Callable[[Item], None]
    cursor: str = ""
    seen: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    _sequence: int = 0

    async def watch(self, count: int) -> bool:
        """Follow until `count` more events have come. Returns: False if the session ended first."""
        wanted = len(self.seen) + count
        async with self._follow() as items:
            async for item in items:
                if self._take(item):
                    return False
                if len(self.seen) >= wanted:
                    break
            self.cursor = items.cursor
        return True

    async def come_back(self, told: Callable[[Replayed], None], *, timeout_s: float) -> None:
        """Resume where it was dropped, tell what was replayed, and stay until the session ends.

        Raises:
            TimeoutError: the session does not end in time.
        """
        before = len(self.seen)
        with anyio.fail_after(timeout_s):
            async with self._follow() as items:
                async for item in items:
                    ended = self._take(item)
                    if isinstance(item, CaughtUp):
                        news = self.seen[before:]
                        durable = sum(is_durable for _, is_durable in news)
                        told(Replayed(durable, len(news) - durable))
                    if ended:
                        return

    def _follow(self) -> Follow:
        return follow(self.http, self.session, start=Start(since_id=self.cursor, from_="start"))

    def _take(self, item: Item) -> bool:
        self.show(item)
        if not isinstance(item, Event):
            return False
        # The second number of a cursor moves with durable events only.
        sequence = int(item.cursor.split(".")[1])
        self.seen.append((str(item.json()["id"]), sequence > self._sequence))
        self._sequence = sequence
        return item.type == LAST_TYPE

    async def verdict(self) -> Verdict:
        """Hold what was seen against the log.

        Raises:
            HubError: the log cannot be had.
        """
        async with self.http.stream("GET", session_path(self.session, "export")) as response:
            if response.status_code != 200:
                raise await rejected_async(response)
            log = [str(json.loads(line)["id"]) async for line in response.aiter_lines()]
        return judge(self.seen, log)


def judge(seen: list[tuple[str, bool]], log: list[str]) -> Verdict:
    """Compare what a viewer saw with the ids of the log."""
    durable = [event_id for event_id, is_durable in seen if is_durable]
    counts = Counter(event_id for event_id, _ in seen)
    return Verdict(
        durable=len(durable),
        ephemeral=len(seen) - len(durable),
        lost=len(set(log) - set(durable)),
        doubled=sum(count - 1 for count in counts.values()),
        in_order=list(dict.fromkeys(durable)) == [each for each in log if each in counts],
    )
