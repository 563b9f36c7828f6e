"""How bytes reach a viewer's socket: straight to the server's transport.

`TransportSender` is used where the server is uvicorn with httptools, whose request cycle shows its
transport and flow control. Everywhere else a stream is pulled by `EventSourceResponse`, which needs
nothing of this. It owns the smallest possible piece: body bytes between the response's start and
its end, both of which go through ASGI, so the cycle's own state stays right.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from starlette.types import Scope, Send

from sessionwire_server.audience import Flow, Wire, chunked, plain

__all__ = ["TransportSender", "offer_transport", "offered_transport"]

_KEY = "sessionwire.cycle"
_NEEDED = ("transport", "flow", "disconnected", "chunked_encoding", "response_started")


class _Cycle(Protocol):
    transport: asyncio.Transport
    flow: Flow
    disconnected: bool
    chunked_encoding: bool | None
    response_started: bool


def offer_transport(scope: Scope, send: Send) -> None:
    """Note in the scope what the server's own `send` belongs to, if it shows its transport.

    Called by the outermost application, the only one to see the server's `send` unwrapped.
    """
    cycle = getattr(send, "__self__", None)
    known = type(cycle).__module__ == "uvicorn.protocols.http.httptools_impl"
    if known and all(hasattr(cycle, name) for name in _NEEDED):
        scope[_KEY] = cycle


def offered_transport(scope: Scope) -> TransportSender | None:
    """Give a sender to the transport that was offered, None where there is none.

    A scope that middleware replaced by a copy still offers it; one whose `send` is wrapped by
    somebody else's middleware is offered the bare transport all the same, so middleware that
    rewrites bodies must not be put around event streams. It never sees them.
    """
    cycle = scope.get(_KEY)
    return None if cycle is None else TransportSender(cast(_Cycle, cycle))


class TransportSender:
    """Writes body bytes to the transport of a response that has been started."""

    __slots__ = ("_cycle", "_flow", "_transport")

    def __init__(self, cycle: _Cycle) -> None:
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = cycle.transport

    @property
    def wire(self) -> Wire:
        """What the fan-out writes with, without the checks of `write`."""
        return Wire(self._transport.write, self._flow)

    @property
    def framing(self) -> Callable[[bytes], bytes]:
        """How bytes are framed for `write`: known once the response has been started."""
        return chunked if self._cycle.chunked_encoding else plain

    @property
    def started(self) -> bool:
        """Whether the response's start has come to the server; only then may be written."""
        return self._cycle.response_started

    @property
    def paused(self) -> bool:
        """Whether the transport's buffer is over its high-water mark."""
        return self._flow.write_paused

    @property
    def buffered(self) -> int:
        """Bytes that the transport holds."""
        return self._transport.get_write_buffer_size()

    @property
    def closed(self) -> bool:
        """Whether the connection is gone."""
        return self._cycle.disconnected or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Hand framed bytes to the transport; never blocks, writes nothing to a closed one."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the buffer is below its low-water mark or the connection is gone."""
        await self._flow.drain()

    def limit_silence(self, seconds: float) -> None:
        """Have the kernel give up on a peer that acknowledges nothing for so long (Linux)."""
        sock = self._transport.get_extra_info("socket")
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if option is None or sock is None or sock.family == socket.AF_UNIX:
            return
        # The client may be gone already: then uvloop has no descriptor left to set it on.
        with suppress(OSError, ValueError):
            sock.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))

    def abort(self) -> None:
        """Cut the connection without waiting for what is buffered."""
        self._transport.abort()
