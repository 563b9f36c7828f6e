"""Decoding of an event stream, sans-I/O (WHATWG HTML §9.2.5 and §9.2.6).

Bytes go in as they arrive, events come out; how the stream was cut into chunks never matters.
Opens no connection, knows no event type and decides nothing about reconnecting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sessionwire.errors import EventTooLarge

__all__ = ["MAX_EVENT_BYTES", "SSEDecoder", "ServerSentEvent"]

MAX_EVENT_BYTES: Final = 32 * 2**20
"""Four times the hub's largest event, so that a frame that carries several still fits."""

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event.

    Attributes:
        type: the `event` field, `message` where there was none.
        data: the `data` lines joined by line feeds.
        last_event_id: the stream's last event ID as of this event, also when an earlier event set
            it; empty while none did.
        members: `data` parsed, where that had to be done already.
    """

    type: str
    data: str
    last_event_id: str
    members: dict[str, Any] | None = field(default=None, compare=False, repr=False)


class SSEDecoder:
    """Decode one response body. A new connection needs a new decoder."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        """Begin at the start of a stream.

        Args:
            max_event_bytes: bound on the bytes of one event, all its lines and an unfinished one
                together; comments count while they are being read.
        """
        self.last_event_id = ""
        """The last event ID string: set by complete events only, so a reconnection may send it."""
        self.retry_ms: int | None = None
        """The reconnection time the stream last asked for, in milliseconds."""
        self._max_event_bytes = max_event_bytes
        self._opening: bytes | None = b""
        self._skip_line_feed = False
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._event_bytes = 0
        self._data: list[str] = []
        self._type = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes of the stream and return the events they complete.

        An event that the stream leaves unfinished is never returned: stop feeding and it is gone.

        Raises:
            EventTooLarge: an event or a line is above the bound. The decoder is of no use then.
        """
        if self._opening is not None:
            chunk = self._strip_bom(chunk)
        if self._skip_line_feed and chunk:
            self._skip_line_feed = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        lines = (b"".join(self._partial) + chunk).splitlines(keepends=True)
        self._partial, self._partial_bytes = [], 0
        last = lines.pop() if lines[-1][-1:] not in (b"\n", b"\r") else b""
        # The line feed of a CRLF may still be on its way; the line itself is complete.
        self._skip_line_feed = not last and lines[-1].endswith(b"\r")
        events = [event for line in lines if (event := self._line(line.rstrip(b"\r\n")))]
        self._keep(last)
        return events

    def _strip_bom(self, chunk: bytes) -> bytes:
        opening = (self._opening or b"") + chunk
        if len(opening) < len(_BOM) and _BOM.startswith(opening):
            self._opening = opening
            return b""
        self._opening = None
        return opening.removeprefix(_BOM)

    def _keep(self, partial: bytes) -> None:
        if partial:
            self._partial.append(partial)
            self._partial_bytes += len(partial)
            self._check_size(self._partial_bytes)

    def _check_size(self, more: int) -> None:
        if self._event_bytes + more > self._max_event_bytes:
            raise EventTooLarge(self._max_event_bytes)

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        self._check_size(len(line))
        if line.startswith(b":"):
            return None
        self._event_bytes += len(line)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        self._field(name, value.removeprefix(" "))
        return None

    def _field(self, name: str, value: str) -> None:
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._type = value
            case "id":
                if "\0" not in value:
                    self._id = value
            case "retry":
                if value.isascii() and value.isdigit():
                    # Python refuses to read numbers of thousands of digits; nobody means them.
                    self.retry_ms = int(value.lstrip("0")[:18] or "0")
            case _:
                pass

    def _dispatch(self) -> ServerSentEvent | None:
        data, type_ = self._data, self._type
        self._data, self._type, self._event_bytes = [], "", 0
        self.last_event_id = self._id
        if not data:
            return None
        return ServerSentEvent(type_ or "message", "\n".join(data), self.last_event_id)
