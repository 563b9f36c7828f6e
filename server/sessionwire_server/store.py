"""The events of all sessions, in Redis: the one door to them (protocol.md §2-§6).

Owns numbering, idempotency and order by running one script per operation; a session's state is in
Redis alone, so any number of stores over one Redis are one store. Knows nothing of viewers, bodies
or catalogs: what an event means is in its `Entry`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence

from sessionwire_schemas.cursor import new_epoch
from sessionwire_schemas.prompts import NO_EFFECTS as NO_PROMPT_EFFECTS
from sessionwire_server import log_reader, publish_call, scripts
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.entries import (
    Entry,
    Head,
    OpenMessage,
    Outlook,
    Page,
    Position,
    StoredEvent,
    Verdict,
)
from sessionwire_server.errors import HubError
from sessionwire_server.keys import ASKING, SWEEP, SessionKeys
from sessionwire_server.prompt_store import PromptStore
from sessionwire_server.publish_call import PublishRequest, SessionDeleted, session_not_found
from sessionwire_server.publish_queue import PublishQueue
from sessionwire_server.redis_link import RedisLink, Reply, Word
from sessionwire_server.session_index import SessionIndex, SessionPage, SessionQuery
from sessionwire_server.session_record import SessionFields, SessionRecord, agree, record
from sessionwire_server.settings import Settings

__all__ = ["EventStore"]

TOMBSTONE_S = 86_400
"""How long a deleted session answers 410 instead of beginning anew."""

RETIRED_S = 86_400
"""How long a session that was idle for `session_ttl_s` keeps its numbers."""

TRIM_LOOKS = 1_000
"""Entries that one call of the trim script looks at: some milliseconds of Redis' time."""

LOG_PAGE_BYTES = 2**20
"""Bytes that one call of the log_page script collects before it stops."""


