"""The dialect of WebSockets: JSON-RPC notifications of one session (protocol.md §7). Pure.

The bytes for an event name the session, not the connection, so all connections that follow it share
them. Silence is broken by the pings of the protocol below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from sessionwire_schemas.rpc import event_notification, notification
from sessionwire_server.audience import State
from sessionwire_server.entries import StoredEvent

__all__ = ["RpcSpelling", "line", "text_frame"]

_FIN_TEXT = 0x81
_MEDIUM, _LARGE = 126, 127


def text_frame(message: bytes) -> bytes:
    """Frame a message as one unmasked text frame, as servers send it (RFC 6455 §5.2)."""
    size = len(message)
    if size < _MEDIUM:
        return b"%c%c%b" % (_FIN_TEXT, size, message)
    if size < 2**16:
        return b"%c%c%b%b" % (_FIN_TEXT, _MEDIUM, size.to_bytes(2), message)
    return b"%c%c%b%b" % (_FIN_TEXT, _LARGE, size.to_bytes(8), message)


def line(message: bytes) -> bytes:
    """Mark where a message ends, for servers that frame by themselves: none has a line break."""
    return message + b"\n"


class RpcSpelling(NamedTuple):
    """Notifications of the session `sid`, each framed by itself."""

    sid: str
    framing: Callable[[bytes], bytes]

    @property
    def heartbeat(self) -> bytes:
        """Nothing: the server pings."""
        return b""

    def encode(self, event: StoredEvent, epoch: str) -> bytes:
        """Spell one event."""
        cursor = f"{epoch}.{event.sequence}.{event.offset}.{event.check}"
        sequence = event.sequence if event.durable else None
        return self.framing(event_notification(self.sid, cursor, sequence, event.body))

    def own(self, name: str, data: dict[str, Any], *, cursor: str | None = None) -> bytes:
        """Spell one of the hub's own; those that have a cursor have it in their data already."""
        params = msgspec.json.encode({"session_id": self.sid, **data})
        return self.framing(notification(f"session.{name}", params))

    def snapshot(self, bodies: Sequence[bytes]) -> bytes:
        """Spell the last values."""
        events = [msgspec.Raw(body) for body in bodies]
        return self.own("snapshot", {"events": events})

    def state(self, state: State) -> bytes:
        """Spell a state: the object with the session's name before its own members."""
        params = b'{"session_id":"%b",%b' % (self.sid.encode(), state.data[1:])
        return self.framing(notification(f"session.{state.name}", params))
