"""The stream of a session's commands to its host (protocol.md §9).

Opening it is becoming the host: the lease is taken before the response begins. Owns how commands
are spelled for an event stream and how that ends; the lease and the reading are `attached_host`.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio
from starlette.types import Receive, Scope, Send

from sessionwire_schemas.frames import HEARTBEAT, control_frame, event_frame
from sessionwire_server.access import Principal
from sessionwire_server.attached_host import AttachedHost, attached
from sessionwire_server.commands import CommandCursor
from sessionwire_server.event_response import EventResponse
from sessionwire_server.event_stream import RETRY_MS, EndReason, disconnecting

if TYPE_CHECKING:
    from sessionwire_server.hub import Hub

__all__ = ["HostStream"]


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
        self._reader = reader
        self._attached = attached(hub, sid, host, takeover=takeover, cursor=cursor)
        self._host: AttachedHost | None = None

    def end(self, reason: EndReason) -> None:
        """Have it end; returns at once."""
        if self._host is not None:
            self._host.end(reason)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the lease and stream, or answer why not.

        Raises:
            HubError: before the response has started; see `routes/commands.py`.
        """
        hub = self._hub
        with hub.connected(self._reader.id):
            async with self._attached as host:
                self._host = host
                hub.watch_clock(self, _seconds_left(self._reader))
                try:
                    await self._stream(host, scope, receive, send)
                finally:
                    hub.forget_clock(self)

    async def _stream(self, host: AttachedHost, scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.keep)
            response = EventResponse(self._frames(host), self._hub.settings)
            await response(scope, receive, send)
            tasks.cancel_scope.cancel()

    async def _frames(self, host: AttachedHost) -> AsyncGenerator[bytes, None]:
        heartbeat_s = self._hub.settings.heartbeat_s
        yield _connected(host)
        silent_since = anyio.current_time()
        while host.ending is None:
            is_due = await host.is_due(silent_since + heartbeat_s - anyio.current_time())
            told = [_command(*command) for command in await host.take()] if is_due else []
            if (there := host.presence()) is not None:
                told.append(control_frame("presence", there))
            if told:
                yield b"".join(told)
            elif anyio.current_time() - silent_since >= heartbeat_s:
                yield HEARTBEAT
            else:
                continue
            silent_since = anyio.current_time()
        yield disconnecting(host.ending)


def _connected(host: AttachedHost) -> bytes:
    told = host.members()
    return control_frame(
        "connected", told, event_id=told["cursor"], retry_ms=random.randint(*RETRY_MS)
    )


def _command(cursor: CommandCursor, data: bytes) -> bytes:
    return event_frame(data, name="command", event_id=str(cursor))


def _seconds_left(reader: Principal) -> float | None:
    return None if reader.expires_at is None else reader.expires_at - time.time()