class EventStore:
    """Publishes and reads the events of sessions.

    Every method raises `StoreUnavailable` while Redis is away; those that name a session raise a
    404 `session_not_found` where there is none (or it was deleted) unless they say otherwise.

    Attributes:
        queue: what is on its way to Redis.
        prompts: the prompts that events open, close and end.
    """

    def __init__(self, link: RedisLink, settings: Settings) -> None:
        self._link = link
        self._settings = settings
        self.queue = PublishQueue(self._publish_all)
        self._index = SessionIndex(link, settings)
        self.prompts = PromptStore(link, settings, Deadlines(link), self.submit, self.log_page)

    async def run(self) -> None:
        """Keep the list of sessions current, until cancelled: a task of the hub."""
        await self._index.run()

    async def publish(
        self, sid: str, catalog: str | None, entries: Sequence[Entry], *, create: bool
    ) -> list[Verdict]:
        """Store and fan out events of one session, all or none of them.

        Args:
            sid: the session.
            catalog: the catalog the events are of, None if they do not tell.
            entries: the events in order; the caller bounds their number and size.
            create: whether a session that does not exist is made.

        Returns: one verdict an entry, in order. An event already known, from before or from
            earlier in `entries`, is a duplicate: it is not stored again and its verdict is the
            place of the first one.

        Raises:
            HubError: 409 `catalog_mismatch`, 410 `session_deleted`, 429 `prompts_full`, 503
                `busy`.
            StorageFull: Redis has no memory left.
            StoreUnavailable: also when the reply was lost; the events may be stored then, and
                publishing them again is safe where the ids are the producer's.
        """
        if not entries:
            return []
        if create:
            await self._index.announce(sid)
        if any(entry.prompts is not NO_PROMPT_EFFECTS for entry in entries):
            return await self.prompts.publish(sid, catalog, entries, create=create)
        verdicts = await self.submit(sid, PublishRequest(catalog or "", create, entries))
        assert verdicts is not None
        return verdicts

    async def submit(self, sid: str, request: PublishRequest) -> list[Verdict] | None:
        """Have a request stored; None if its terms do not hold."""
        epoch, received_ms, reply = await self.queue.submit(sid, request)
        if publish_call.is_stale(reply):
            return None
        error = publish_call.refusal(sid, reply)
        if error is not None:
            raise error
        if request.entries:
            await self._index.note(sid, received_ms)
        return publish_call.verdicts(epoch, request.entries, reply)

    async def _publish_all(self, sid: str, requests: Sequence[PublishRequest]) -> Sequence[Reply]:
        keys = SessionKeys.of(sid)
        fresh = new_epoch(secrets.token_bytes(5))
        words = publish_call.arguments(keys.live, fresh, self._settings, requests)
        reply = await self._link.run(scripts.load("publish"), keys.all(), words)
        epoch, received_ms = log_reader.text(reply[0]), int(reply[1])
        return [(epoch, received_ms, verdict) for verdict in reply[2:]]

    async def _read(self, script: str, sid: str, keys: Sequence[str], *words: Word) -> list[Reply]:
        reply: list[Reply] = await self._link.run(scripts.load(script), keys, words)
        if not reply:
            raise session_not_found(sid)
        return reply

    async def look(self, sid: str, sequence: int | None = None) -> Outlook:
        """See a session's head and bounds, and which durable event stands at `sequence`.

        Raises:
            SessionDeleted: a 404 that tells streams that the session was deleted lately.
        """
        keys = SessionKeys.of(sid)
        asked = "" if sequence is None else sequence
        reply = await self._read("look", sid, (keys.meta, keys.log, keys.tail), asked)
        if reply[0] == b"deleted":
            raise SessionDeleted(sid)
        return log_reader.outlook(reply)

    async def page(self, sid: str, position: Position, *, max_events: int, max_bytes: int) -> Page:
        """Read on from a place, for a stream; rewound events are left out.

        Where the tail reaches back to the place the page has every event, else only the durable
        ones from the log, up to where the tail begins, and the ephemeral openers of prompts that
        are still open; the next page is then from the tail.

        Args:
            sid: the session.
            position: a place of the session's present epoch.
            max_events: most events of the page.
            max_bytes: most bytes of bodies, but at least one event is given.
        """
        keys = SessionKeys.of(sid)
        reply = await self._read(
            "page",
            sid,
            (keys.meta, keys.log, keys.tail, keys.openers),
            *position,
            max_events,
            max_bytes,
        )
        return log_reader.page(reply)

    async def heads(self, sids: Sequence[str]) -> dict[str, tuple[str, Head] | None]:
        """Read epoch and head of many sessions in one write; None for one that does not exist."""
        commands = [
            ("HMGET", SessionKeys.of(sid).meta, "epoch", "sequence", "offset", "check", "deleted")
            for sid in sids
        ]
        found: dict[str, tuple[str, Head] | None] = {}
        for sid, reply in zip(sids, await self._link.pipeline(commands), strict=True):
            epoch, sequence, offset, check, deleted = reply
            if epoch is None or deleted is not None:
                found[sid] = None
            else:
                head = Head(int(sequence), int(offset), log_reader.text(check))
                found[sid] = (log_reader.text(epoch), head)
        return found

    async def locate(self, sid: str, event_id: str) -> Position | None:
        """Find the place just after an event, durable or ephemeral; None if it is not known.

        Ephemeral ids are known for 15 minutes, the newest 10,000.
        """
        keys = SessionKeys.of(sid)
        reply = await self._read(
            "locate", sid, (keys.meta, keys.log, keys.tail, keys.ids, keys.eids), event_id
        )
        return _position(reply)

    async def locate_time(self, sid: str, received_ms: int) -> Position:
        """Find the place before the first durable event received later; the head if none was."""
        keys = SessionKeys.of(sid)
        return Position(*await self._read("locate_time", sid, (keys.meta, keys.log), received_ms))

    async def position_at(self, sid: str, sequence: int) -> Position | None:
        """Find the place just after a durable event, None if it is not kept; 0 is the start."""
        if sequence == 0:
            return Position(0, 0)
        keys = SessionKeys.of(sid)
        return _position(await self._read("position_at", sid, (keys.meta, keys.log), sequence))

    async def open_messages(self, sid: str) -> tuple[Head, list[OpenMessage]]:
        """Read the messages still being streamed whose first delta the tail still holds.

        So is the ephemeral opener of an open prompt, while the tail holds it.
        """
        keys = SessionKeys.of(sid)
        slot = (keys.meta, keys.tail, keys.deltas, keys.openers)
        reply = await self._read("open_messages", sid, slot)
        return log_reader.open_messages(reply)

    async def lasts(self, sid: str) -> list[StoredEvent]:
        """Read the newest event of each last-value kind, in order of offset.

        Rewound ones are left out. Empty for a session that does not exist.
        """
        keys = SessionKeys.of(sid)
        rewound, values = await self._link.pipeline(
            [("HGET", keys.meta, "rewound"), ("HVALS", keys.last)]
        )
        ranges = log_reader.rewound_ranges(rewound)
        events = sorted(map(log_reader.last_value, values), key=lambda event: event.offset)
        return [
            event
            for event in events
            if not any(hidden.first <= event.sequence <= hidden.last for hidden in ranges)
        ]

    async def renew_epoch(self, sid: str, seen_epoch: str, seen: Head) -> str:
        """Begin a new epoch if epoch and head still are what was read from Redis.

        Returns: the epoch in force, which is another hub's where that was first.
        """
        keys = SessionKeys.of(sid)
        fresh = new_epoch(secrets.token_bytes(5))
        words = (keys.live, fresh, seen_epoch, *seen)
        reply: bytes = await self._link.run(scripts.load("renew_epoch"), (keys.meta,), words)
        if not reply:
            raise session_not_found(sid)
        return log_reader.text(reply)

    async def log_page(
        self,
        sid: str,
        *,
        after: int,
        until: int | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int | None = None,
    ) -> list[StoredEvent]:
        """Read durable events with `after` < sequence <= `until`, rewound ones too.

        Args:
            sid: the session.
            after: 0 for the oldest kept.
            until: None for the newest.
            limit: most events.
            newest_first: from the newest back, instead of from the oldest on.
            max_bytes: stop once this many bytes of bodies are read; None never does. Then the
                events may be fewer than `limit` though there are more.

        Returns: the events in the order asked for; empty only where none is left.
        """
        keys = SessionKeys.of(sid)
        events: list[StoredEvent] = []
        low, high, size = after, until, 0
        while len(events) < limit and (high is None or low < high):
            left = LOG_PAGE_BYTES if max_bytes is None else min(LOG_PAGE_BYTES, max_bytes - size)
            end = "+" if high is None else high
            words = (low, end, limit - len(events), left, int(newest_first))
            reply = await self._link.run(
                scripts.load("log_page"), (keys.meta, keys.log), words, scan=True
            )
            if not reply:
                break
            if reply[0] == b"":
                raise session_not_found(sid)
            part = [log_reader.log_event(entry) for entry in reply]
            events += part
            size += sum(len(event.body) for event in part)
            if max_bytes is not None and size >= max_bytes:
                break
            if newest_first:
                high = part[-1].sequence - 1
            else:
                low = part[-1].sequence
        return events

    async def create_session(self, sid: str, fields: SessionFields) -> tuple[SessionRecord, bool]:
        """Make a session, or find the one that is there; a deleted one begins anew.

        Returns: the session, and whether it was made now.

        Raises:
            HubError: 409 `session_exists`, there is one that does not have the members given.
        """
        await self._index.announce(sid)
        keys = SessionKeys.of(sid)
        words = (
            new_epoch(secrets.token_bytes(5)),
            fields.catalog,
            fields.title or "",
            fields.given,
            fields.completion,
        )
        made, *meta = await self._link.run(scripts.load("create"), keys.all(), words)
        found = record(sid, meta)
        assert found is not None
        if made:
            await self._index.note(sid, found.updated_ms)
        elif not agree(found, fields):
            detail = f"session {sid!r} exists with other members than those given"
            raise HubError(409, "session_exists", detail)
        return found, bool(made)

    async def session(self, sid: str) -> SessionRecord:
        """Read one session."""
        found = record(sid, await self._link.command("HGETALL", SessionKeys.of(sid).meta))
        if found is None:
            raise session_not_found(sid)
        return found

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """List sessions, those with the newest events first.

        Raises:
            HubError: 400 `invalid_page_token`; 503 `query_too_broad`, the filters made the scan
                longer than `list_scan_s`.
        """
        return await self._index.find(query)

    async def delete_session(self, sid: str) -> None:
        """End a session: viewers are told, and for 24 hours it answers as deleted."""
        keys = SessionKeys.of(sid)
        words = (keys.live, TOMBSTONE_S)
        if not await self._link.run(scripts.load("delete"), keys.all(), words):
            raise session_not_found(sid)
        await self._index.remove(sid)
        await self._link.command("ZREM", ASKING, sid)

    async def pin(self, sid: str, *, pinned: bool) -> None:
        """Pin a session, or no longer.

        Raises:
            HubError: 410 `session_deleted`.
        """
        reply = await self._read("session_pin", sid, (SessionKeys.of(sid).meta,), int(pinned))
        if reply[0] == b"deleted":
            raise publish_call.session_deleted(sid)

    async def trim(self, sid: str) -> None:
        """End what the session's log keeps longer than the settings say."""
        keys = SessionKeys.of(sid)
        age_ms = int(self._settings.log_max_age_s * 1000)
        words = (self._settings.log_max_events, age_ms, TRIM_LOOKS)
        while True:
            gone = await self._link.run(
                scripts.load("trim"), (keys.meta, keys.log, keys.ids), words, scan=True
            )
            if gone < TRIM_LOOKS:
                return

    async def retire(self, sid: str) -> bool:
        """Remove what a session keeps that is idle for `session_ttl_s`.

        A session with an open prompt or a waiting command is not idle. Returns whether it is gone
        (also if it had been before).
        """
        keys = SessionKeys.of(sid)
        words = (int(self._settings.session_ttl_s * 1000), RETIRED_S)
        retired = await self._link.run(scripts.load("retire"), keys.all(), words, scan=True)
        if retired:
            await self._index.remove(sid)
        return bool(retired)

    async def take_sweep(self) -> bool:
        """Tell whether this hub is the one to sweep now: one is, in half of `sweep_every_s`."""
        hold_ms = max(1, int(self._settings.sweep_every_s * 500))
        taken = await self._link.command("SET", SWEEP, "1", "NX", "PX", hold_ms)
        return taken is not None

    def walk(self, page: int = 100) -> AsyncGenerator[list[str]]:
        """Give the ids of all listed sessions in pages, the longest idle first.

        Close it (`contextlib.aclosing`) where it is not read to its end.
        """
        return self._index.walk(page)


def _position(reply: Sequence[Reply]) -> Position | None:
    return None if reply[0] == b"" else Position(*reply)
