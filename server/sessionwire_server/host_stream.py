"""The stream of a session's commands to its host (protocol.md §9).

Opening it is becoming the host: the lease is taken before the response begins, renewed while the
stream is open, and given back when it closes. Commands are read from Redis in order and written at
once; what tells that there are more is a bell, and a look at each renewal in case none rang.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from starlette.types import Receive, Scope, Send

from sessionwire_schemas.frames import HEARTBEAT, control_frame, event_frame
from sessionwire_server.access import Principal
from sessionwire_server.bell import Bell
from sessionwire_server.command_store import Handed, LeaseLost
from sessionwire_server.commands import CommandCursor
from sessionwire_server.errors import HubError
from sessionwire_server.event_response import EventResponse
from sessionwire_server.event_stream import RETRY_MS, EndReason, disconnecting
from sessionwire_server.host_lease import Lease
from sessionwire_server.live_message import HostNews, News
from sessionwire_server.minting import rfc3339
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.redis_link import StorageFull, StoreUnavailable

if TYPE_CHECKING:
    from sessionwire_server.hub import Hub

__all__ = ["HostStream"]

logger = logging.getLogger(__name__)

RENEWALS: Final = 3
"""Times that a lease is renewed within its length, so that two may fail."""

RELEASE_S: Final = 2.0
"""How long giving the lease back may take; it ends by itself soon enough."""

REDIS_PAUSE_S: Final = (0.2, 1.0)


class HostStream:
    """The response to a request for the commands of a session.

    Attributes:
        deadline, drain_at, expires_at: loop times at which it is cycled, is drained, or loses its
            token.
    """

    def __init__(
        self,
        hub: Hub,
        sid: str,
        host: str,
        reader: Principal,
        *,
        takeover: bool,
        cursor: CommandCursor | None,
    ) -> None:
        """Say who wants to be the host of what.

        Args:
            hub: the hub.
            sid: the session, which the reader may publish to.
            host: the host's own name, under which it takes its lease back.
            reader: who asks.
            takeover: whether to replace another host.
            cursor: place up to which this host has the commands; None for those not acknowledged.
        """
        self.deadline: float | None = None
        self.drain_at: float | None = None
        self.expires_at: float | None = None
        self._hub = hub
        self._sid = sid
        self._host = host
        self._reader = reader
        self._takeover = takeover
        self._cursor = cursor
        self._ending: EndReason | None = None
        self._bell: Bell | None = None

    def end(self, reason: EndReason) -> None:
        """Have it end; returns at once."""
        self._ending = self._ending or reason
        if self._bell is not None:
            self._bell.ring()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the lease and stream, or answer why not.

        Raises:
            HubError: before the response has started; see `routes/commands.py`.
        """
        hub = self._hub
        with hub.connected(self._reader.id):
            lease = await hub.hosts.attach(self._sid, self._host, takeover=self._takeover)
            try:
                channel = hub.feed.channel(self._sid)
                with channel.bell(partial(_concerns, lease)) as self._bell:
                    await hub.feed.confirm(channel)
                    hub.watch_clock(self, _seconds_left(self._reader))
                    await self._stream(lease, self._bell, scope, receive, send)
            finally:
                hub.forget_clock(self)
                with anyio.move_on_after(RELEASE_S, shield=True):
                    await self._release(lease)

    async def _stream(
        self, lease: Lease, bell: Bell, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, lease, bell)
            response = EventResponse(self._frames(lease, bell), self._hub.settings)
            await response(scope, receive, send)
            tasks.cancel_scope.cancel()

    async def _keep(self, lease: Lease, bell: Bell) -> None:
        """Renew the lease until it is lost."""
        while self._ending is None:
            await anyio.sleep(self._hub.settings.host_lease_s / RENEWALS)
            try:
                await self._hub.hosts.renew(lease)
            except HubError as error:
                self._failed(error)
            bell.ring()

    async def _frames(self, lease: Lease, bell: Bell) -> AsyncGenerator[bytes, None]:
        after = self._start(lease)
        yield _connected(lease, after)
        silent_since = anyio.current_time()
        while self._ending is None:
            handed = await self._take(lease, after)
            if handed is not None and handed.frames:
                yield b"".join([_command(*told) for told in handed.frames])
                silent_since = anyio.current_time()
            if handed is not None:
                after = handed.after
                if handed.more:
                    continue
            patience = silent_since + self._hub.settings.heartbeat_s - anyio.current_time()
            if handed is None:
                patience = min(patience, random.uniform(*REDIS_PAUSE_S))
            await bell.heard(patience)
            if anyio.current_time() - silent_since >= self._hub.settings.heartbeat_s:
                yield HEARTBEAT
                silent_since = anyio.current_time()
        yield disconnecting(self._ending)

    def _start(self, lease: Lease) -> int:
        """Number after which this host gets commands: a place of its own must be one of ours."""
        cursor = self._cursor
        if cursor is None or cursor.epoch != lease.epoch or cursor.n > lease.newest:
            return lease.after
        return max(lease.after, cursor.n)

    async def _take(self, lease: Lease, after: int) -> Handed | None:
        """Read on; None while Redis is away or where that ends the stream."""
        try:
            return await self._hub.commands.take(self._sid, lease.number, after)
        except HubError as error:
            self._failed(error)
            return None

    def _failed(self, error: HubError) -> None:
        if isinstance(error, LeaseLost):
            self.end("lease_lost")
        elif isinstance(error, SessionDeleted):
            self.end("deleted")
        elif not isinstance(error, StoreUnavailable | StorageFull):
            logger.warning("a host's stream ends: %s", error.code)
            self.end("error")

    async def _release(self, lease: Lease) -> None:
        try:
            await self._hub.hosts.release(lease)
        except HubError as error:
            logger.debug("a lease was not given back: %s", error.code)


def _concerns(lease: Lease, news: News) -> bool:
    """Whether there is something to read: a new command, or another host's lease."""
    if isinstance(news, HostNews):
        return news.lease != lease.number
    return any(change.status == "accepted" for change in news.changes)


def _connected(lease: Lease, after: int) -> bytes:
    cursor = str(CommandCursor(lease.epoch, after))
    return control_frame(
        "connected",
        {"lease": lease.number, "cursor": cursor, "expires_at": rfc3339(lease.expires_ms)},
        event_id=cursor,
        retry_ms=random.randint(*RETRY_MS),
    )


def _command(cursor: CommandCursor, data: bytes) -> bytes:
    return event_frame(data, name="command", event_id=str(cursor))


def _seconds_left(reader: Principal) -> float | None:
    return None if reader.expires_at is None else reader.expires_at - time.time()
