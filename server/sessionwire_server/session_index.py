"""The list of sessions by activity, and the hints that keep other hubs' lists current.

Owns `sw:sessions` and the sending half of `sw:feed`. Both are hints: a session's truth is in its
slot, so an entry too many is skipped and in time removed, and every score is at most about a second
behind. A hub writes each session at most once a second, the last change always.
"""

from __future__ import annotations

import base64
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from sessionwire_schemas.names import SESSION_ID_PATTERN
from sessionwire_server.errors import HubError
from sessionwire_server.keys import FEED, SESSIONS, SessionKeys
from sessionwire_server.redis_link import Command, RedisLink
from sessionwire_server.session_record import SessionRecord, record
from sessionwire_server.settings import Settings

__all__ = ["SessionIndex", "SessionPage", "SessionQuery"]

logger = logging.getLogger(__name__)

FLUSH_S = 1.0
"""A session's entry is written at most this often."""

MAX_PENDING = 10_000
"""Sessions with a change not yet written; more make the publisher write them."""

MAX_KNOWN = 50_000
"""Sessions that this hub remembers to be listed."""

SCAN = 100
"""Sessions read in one write while listing."""

STALE_MS = 60_000
"""An entry without a session is removed after this: before, its session may just be being made."""


_TOKEN = re.compile(rf"([0-9]{{1,15}}) ([0-9]{{1,15}}) ({SESSION_ID_PATTERN.pattern})")

_Listed: TypeAlias = tuple[float, SessionRecord]


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions are asked for; empty members do not filter.

    Attributes:
        q: part of the title or id, in any case.
        agent_id: the `agent_id` given at creation.
        limit: most sessions of the page.
        page_token: `next_page_token` of the page before.
        visible: tells whether a session may be shown, None shows all.
        given: further members given at creation, and their values.
    """

    status: str = ""
    catalog: str = ""
    q: str = ""
    agent_id: str = ""
    limit: int = 50
    page_token: str = ""
    visible: Callable[[str], bool] | None = None
    given: Mapping[str, str] = field(default_factory=dict[str, str])

    def filters(self) -> bool:
        """Tell whether any session is left out."""
        return bool(
            self.status
            or self.catalog
            or self.q
            or self.agent_id
            or self.given
            or self.visible is not None
        )

    def takes(self, session: SessionRecord) -> bool:
        """Tell whether a session is asked for."""
        part = self.q.casefold()
        return (
            (not self.status or session.status == self.status)
            and (not self.catalog or session.catalog == self.catalog)
            and (not part or part in session.title.casefold() or part in session.id.casefold())
            and (not self.agent_id or session.members().get("agent_id") == self.agent_id)
            and (not self.given or self._was_given(session))
            and (self.visible is None or self.visible(session.id))
        )

    def _was_given(self, session: SessionRecord) -> bool:
        members = session.members()
        return all(members.get(name) == value for name, value in self.given.items())


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Sessions, newest activity first.

    Attributes:
        next_page_token: asks for the next page, None at the end.
        total: how many sessions match.
        offset: how many come before the first of this page.
    """

    data: tuple[SessionRecord, ...]
    next_page_token: str | None
    total: int
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class _Place:
    """After the session `sid` with the score `score`, the `offset`-th in the list."""

    score: float
    sid: str
    offset: int

    def token(self) -> str:
        text = f"{self.score:.0f} {self.offset} {self.sid}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, token: str) -> _Place:
        try:
            text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        except ValueError:
            text = ""
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise HubError(400, "invalid_page_token", "page_token is none of ours")
        return cls(int(match[1]), match[3], int(match[2]))


