"""What viewers pull from Redis, each read made once however many want it at the same time.

After a drop a hundred viewers come back with the same cursor; they share one page, and its bytes
where they spell them alike. Nothing is kept: a page goes when the last of them has gone on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

import anyio

from sessionwire_server.audience import Span
from sessionwire_server.entries import Head, OpenMessage, Page, Position, StoredEvent
from sessionwire_server.fan_out import Stats
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore

__all__ = ["Pages"]

T = TypeVar("T")


class _Flight:
    """A read under way, and what came of it."""

    __slots__ = ("done", "error", "ok", "value")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.ok = False
        self.value: Any = None
        self.error: Exception | None = None


class Pages:
    """Shared reads of the store."""

    def __init__(self, store: EventStore, settings: Settings, stats: Stats) -> None:
        self._store = store
        self._stats = stats
        self._flights: dict[Hashable, _Flight] = {}
        self.max_bytes = settings.page_bytes
        self.max_events = settings.page_events

    async def read(self, sid: str, position: Position) -> tuple[Page, Span]:
        """Read the page after a place; see `EventStore.page`. Gives its events as frames, too."""
        self._stats.pages += 1
        return await self._shared((sid, position), lambda: self._read(sid, position))

    async def _read(self, sid: str, position: Position) -> tuple[Page, Span]:
        page = await self._store.page(
            sid, position, max_events=self.max_events, max_bytes=self.max_bytes
        )
        return page, Span.of(page.events, page.epoch)

    async def open_messages(self, sid: str) -> tuple[Head, list[OpenMessage]]:
        """Read the messages still being streamed, with the head they were read at."""
        return await self._shared((sid, "open"), lambda: self._store.open_messages(sid))

    async def lasts(self, sid: str) -> list[StoredEvent]:
        """Read the newest event of each last-value key."""
        return await self._shared((sid, "lasts"), lambda: self._store.lasts(sid))

    async def _shared(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        while (flight := self._flights.get(key)) is not None:
            await flight.done.wait()
            if flight.error is not None:
                raise flight.error
            if flight.ok:
                return cast(T, flight.value)
            # The one who read was cancelled; somebody else has to.
        flight = self._flights[key] = _Flight()
        try:
            flight.value = await read()
            flight.ok = True
            return cast(T, flight.value)
        except Exception as error:
            flight.error = error
            raise
        finally:
            del self._flights[key]
            flight.done.set()
