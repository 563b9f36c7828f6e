"""Which transport the next attempt takes. Decisions only."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sessionwire._transport import TransportName
from sessionwire.errors import HubError, WebSocketRefused

__all__ = ["Choice", "TransportChoice"]

TransportChoice: TypeAlias = Literal["auto", "sse", "websocket"]


class Choice:
    """The transport in use.

    `auto` begins with a WebSocket. Where one cannot be opened, the next attempt goes over SSE and
    the one after that over WebSocket again, until a transport speaks, which is then kept. Something
    that refuses WebSockets as such is not asked for one again.

    Attributes:
        current: what the next attempt takes.
    """

    def __init__(self, choice: TransportChoice) -> None:
        self.current: TransportName = "sse" if choice == "sse" else "websocket"
        self._open = choice == "auto"

    def not_opened(self, error: HubError) -> bool:
        """Note that no line could be opened. Returns: whether another transport is to be tried."""
        if not self._open:
            return False
        if isinstance(error, WebSocketRefused):
            self.current, self._open = "sse", False
            return True
        self.current = "sse" if self.current == "websocket" else "websocket"
        return False