class SessionIndex:
    """The list of sessions, as one hub reads and writes it."""

    def __init__(self, link: RedisLink, settings: Settings) -> None:
        self._link = link
        self._scan_s = settings.list_scan_s
        self._pending: dict[str, int] = {}
        self._known: dict[str, None] = {}
        self._changed = anyio.Event()

    async def announce(self, sid: str) -> None:
        """List a session that may be about to be made, before it is: the hint comes first."""
        if sid in self._known:
            return
        await self._link.command("ZADD", SESSIONS, "NX", int(time.time() * 1000), sid)
        self._remember(sid)

    def _remember(self, sid: str) -> None:
        self._known[sid] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    async def note(self, sid: str, updated_ms: int) -> None:
        """Tell that a session changed; written by `run` within a second."""
        self._pending[sid] = updated_ms
        self._changed.set()
        if len(self._pending) > MAX_PENDING:
            await self.flush()

    async def remove(self, sid: str) -> None:
        """Take a session off the list, after it was deleted."""
        self._pending.pop(sid, None)
        self._known.pop(sid, None)
        await self._link.pipeline([("ZREM", SESSIONS, sid), ("PUBLISH", FEED, f"d {sid}")])

    async def flush(self) -> None:
        """Write all changes noted so far; they stay noted if Redis is away."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        commands: list[Command] = []
        for sid, updated_ms in pending.items():
            commands.append(("ZADD", SESSIONS, "GT", updated_ms, sid))
            commands.append(("PUBLISH", FEED, f"u {sid}"))
        try:
            await self._link.pipeline(commands)
        except BaseException:
            self._pending = {**pending, **self._pending}
            self._changed.set()
            raise
        for sid in pending:
            self._remember(sid)

    async def run(self) -> None:
        """Write changes as they come, each session at most once a second, until cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                await self._try_flush()
                await anyio.sleep(FLUSH_S)
        finally:
            with anyio.move_on_after(FLUSH_S, shield=True):
                await self._try_flush()

    async def _try_flush(self) -> None:
        try:
            await self.flush()
        except HubError as error:
            logger.debug("session list not written: %s", error.code)

    async def find(self, query: SessionQuery) -> SessionPage:
        """Read a page of the list; see `EventStore.sessions`."""
        start = _Place.read(query.page_token) if query.page_token else None
        try:
            with anyio.fail_after(self._scan_s):
                if query.filters():
                    return await self._filtered(query, start)
                return await self._plain(query, start)
        except TimeoutError as error:
            detail = f"the list took longer than {self._scan_s:g} s, narrow it down"
            raise HubError(503, "query_too_broad", detail) from error

    async def _plain(self, query: SessionQuery, start: _Place | None) -> SessionPage:
        total = int(await self._link.command("ZCARD", SESSIONS))
        found: list[_Listed] = []
        async with aclosing(self._sessions(start)) as sessions:
            async for listed in sessions:
                found.append(listed)
                if len(found) > query.limit:
                    break
        return _page(query, start, found, total)

    async def _filtered(self, query: SessionQuery, start: _Place | None) -> SessionPage:
        total, found = 0, list[_Listed]()
        async with aclosing(self._sessions(None)) as sessions:
            async for score, session in sessions:
                if not query.takes(session):
                    continue
                total += 1
                is_after = start is None or (score, session.id) < (start.score, start.sid)
                if is_after and len(found) <= query.limit:
                    found.append((score, session))
        return _page(query, start, found, total)

    async def _sessions(self, start: _Place | None) -> AsyncGenerator[_Listed]:
        """Give the sessions after a place, newest activity first."""
        after = None if start is None else (start.score, start.sid)
        async with aclosing(self._entries(after, SCAN, newest_first=True)) as pages:
            async for entries in pages:
                commands = [("HGETALL", SessionKeys.of(sid).meta) for _, sid in entries]
                metas = await self._link.pipeline(commands, scan=True)
                stale_before = time.time() * 1000 - STALE_MS
                gone: list[str] = []
                for (score, sid), meta in zip(entries, metas, strict=True):
                    session = record(sid, meta)
                    if session is not None:
                        yield score, session
                    elif score < stale_before:
                        gone.append(sid)
                if gone:
                    await self._link.command("ZREM", SESSIONS, *gone)

    async def walk(self, page: int) -> AsyncGenerator[list[str]]:
        """Give the ids of all listed sessions, the longest idle first; changes may repeat some."""
        async with aclosing(self._entries(None, page, newest_first=False)) as pages:
            async for entries in pages:
                yield [sid for _, sid in entries]

    async def _entries(
        self, after: tuple[float, str] | None, count: int, *, newest_first: bool
    ) -> AsyncGenerator[list[tuple[float, str]]]:
        """Give the entries after a place in pages, by score and then by id.

        By score, not by rank: entries move while they are read, and none may be missed for that.
        """
        command = "ZREVRANGEBYSCORE" if newest_first else "ZRANGEBYSCORE"
        end = "-inf" if newest_first else "+inf"
        skip = 0
        while True:
            start = _opposite(end) if after is None else f"{after[0]:.0f}"
            words = (command, SESSIONS, start, end, "WITHSCORES", "LIMIT", skip, count)
            (reply,) = await self._link.pipeline([words], scan=True)
            read = [(float(score), bytes(sid).decode()) for sid, score in reply]
            fresh = [
                entry
                for entry in read
                if after is None or (entry < after if newest_first else entry > after)
            ]
            if fresh:
                yield fresh
                after, skip = fresh[-1], 0
            else:
                # A whole page of the score we stopped at.
                skip += count
            if len(read) < count:
                return


def _opposite(end: str) -> str:
    return "+inf" if end == "-inf" else "-inf"


def _page(
    query: SessionQuery,
    start: _Place | None,
    found: list[_Listed],
    total: int,
) -> SessionPage:
    offset = 0 if start is None else start.offset
    shown, more = found[: query.limit], len(found) > query.limit
    token = None
    if more and shown:
        score, session = shown[-1]
        token = _Place(score, session.id, offset + len(shown)).token()
    data = tuple(session for _, session in shown)
    return SessionPage(data, token, total, offset, query.limit)
