"""The list of a session's durable events (protocol.md §5, `GET …/events`).

Turns the parameters into a stretch of the log and a filter, finds where a limited page begins, and
gives the answer in pieces, so that no list is held in memory whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from sessionwire_schemas.catalog import CATALOGS
from sessionwire_schemas.cursor import NO_CHECK, Cursor, CursorError
from sessionwire_server.entries import Outlook, RewoundRange, StoredEvent
from sessionwire_server.errors import HubError
from sessionwire_server.event_filter import EventFilter
from sessionwire_server.log_scan import LogScan
from sessionwire_server.minting import now_ms
from sessionwire_server.opening import Opening, open_at
from sessionwire_server.query import Query, invalid
from sessionwire_server.replay import Start, StartBy, parse_start
from sessionwire_server.store import EventStore

__all__ = ["EventList", "ListQuery"]

MAX_LIMIT: Final = 1_000
MAX_WINDOW: Final = 500
WINDOW: Final = 50
KEPT_BYTES: Final = 4 * 2**20
"""Bodies that a limited page holds while its beginning is sought; more are read twice."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list asks for.

    Attributes:
        filter: which events.
        since: event or cursor to begin after.
        after, before: bounds of the sequence, both left out.
        around: id of the event in the middle.
        window: how many sequences on each side of it.
        limit: most events, None for all.
        newest_first: the order of the answer.
        include_rewound: keep events that a rewind has hidden.
    """

    filter: EventFilter
    since: Start | None
    after: int | None
    before: int | None
    around: str
    window: int
    limit: int | None
    newest_first: bool
    include_rewound: bool

    @classmethod
    def read(cls, query: Query) -> ListQuery:
        """Read the parameters.

        Raises:
            HubError: 400 `invalid_parameter`, `invalid_cursor`.
        """
        around, window = query.text("around"), query.integer("window", 1, MAX_WINDOW)
        found = cls(
            filter=EventFilter.read(query),
            since=_since(query.text("since_id")),
            after=query.integer("after_sequence", 0),
            before=query.integer("before_sequence", 0),
            around=around,
            window=WINDOW if window is None else window,
            limit=query.integer("limit", 1, MAX_LIMIT),
            newest_first=query.flag("order_desc"),
            include_rewound=query.flag("include_rewound"),
        )
        if window is not None and not around:
            raise invalid("window", "needs `around`")
        if around and (found.since, found.after, found.before) != (None, None, None):
            raise invalid("around", "excludes since_id, after_sequence and before_sequence")
        if around:
            return replace(found, limit=None, newest_first=False)
        return found

    @property
    def snaps(self) -> bool:
        """Whether a page begins with a turn, where there is one."""
        return (
            self.limit is not None
            and self.before is not None
            and self.after is None
            and not self.newest_first
            and self.filter.is_plain
        )


def _since(text: str) -> Start | None:
    if not text:
        return None
    try:
        return parse_start(text)
    except CursorError as error:
        raise HubError(400, "invalid_cursor", str(error), parameter="since_id") from error


@dataclass(slots=True)
class _Stretch:
    """A part of the log: `after` < sequence <= `until`."""

    after: int
    until: int


class EventList:
    """One answer of the list, ready to be given."""

    def __init__(self, store: EventStore, scan: LogScan, query: ListQuery, sid: str) -> None:
        self._store = store
        self._scan = scan
        self._query = query
        self._sid = sid

    async def open(self) -> None:
        """Look the session up and find where the answer lies in its log.

        Raises:
            HubError: 404 `session_not_found`, 400 `invalid_parameter` for types that its catalog
                does not have, 429 `busy`, 503 `query_too_broad`, `redis_unavailable`.
        """
        query = self._query
        self._opening = opening = await self._look()
        self._outlook = outlook = opening.outlook
        query.filter.check_types(outlook.catalog)
        self._hidden = () if query.include_rewound else outlook.rewound
        after = opening.position.sequence if query.since is not None else 0
        until = outlook.head.sequence
        if query.before is not None:
            until = min(until, query.before - 1)
        self._stretch = _Stretch(max(after, query.after or 0), until)
        if query.around:
            await self._center(query.around)
        self._kept: list[StoredEvent] | None = None
        self.total: int | None = None
        if query.limit is not None:
            self.total = await self._total(outlook)
            await self._narrow(query.limit)

    async def _look(self) -> Opening:
        start = self._query.since or StartBy(sequence=0)
        try:
            return await open_at(self._store, self._sid, start, now_ms())
        except HubError as error:
            if error.status == 404:
                self._query.filter.check_types(None)
            raise

    async def _center(self, event_id: str) -> None:
        anchor = await self._store.locate(self._sid, event_id)
        if anchor is None:
            self._stretch = _Stretch(0, 0)
            return
        window = self._query.window
        until = min(self._outlook.head.sequence, anchor.sequence + window)
        self._stretch = _Stretch(max(anchor.sequence - window - 1, 0), until)

    async def _total(self, outlook: Outlook) -> int:
        """Count the session's events but for the types excluded; only that takes a scan."""
        exclude = self._query.filter.exclude
        first, last = outlook.first_sequence, outlook.head.sequence
        if not exclude:
            return last - first + 1 - _count_hidden(self._hidden, first)
        total = 0
        async for event in self._scan.events(after=0, until=last, hidden=self._hidden):
            total += event.type not in exclude
        return total

    async def _narrow(self, limit: int) -> None:
        """Cut the stretch to the page: the first matches after a sequence, else the last ones."""
        backwards = self._query.after is None or self._query.newest_first
        kept: list[StoredEvent] = []
        kept_bytes, count, edge = 0, 0, None
        async for event in self._matches(newest_first=backwards):
            edge = event.sequence
            count += 1
            kept_bytes += len(event.body)
            if kept_bytes <= KEPT_BYTES:
                kept.append(event)
            if count == limit:
                break
        if edge is None:
            self._kept = []
            return
        if backwards:
            kept.reverse()
            self._stretch.after = edge - 1
        else:
            self._stretch.until = edge
        is_whole = len(kept) == count
        if self._query.snaps and await self._snap(edge):
            is_whole = False
        if is_whole:
            self._kept = kept[::-1] if self._query.newest_first else kept

    async def _snap(self, first: int) -> bool:
        """Move the beginning of the page back to that of a turn; tell whether it moved."""
        catalog = CATALOGS.get(self._outlook.catalog)
        if catalog is None or not self._query.filter.takes_type(catalog.turn_start_type):
            return False
        begin = max(self._opening.position.sequence, 0) if self._query.since is not None else 0
        async for event in self._scan.events(
            after=begin, until=first, hidden=self._hidden, newest_first=True
        ):
            if event.type == catalog.turn_start_type:
                self._stretch.after = event.sequence - 1
                return event.sequence < first
        return False

    async def _matches(self, *, newest_first: bool) -> AsyncIterator[StoredEvent]:
        if self._kept is not None:
            for event in self._kept:
                yield event
            return
        async for event in self._scan.events(
            after=self._stretch.after,
            until=self._stretch.until,
            hidden=self._hidden,
            newest_first=newest_first,
        ):
            if self._query.filter.takes(event):
                yield event

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the answer's JSON."""
        first: StoredEvent | None = None
        last: StoredEvent | None = None
        yield b'{"data":['
        async for event in self._matches(newest_first=self._query.newest_first):
            yield event.body if first is None else b"," + event.body
            first = event if first is None else first
            last = event
        if self._query.newest_first:
            first, last = last, first
        rest: dict[str, Any] = {
            "first_sequence": None if first is None else first.sequence,
            "last_sequence": None if last is None else last.sequence,
            "cursor": str(self._cursor(last)),
        }
        if self._query.since is not None and self._opening.gap is not None:
            rest["gap"] = self._opening.gap.members()
        yield b"]," + msgspec.json.encode(rest)[1:]

    def _cursor(self, newest: StoredEvent | None) -> Cursor:
        """Give the place after the newest event, from which following loses nothing."""
        outlook, query = self._outlook, self._query
        if newest is not None:
            return Cursor(outlook.epoch, newest.sequence, newest.offset, newest.check)
        if query.before is None and not query.around and query.filter.to_ms is None:
            # Everything up to the head was looked at.
            return Cursor(outlook.epoch, *outlook.head)
        if query.around:
            return Cursor(outlook.epoch, 0, 0, NO_CHECK)
        return self._opening.cursor


def _count_hidden(hidden: tuple[RewoundRange, ...], first: int) -> int:
    """Count the events of hidden ranges that are kept; ranges may overlap."""
    count, reached = 0, first - 1
    for each in sorted(hidden):
        low = max(each.first, reached + 1)
        if each.last >= low:
            count += each.last - low + 1
            reached = each.last
    return count
