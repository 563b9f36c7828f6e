"""The open prompts of many sessions, in pages (protocol.md §8.2).

A hint says which sessions may have some, each session's own state says which. A page holds at most
`limit` prompts and looks at a bounded number of sessions, so a token that may read few of many gets
short pages, even empty ones, and goes on with the next.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sessionwire_schemas.cursor import MAX_NUMBER
from sessionwire_schemas.names import MAX_REQUEST_ID_BYTES, SESSION_ID_PATTERN
from sessionwire_server.errors import HubError
from sessionwire_server.prompt_kept import Kept, OpenPrompts

__all__ = ["Found", "FoundPage", "OpenPromptQuery", "OpenSessions", "find_open"]

SCAN: Final = 100
"""Sessions named in one read of the hint."""

MAX_LISTED: Final = 5_000
"""Sessions that one page passes by, readable or not."""

MAX_READ: Final = 200
"""Sessions that one page reads."""

_TOKEN: Final = re.compile(rf"({SESSION_ID_PATTERN.pattern}) ([0-9]{{1,16}}) (.*)", re.DOTALL)


class OpenSessions(Protocol):
    """What is read: `PromptStore`."""

    async def sessions_with_open(self, after: str, limit: int) -> Sequence[str]:
        """Name sessions that may have open prompts, by id, after one."""
        ...

    async def open(self, sid: str) -> OpenPrompts:
        """Read the open prompts of a session."""
        ...


@dataclass(frozen=True, slots=True)
class OpenPromptQuery:
    """Which prompts are asked for.

    Attributes:
        statuses: how they are shown.
        limit: most prompts of the page.
        page_token: `next_page_token` of the page before, "" for the first.
        visible: tells whether a session may be shown.
    """

    statuses: frozenset[str]
    limit: int
    page_token: str
    visible: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """Prompts of one session, the oldest first; `now_ms` is Redis' time."""

    sid: str
    kept: tuple[Kept, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page: sessions by their ids; `next_page_token` is None at the end."""

    found: tuple[Found, ...]
    next_page_token: str | None


@dataclass(frozen=True, slots=True)
class _Place:
    """After a prompt of session `sid`; without one after the whole session."""

    sid: str
    offset: int = MAX_NUMBER
    request_id: str = ""

    def token(self) -> str:
        text = f"{self.sid} {self.offset} {self.request_id}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, token: str) -> _Place:
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode()
        except (ValueError, binascii.Error):
            text = ""
        match = _TOKEN.fullmatch(text)
        if match is None or len(match[3].encode()) > MAX_REQUEST_ID_BYTES:
            raise HubError(400, "invalid_page_token", "page_token is none of ours")
        return cls(match[1], min(int(match[2]), MAX_NUMBER), match[3])

    def is_before(self, kept: Kept) -> bool:
        return (self.offset, self.request_id) < _order(kept)


def _order(kept: Kept) -> tuple[int, str]:
    # An order that stays: prompts of one event close one by one while pages are read.
    return kept.prompt.place.offset, kept.prompt.request_id


async def find_open(source: OpenSessions, query: OpenPromptQuery) -> FoundPage:
    """Read a page.

    Raises:
        HubError: 400 `invalid_page_token`.
        StoreUnavailable: Redis is away.
    """
    page = _Page(source, query)
    after = ""
    if query.page_token:
        place = _Place.read(query.page_token)
        after = place.sid
        # The rest of the session in whose middle the last page may have ended.
        is_inside = place.offset < MAX_NUMBER and query.visible(place.sid)
        if is_inside and await page.add(place.sid, place):
            return page.until(page.last)
    listed = 0
    while True:
        sids = await source.sessions_with_open(after, SCAN)
        for sid in sids:
            if page.is_full or listed >= MAX_LISTED:
                return page.until(_Place(after))
            after, listed = sid, listed + 1
            if query.visible(sid) and await page.add(sid, None):
                return page.until(page.last)
        if len(sids) < SCAN:
            return page.until(None)


class _Page:
    """A page while it is filled.

    Attributes:
        last: the place after its last prompt.
    """

    def __init__(self, source: OpenSessions, query: OpenPromptQuery) -> None:
        self.last: _Place | None = None
        self._source = source
        self._query = query
        self._found: list[Found] = []
        self._room = query.limit
        self._read = 0

    @property
    def is_full(self) -> bool:
        """It takes no further session."""
        return not self._room or self._read >= MAX_READ

    async def add(self, sid: str, place: _Place | None) -> bool:
        """Add a session's prompts after a place; tell whether some found no room."""
        self._read += 1
        try:
            state = await self._source.open(sid)
        except HubError as error:
            if error.status != 404:
                raise
            return False  # a hint too many
        wanted = [
            kept
            for kept in sorted(state.kept, key=_order)
            if kept.prompt.status(state.now_ms) in self._query.statuses
            and (place is None or place.is_before(kept))
        ]
        taken, rest = wanted[: self._room], wanted[self._room :]
        if taken:
            self._found.append(Found(sid, tuple(taken), state.now_ms))
            self._room -= len(taken)
            self.last = _Place(sid, *_order(taken[-1]))
        return bool(rest)

    def until(self, place: _Place | None) -> FoundPage:
        """End it at a place, None where nothing follows."""
        return FoundPage(tuple(self._found), None if place is None else place.token())
