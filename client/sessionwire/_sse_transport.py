"""Following one session over an event stream (protocol.md §6)."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2

from sessionwire._connection import Connection, open_connection
from sessionwire._http import connection_failed, session_path
from sessionwire._sse import ServerSentEvent
from sessionwire._transport import Start, Wanted
from sessionwire.errors import ConnectionFailed, RequestRejected, SessionDeleted

__all__ = ["SSETransport"]


class SSETransport:
    """Opens event streams of one session."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        session_id: str,
        *,
        idle_timeout_s: float,
        max_event_bytes: int,
    ) -> None:
        self._http = http
        self._path = session_path(session_id, "sse")
        self._idle_timeout_s = idle_timeout_s
        self._max_event_bytes = max_event_bytes

    async def open(self, start: Start, wanted: Wanted) -> SSELine:
        """Open an event stream with the hub's own frames; see `Transport.open`."""
        try:
            answer = await open_connection(
                self._http,
                self._path,
                [("control", "1"), *start.params(), *wanted.params()],
                idle_timeout_s=self._idle_timeout_s,
                max_event_bytes=self._max_event_bytes,
            )
        except httpx2.HTTPError as exc:
            raise connection_failed(self._http.base_url, exc) from exc
        if answer is None:
            raise SessionDeleted(410, "session_deleted", "nothing will ever come")
        if isinstance(answer, RequestRejected):
            raise answer
        return SSELine(answer, str(self._http.base_url))


class SSELine:
    """One open event stream; see `Line`."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url

    @property
    def retry_ms(self) -> int | None:
        """The reconnection time the stream last asked for."""
        return self._connection.retry_ms

    async def frames(self) -> Sequence[ServerSentEvent]:
        """Wait for bytes and return the frames they complete; see `Line.frames`."""
        try:
            frames = await self._connection.frames()
        except httpx2.HTTPError as exc:
            raise connection_failed(self._url, exc) from exc
        if frames is None:
            raise ConnectionFailed(self._url, "the connection ended", "dropped")
        return frames

    async def aclose(self) -> None:
        """Close it, also when the task is being cancelled."""
        await self._connection.aclose()
