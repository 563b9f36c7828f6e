"""uvicorn's HTTP protocol as a hub runs it: what nobody has authenticated yet is bounded.

Owns what llhttp and uvicorn hold without bound: the head of a request, its trailers and chunk
extensions, and the time that a head may take.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_S", "MAX_HEAD_BYTES", "HttpProtocol"]

MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes without a whole head or a piece of a body; more are 431. One read may go beyond it."""

HEAD_S: Final = 30.0
"""How long a head may take, from the connection or from its own first byte."""

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fruitless = 0
        """Bytes read since the last that were of use."""
        self._head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a head in time."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._head_is_done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless too much of it has led to nothing."""
        self._fruitless += len(data)
        super().data_received(data)
        if self._fruitless > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        """Expect the rest of a head."""
        super().on_message_begin()
        if self._head_due is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Serve the request."""
        self._fruitless = 0
        self._head_is_done()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body on."""
        self._fruitless = 0
        super().on_body(body)

    def _expect_head(self) -> None:
        self._head_due = self.loop.call_later(HEAD_S, self._give_up)

    def _head_is_done(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _give_up(self) -> None:
        self._head_due = None
        if self._is_answering:
            # A next request was begun behind one that is served: that one is not to suffer.
            self._expect_head()
        else:
            self.transport.close()

    def _refuse(self) -> None:
        if self._is_answering:
            # Whatever is said now would stand in the middle of another answer.
            self.transport.abort()
            return
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    @property
    def _is_answering(self) -> bool:
        # None before the first request, whatever uvicorn's annotation says.
        return bool(self.cycle) and not self.cycle.response_complete
