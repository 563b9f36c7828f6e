"""uvicorn's WebSocket protocol as a hub runs it (protocol.md §7).

Owns what uvicorn does differently from what a hub promises: a hub says by itself why it closes,
drains its connections over a while, holds nothing for a peer that asks and does not read, and takes
a peer that answers no ping for gone.
"""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

__all__ = ["WebSocketProtocol"]

CUT_S: Final = 5.0
"""How long what is buffered for a peer that answers no ping may still take."""
LAST_CLOSE_S: Final = 1.0
"""How long the answer to a close is waited for while the server ends."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._late_pong = b""
        self._parts = bytearray()

    def shutdown(self) -> None:
        """Leave an open connection to the hub, which drains it with a farewell and 4000."""
        self.close_timeout = LAST_CLOSE_S
        if not self.handshake_complete or self.close_sent:
            super().shutdown()

    def handle_ping(self) -> None:
        """Answer, but hold no more than the latest answers for a peer that does not read."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)
        elif pong:
            self._late_pong = pong

    def resume_writing(self) -> None:
        """Let writers go on, after the answer that is owed."""
        pong, self._late_pong = self._late_pong, b""
        if pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(pong)
        super().resume_writing()

    def keepalive_timeout(self) -> None:
        """Tell the application at once, and cut what a dead peer will never take."""
        was_open = not self.close_sent and not self.transport.is_closing()
        super().keepalive_timeout()
        if was_open:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006, "reason": ""})
            self.loop.call_later(CUT_S, self.transport.abort)

    def handle_cont(self, event: Frame) -> None:
        """Join the parts of a message as they come: many small ones must not cost more than one."""
        for first in self.frames:
            self._parts = bytearray(first)
        self.frames = []
        self._parts += event.data
        if event.fin:
            self.frames, self._parts = [bytes(self._parts)], bytearray()
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Close with 1007 what is no UTF-8; whatever a client sends is no fault of the hub's."""
        if self.curr_msg_data_type == "text":
            try:
                self.frames[0].decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.fail(1007, "not UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()
