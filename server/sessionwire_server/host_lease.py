"""Who is the host of a session: one lease, with a number that grows (protocol.md §9).

A lease lasts while its stream is open and renews it. Its number fences: whoever holds an older one
is told so by whatever it tries next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessionwire_server import scripts
from sessionwire_server.command_store import LeaseLost, session_gone
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.errors import HubError
from sessionwire_server.keys import FEED, SessionKeys
from sessionwire_server.minting import rfc3339
from sessionwire_server.redis_link import RedisLink, Reply, Word
from sessionwire_server.settings import Settings

__all__ = ["HostLeases", "Lease"]


@dataclass(frozen=True, slots=True)
class Lease:
    """A host's lease as it was given.

    Attributes:
        number: the fencing number.
        host: whose it is.
        epoch: the session's.
        expires_ms: when it ends unless it is renewed, by Redis' clock.
        after: number after which commands wait.
        newest: number of the newest command.
    """

    sid: str
    number: int
    host: str
    epoch: str
    expires_ms: int
    after: int
    newest: int


class HostLeases:
    """Gives, renews and takes back leases.

    Every method raises `StoreUnavailable` while Redis is away, and 404 `session_not_found` where
    there is no session.
    """

    def __init__(self, link: RedisLink, settings: Settings, deadlines: Deadlines) -> None:
        self._link = link
        self._lease_ms = max(1, int(settings.host_lease_s * 1000))
        self._deadlines = deadlines

    async def _run(self, script: str, keys: Sequence[str], *words: Word) -> Reply:
        return await self._link.run(scripts.load(script), keys, words)

    async def attach(self, sid: str, host: str, *, takeover: bool) -> Lease:
        """Make somebody the host; its own earlier lease, if any, ends.

        Raises:
            HubError: 409 `host_conflict` while another one is, unless it is to be taken over.
        """
        keys = SessionKeys.of(sid)
        await self._deadlines.note(sid, self._lease_ms)
        slot, words = (keys.meta, keys.commands, keys.due), (host, int(takeover), self._lease_ms)
        reply = await self._run("host_attach", slot, keys.live, *words)
        session_gone(sid, reply, writing=False)
        if reply[0] == b"conflict":
            since = rfc3339(int(reply[1]))
            detail = f"the session has had another host since {since}; takeover=1 replaces it"
            raise HubError(409, "host_conflict", detail, since=since)
        _, epoch, *numbers = reply
        await self._tell(sid)
        number, expires_ms, after, newest = map(int, numbers)
        return Lease(sid, number, host, str(epoch, "ascii"), expires_ms, after, newest)

    async def renew(self, lease: Lease) -> None:
        """Put off its end, also of one that ended while nobody else took the session.

        Raises:
            LeaseLost: somebody else did.
        """
        keys = SessionKeys.of(lease.sid)
        words = (keys.live, lease.host, lease.number, self._lease_ms)
        reply = await self._run("host_renew", (keys.meta, keys.due), *words)
        session_gone(lease.sid, reply, writing=False)
        if reply[0] == b"lost":
            raise LeaseLost
        if reply[1]:
            await self._deadlines.note(lease.sid, self._lease_ms)
            await self._tell(lease.sid)

    async def release(self, lease: Lease) -> None:
        """Give it back; one that is lost or has ended is none."""
        keys = SessionKeys.of(lease.sid)
        orphan_ms = self._deadlines.orphan_ms
        if orphan_ms:
            await self._deadlines.note(lease.sid, orphan_ms)
        words = (keys.live, lease.number, orphan_ms)
        if await self._run("host_release", (keys.meta, keys.due), *words):
            await self._tell(lease.sid)

    async def _tell(self, sid: str) -> None:
        """Have the lists of sessions show the change."""
        await self._link.command("PUBLISH", FEED, f"u {sid}")
