"""A host while it is attached: its lease, and the commands as they come (protocol.md §9.3).

Owns what every transport does alike: the lease is taken before anything is said, renewed while the
host is there, and given back when it goes. Commands are read from Redis in order, a few at a time
and only when they are asked for; what tells that there are more is a bell, and a look at each
renewal in case none rang.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from sessionwire_server.bell import Bell
from sessionwire_server.channel import Channel
from sessionwire_server.command_store import LeaseLost
from sessionwire_server.commands import CommandCursor
from sessionwire_server.errors import HubError
from sessionwire_server.host_lease import Lease
from sessionwire_server.live_message import CommandNews, HostNews, News, PresenceNews
from sessionwire_server.minting import rfc3339
from sessionwire_server.presence import Presence
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.redis_link import StorageFull, StoreUnavailable
from sessionwire_server.viewer import EndReason

if TYPE_CHECKING:
    from sessionwire_server.hub import Hub

__all__ = ["AttachedHost", "attached"]

logger = logging.getLogger(__name__)

RENEWALS: Final = 3
"""Times that a lease is renewed within its length, so that two may fail."""

RELEASE_S: Final = 2.0
"""How long giving the lease back may take; it ends by itself soon enough."""

REDIS_PAUSE_S: Final = (0.2, 1.0)


class AttachedHost:
    """The holder of a session's lease.

    Attributes:
        ending: why it is over, None while it is not.
    """

    def __init__(self, hub: Hub, lease: Lease, channel: Channel, bell: Bell, after: int) -> None:
        self.ending: EndReason | None = None
        self._hub = hub
        self._lease = lease
        self._channel = channel
        self._told: Presence | None = None
        self._bell = bell
        self._after = after
        self._has_more = True
        self._pause_s = 0.0
        """For how long Redis is not asked again, after it did not answer."""

    @property
    def cursor(self) -> CommandCursor:
        """The place after the newest command that was handed out."""
        return CommandCursor(self._lease.epoch, self._after)

    def members(self) -> dict[str, Any]:
        """Say what it holds, and where its commands begin."""
        lease = self._lease
        expires_at = rfc3339(lease.expires_ms)
        return {"lease": lease.number, "cursor": str(self.cursor), "expires_at": expires_at}

    def presence(self) -> dict[str, Any] | None:
        """Say who watches the session, once each time that it changed; None where it has not.

        It is known soon after the host is attached; `is_due` wakes for it.
        """
        there, told = self._channel.states.presence, self._told
        if there is None or (told is not None and there.for_host() == told.for_host()):
            return None
        self._told = there
        return there.for_host()

    def end(self, reason: EndReason) -> None:
        """Have it end; returns at once, and the first reason stands."""
        self.ending = self.ending or reason
        self._bell.ring()

    async def keep(self) -> None:
        """Renew the lease until it ends."""
        while self.ending is None:
            await anyio.sleep(self._hub.settings.host_lease_s / RENEWALS)
            try:
                await self._hub.hosts.renew(self._lease)
            except HubError as error:
                self._failed(error)
            self._bell.ring()

    async def is_due(self, patience_s: float) -> bool:
        """Wait until there may be commands to take, or presence to tell; whether so, in time."""
        if self._pause_s:
            pause_s, self._pause_s = min(self._pause_s, patience_s), 0.0
            await self._bell.heard(max(pause_s, 0))
            return pause_s > 0 and self.ending is None
        if not self._has_more:
            self._has_more = await self._bell.heard(max(patience_s, 0))
        return self._has_more and self.ending is None

    async def take(self) -> Sequence[tuple[CommandCursor, bytes]]:
        """Read on.

        Returns: the JSON that the host is told, by the cursor after each; at most 16 commands and
            about 1 MiB; none while Redis is away, or where that ends it.
        """
        lease = self._lease
        try:
            handed = await self._hub.commands.take(lease.sid, lease.number, self._after)
        except HubError as error:
            self._failed(error)
            self._pause_s = random.uniform(*REDIS_PAUSE_S)
            return ()
        self._after, self._has_more = handed.after, handed.more
        return handed.frames

    def _failed(self, error: HubError) -> None:
        if isinstance(error, LeaseLost):
            self.end("lease_lost")
        elif isinstance(error, SessionDeleted):
            self.end("deleted")
        elif not isinstance(error, StoreUnavailable | StorageFull):
            logger.warning("a host is let go: %s", error.code)
            self.end("error")


@asynccontextmanager
async def attached(
    hub: Hub, sid: str, host: str, *, takeover: bool, cursor: CommandCursor | None
) -> AsyncGenerator[AttachedHost]:
    """Take the lease of a session for as long as the block runs.

    Args:
        hub: the hub.
        sid: the session.
        host: the host's own name, under which it takes its lease back.
        takeover: whether to replace another host.
        cursor: place up to which this host has the commands; None for those not acknowledged.

    Raises:
        HubError: as `HostLeases.attach`, before the block.
        StoreUnavailable: Redis is away, or has not confirmed that news will come.
    """
    lease = await hub.hosts.attach(sid, host, takeover=takeover)
    try:
        channel = hub.feed.channel(sid)
        with channel.bell(partial(_concerns, lease)) as bell, hub.presence.looking_on(sid):
            await hub.feed.confirm(channel)
            with channel.watching_states():
                yield AttachedHost(hub, lease, channel, bell, _start(lease, cursor))
    finally:
        with anyio.move_on_after(RELEASE_S, shield=True):
            await _release(hub, lease)


def _start(lease: Lease, cursor: CommandCursor | None) -> int:
    """Number after which this host gets commands: a place of its own must be one of ours."""
    if cursor is None or cursor.epoch != lease.epoch or cursor.n > lease.newest:
        return lease.after
    return max(lease.after, cursor.n)


async def _release(hub: Hub, lease: Lease) -> None:
    try:
        await hub.hosts.release(lease)
    except HubError as error:
        logger.debug("a lease was not given back: %s", error.code)


def _concerns(lease: Lease, news: News) -> bool:
    """Whether there is something to read or tell: a new command, another host's lease, viewers."""
    if isinstance(news, HostNews):
        return news.lease != lease.number
    if isinstance(news, PresenceNews):
        return True
    return isinstance(news, CommandNews) and any(
        change.status == "accepted" for change in news.changes
    )
