"""How messages reach a WebSocket: one writer for all that a connection carries (protocol.md §7).

`TransportOutlet` writes ready-made frames to the transport of uvicorn's sans-I/O protocol, where
that shows it: many frames a write, and none made twice. `AsgiOutlet` sends message by message on
any ASGI server. Opening, closing, ping and pong are the protocol's own in both; it has nothing
unsent while a frame is written past it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

import anyio
from starlette.types import Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from sessionwire_schemas.close_codes import CloseCode
from sessionwire_server.audience import Wire
from sessionwire_server.rpc_spelling import line, text_frame

__all__ = [
    "CLOSE_S",
    "AsgiOutlet",
    "Gone",
    "Outlet",
    "Slow",
    "TransportOutlet",
    "offer_websocket",
    "offered_outlet",
]

_KEY = "sessionwire.websocket"
_NEEDED = ("transport", "writable", "conn", "close_sent", "disconnected")

CLOSE_S = 5.0
"""How long a peer that reads nothing is left to take what is buffered and the close behind it."""


class Gone(Exception):
    """The connection is over; there is nobody to tell."""


class Slow(Exception):
    """The peer takes nothing for `send_timeout_s`; the connection is to be closed with 4001."""


class _Connection(Protocol):
    """What is used of `websockets.protocol.Protocol`."""

    max_message_size: int | None

    def send_close(self, code: int, reason: str = "") -> None: ...
    def data_to_send(self) -> list[bytes]: ...


class _Protocol(Protocol):
    """What is used of uvicorn's `WebSocketsSansIOProtocol`."""

    transport: asyncio.Transport
    writable: asyncio.Event
    conn: _Connection
    close_sent: bool
    disconnected: bool


def offer_websocket(scope: Scope, send: Send) -> None:
    """Note in a WebSocket's scope what the server's own `send` belongs to, if it shows it.

    Called by the outermost application, the only one to see the server's `send` unwrapped.
    """
    protocol = getattr(send, "__self__", None)
    known = any(
        base.__module__ == "uvicorn.protocols.websockets.websockets_sansio_impl"
        for base in type(protocol).__mro__
    )
    if scope["type"] == "websocket" and known and all(hasattr(protocol, n) for n in _NEEDED):
        scope[_KEY] = protocol


def offered_outlet(websocket: WebSocket, send_timeout_s: float) -> TransportOutlet | None:
    """Give an outlet to the transport that was offered, None where there is none."""
    protocol = websocket.scope.get(_KEY)
    if protocol is None or getattr(protocol.conn, "extensions", None):
        return None  # compression is made per connection: its frames cannot be shared
    return TransportOutlet(cast(_Protocol, protocol), send_timeout_s)


class Outlet(Protocol):
    """The writer of a connection.

    Attributes:
        framing: what a message goes through before it is put.
    """

    framing: Callable[[bytes], bytes]

    @property
    def closed(self) -> bool:
        """Whether the connection is over."""
        ...

    async def put(self, data: bytes) -> None:
        """Write framed messages and wait until there is room for more.

        Raises:
            Gone: the connection is over.
            Slow: it takes nothing.
        """
        ...

    def limit_messages(self, max_bytes: int) -> None:
        """Have the protocol refuse longer messages with 1009, where it can be told."""
        ...


class _Flow:
    """Flow control of a protocol that shows an event instead of a flag."""

    __slots__ = ("_writable",)

    def __init__(self, writable: asyncio.Event) -> None:
        self._writable = writable

    @property
    def write_paused(self) -> bool:
        return not self._writable.is_set()

    async def drain(self) -> None:
        await self._writable.wait()


class TransportOutlet:
    """Writes frames to the transport of an accepted WebSocket. Also a viewer's `Sender`."""

    framing = staticmethod(text_frame)

    def __init__(self, protocol: _Protocol, send_timeout_s: float) -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self._flow = _Flow(protocol.writable)
        self._send_timeout_s = send_timeout_s

    @property
    def wire(self) -> Wire:
        """What the fan-out writes with, without the checks of `write`."""
        return Wire(self._transport.write, self._flow)

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
        """Whether the connection is over, or about to be."""
        protocol = self._protocol
        return protocol.close_sent or protocol.disconnected or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Hand frames to the transport; never blocks, writes nothing to a closed one."""
        if data and not self.closed:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the buffer is below its low-water mark or the connection is gone."""
        await self._flow.drain()

    async def put(self, data: bytes) -> None:
        """Write frames and wait for room; see `Outlet.put`."""
        if self.closed:
            raise Gone
        self._transport.write(data)
        left = self.buffered
        while self.paused and not self.closed:
            with anyio.move_on_after(self._send_timeout_s):
                await self.drain()
                continue
            if self.buffered >= left:
                self.abort()
                raise Slow
            left = self.buffered
        if self.closed:
            raise Gone

    def limit_messages(self, max_bytes: int) -> None:
        """Set the limit of messages that begin from now on."""
        self._protocol.conn.max_message_size = max_bytes

    def limit_silence(self, seconds: float) -> None:
        """Have the kernel give up on a peer that acknowledges nothing for so long (Linux)."""
        sock = self._transport.get_extra_info("socket")
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if option is None or sock is None or sock.family == socket.AF_UNIX:
            return
        with suppress(OSError, ValueError):  # gone already
            sock.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))

    def abort(self) -> None:
        """Close with 4001 behind what is buffered, and cut what does not get there in time."""
        if self.closed:
            return
        connection = self._protocol.conn
        connection.send_close(CloseCode.SLOW, "slow")
        self._transport.write(b"".join(connection.data_to_send()))
        self._protocol.close_sent = True
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)

    def cut(self) -> None:
        """End the connection now."""
        self._transport.abort()


class AsgiOutlet:
    """Sends messages one by one through ASGI, from whatever task."""

    framing = staticmethod(line)

    def __init__(self, websocket: WebSocket, send_timeout_s: float) -> None:
        self._websocket = websocket
        self._send_timeout_s = send_timeout_s
        self._turn = anyio.Lock()
        self._closed = False
        self._stuck = False

    @property
    def closed(self) -> bool:
        """Whether a message could not be sent."""
        return self._closed

    async def put(self, data: bytes) -> None:
        """Send messages, each ended by a line break; see `Outlet.put`."""
        async with self._turn:
            for message in data.splitlines():
                await self._send(message.decode())

    async def _send(self, text: str) -> None:
        if self._stuck:
            raise Slow
        if self._closed:
            raise Gone
        try:
            with anyio.fail_after(self._send_timeout_s):
                await self._websocket.send_text(text)
        except TimeoutError:
            self._stuck = True
            raise Slow from None
        except (WebSocketDisconnect, RuntimeError, OSError):
            self._closed = True
            raise Gone from None

    def limit_messages(self, max_bytes: int) -> None:
        """Leave it to the server; the connection looks at what it gets."""
