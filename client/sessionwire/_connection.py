"""One connection to an event stream: a response, its decoder, and how it ends.

Lives from a 200 to the end of its bytes. Does not reconnect and does not know what frames mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
import httpx2

from sessionwire._http import rejected_async
from sessionwire._reconnect import Outcome, classify_status
from sessionwire._sse import ServerSentEvent, SSEDecoder
from sessionwire.errors import ProtocolError, RequestRejected

__all__ = ["Connection", "open_connection"]

CLOSE_TIMEOUT_S: Final = 2.0
"""How long a connection may take to close before it is left behind."""

CONNECT_TIMEOUT_S: Final = 10.0

_HEADERS: Final = {
    "Accept": "text/event-stream",
    # Compression buffers, and a stream that is buffered is late.
    "Accept-Encoding": "identity",
    "Cache-Control": "no-store",
}


class Connection:
    """An open event stream."""

    def __init__(self, response: httpx2.Response, max_event_bytes: int) -> None:
        self._response = response
        self._chunks = response.aiter_bytes()
        self._decoder = SSEDecoder(max_event_bytes=max_event_bytes)

    @property
    def retry_ms(self) -> int | None:
        """The reconnection time the stream last asked for."""
        return self._decoder.retry_ms

    async def frames(self) -> list[ServerSentEvent] | None:
        """Wait for bytes and return the frames they complete, maybe none; None at the end.

        Raises:
            httpx2.TransportError: the connection broke, or was silent for the idle timeout.
            EventTooLarge: an event is above the bound.
        """
        chunk = await anext(self._chunks, None)
        return None if chunk is None else self._decoder.feed(chunk)

    async def aclose(self) -> None:
        """Close the connection, also when the task is being cancelled."""
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await self._chunks.aclose()
            await self._response.aclose()


async def open_connection(
    http: httpx2.AsyncClient,
    path: str,
    params: Sequence[tuple[str, str]],
    *,
    idle_timeout_s: float,
    max_event_bytes: int,
) -> Connection | RequestRejected | None:
    """Ask for a stream.

    Args:
        idle_timeout_s: silence after which a read fails, the wait for the headers included.

    Returns: the connection, the hub's refusal, or None where it says that nothing will ever come.

    Raises:
        httpx2.HTTPError: no answer.
        ProtocolError: an answer that is not an event stream.
    """
    timeout = httpx2.Timeout(idle_timeout_s, connect=CONNECT_TIMEOUT_S)
    request = http.build_request(
        "GET", path, params=list(params), headers=_HEADERS, timeout=timeout
    )
    response = await http.send(request, stream=True)
    try:
        outcome = classify_status(response.status_code)
        if outcome is Outcome.OPEN:
            _check_content_type(response)
            return Connection(response, max_event_bytes)
        refusal = None if outcome is Outcome.END else await rejected_async(response)
    except BaseException:
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await response.aclose()
        raise
    await response.aclose()
    return refusal


def _check_content_type(response: httpx2.Response) -> None:
    content_type = response.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "text/event-stream":
        raise ProtocolError(f"{response.request.url.path} is no event stream: {content_type!r}")
