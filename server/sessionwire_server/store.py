"""The events of all sessions, in Redis: the one door to them (protocol.md §1-§4).

Owns numbering, idempotency and order by running one script per operation; a session's state is in
Redis alone, so any number of stores over one Redis are one store. Knows nothing of viewers, bodies
or catalogs: what an event means is in its `Entry`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sessionwire_schemas.cursor import new_epoch
from sessionwire_server import log_reader, publish_call, scripts
from sessionwire_server.entries import Entry, Head, Outlook, Page, Position, Verdict
from sessionwire_server.keys import SessionKeys
from sessionwire_server.publish_call import PublishRequest, session_not_found
from sessionwire_server.publish_queue import PublishQueue
from sessionwire_server.redis_link import RedisLink, Reply
from sessionwire_server.settings import Settings

__all__ = ["EventStore"]


class EventStore:
    """Publishes and reads the events of sessions.

    Every method raises `StoreUnavailable` while Redis is away; those that name a session raise a
    404 `session_not_found` where there is none (or it was deleted) unless they say otherwise.
    """

    def __init__(self, link: RedisLink, settings: Settings) -> None:
        self._link = link
        self._settings = settings
        self.queue = PublishQueue(self._publish_all)

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
            HubError: 409 `catalog_mismatch`, 410 `session_deleted`, 503 `busy`.
            StorageFull: Redis has no memory left.
            StoreUnavailable: also when the reply was lost; the events may be stored then, and
                publishing them again is safe where the ids are the producer's.
        """
        if not entries:
            return []
        request = PublishRequest(catalog or "", create, entries)
        epoch, reply = await self.queue.submit(sid, request)
        error = publish_call.refusal(sid, reply)
        if error is not None:
            raise error
        return publish_call.verdicts(epoch, entries, reply)

    async def _publish_all(self, sid: str, requests: Sequence[PublishRequest]) -> Sequence[Reply]:
        keys = SessionKeys.of(sid)
        fresh = new_epoch(secrets.token_bytes(5))
        words = publish_call.arguments(keys.live, fresh, self._settings, requests)
        reply = await self._link.run(scripts.load("publish"), keys.all(), words)
        epoch = log_reader.text(reply[0])
        return [(epoch, verdict) for verdict in reply[2:]]

    async def look(self, sid: str, sequence: int | None = None) -> Outlook:
        """See a session's head and bounds, and which durable event stands at `sequence`."""
        keys = SessionKeys.of(sid)
        asked = "" if sequence is None else sequence
        reply = await self._link.run(
            scripts.load("look"), (keys.meta, keys.log, keys.tail), (asked,)
        )
        if not reply:
            raise session_not_found(sid)
        return log_reader.outlook(reply)

    async def page(self, sid: str, position: Position, *, max_events: int, max_bytes: int) -> Page:
        """Read on from a place, for a stream; rewound events are left out.

        Where the tail reaches back to the place the page has every event, else only the durable
        ones from the log, up to where the tail begins; the next page is then from the tail.

        Args:
            sid: the session.
            position: a place of the session's present epoch.
            max_events: most events of the page.
            max_bytes: most bytes of bodies, but at least one event is given.
        """
        keys = SessionKeys.of(sid)
        reply = await self._link.run(
            scripts.load("page"),
            (keys.meta, keys.log, keys.tail),
            (*position, max_events, max_bytes),
        )
        if not reply:
            raise session_not_found(sid)
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
