"""Reading a log in pages, within bounds of places and time (protocol.md §5).

The first page is free. Reading on needs a place among `Scans` and ends after `list_scan_s`, as long
as the answer has not begun; once it has, every page waits for its turn and none is left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import anyio

from sessionwire_server.entries import RewoundRange, StoredEvent
from sessionwire_server.errors import HubError
from sessionwire_server.limits import Scans
from sessionwire_server.redaction import shown
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore

__all__ = ["LogScan"]

PAGE_EVENTS: Final = 256
PAGE_BYTES: Final = 512 * 1024


class LogScan:
    """One request's reading of one session's log. Use as a context manager."""

    def __init__(
        self, store: EventStore, scans: Scans, settings: Settings, sid: str, *, redacted: bool
    ) -> None:
        self._store = store
        self._redacted = redacted
        self._scans = scans
        self._sid = sid
        self._scan_s = settings.list_scan_s
        self._deadline = anyio.current_time() + settings.list_scan_s
        self._pages = 0
        self._holds_place = False
        self._begun = False

    def __enter__(self) -> LogScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.begin_answer()

    def begin_answer(self) -> None:
        """Tell that the answer has begun: it will not be refused any more."""
        self._begun = True
        if self._holds_place:
            self._holds_place = False
            self._scans.leave()

    async def events(
        self,
        *,
        after: int,
        until: int,
        hidden: tuple[RewoundRange, ...] = (),
        newest_first: bool = False,
    ) -> AsyncIterator[StoredEvent]:
        """Yield durable events with `after` < sequence <= `until`, but for those hidden.

        They are as the reader may see them (`redaction`).

        Raises:
            HubError: 429 `busy`, 503 `query_too_broad`; and what the store raises.
        """
        while after < until:
            page = await self._page(after, until, newest_first=newest_first)
            if not page:
                return
            for event in page:
                if any(each.first <= event.sequence <= each.last for each in hidden):
                    continue
                seen = shown(event) if self._redacted else event
                if seen is not None:
                    yield seen
            if newest_first:
                until = page[-1].sequence - 1
            else:
                after = page[-1].sequence

    async def _page(self, after: int, until: int, *, newest_first: bool) -> list[StoredEvent]:
        self._pages += 1
        if self._begun:
            async with self._scans.turn():
                return await self._read(after, until, newest_first=newest_first)
        if self._pages > 1 and not self._holds_place:
            self._scans.enter()
            self._holds_place = True
        if anyio.current_time() > self._deadline:
            raise HubError(
                503,
                "query_too_broad",
                f"no end after {self._scan_s:g} s of reading: narrow the query",
                headers={"Retry-After": "5"},
            )
        return await self._read(after, until, newest_first=newest_first)

    async def _read(self, after: int, until: int, *, newest_first: bool) -> list[StoredEvent]:
        return await self._store.log_page(
            self._sid,
            after=after,
            until=until,
            limit=PAGE_EVENTS,
            newest_first=newest_first,
            max_bytes=PAGE_BYTES,
        )
