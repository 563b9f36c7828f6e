"""An event stream on any ASGI server: frames pulled out of a generator, sent as they come.

sse-starlette's response as the hub needs it. It owns how such a stream ends: by its own generator,
which says `disconnecting`, and not by whoever hears of the shutdown first (protocol.md §6.2); and
cut where its client reads nothing for `send_timeout_s` (§6.6).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable
from typing import Final

from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.types import Receive, Scope, Send

from sessionwire_server.sender import offered_transport
from sessionwire_server.settings import Settings

__all__ = ["RAW_HEADERS", "EventResponse", "told_of_the_end"]

logger = logging.getLogger(__name__)

RAW_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

GRACE_S: Final = 1.0
"""What a stream gets beyond `drain_s` for its last words."""


class EventResponse(EventSourceResponse):
    """Sends whole frames until there are no more, the client is gone or reads nothing."""

    def __init__(self, frames: AsyncIterable[bytes], settings: Settings) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            frames,
            ping=0,
            sep="\n",
            send_timeout=settings.send_timeout_s,
            # Under uvicorn it hears of SIGTERM itself and would cut what the hub lets say goodbye.
            shutdown_grace_period=settings.drain_s + GRACE_S,
        )
        # Ours alone: it adds a hop-by-hop `Connection`, which HTTP/2 forbids.
        self.raw_headers = list(RAW_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all; a client that reads nothing is no fault of the hub's."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            logger.debug("a stream was cut: its client reads nothing")
            sender = offered_transport(scope)
            if sender is not None:  # else the server would wait for what it has buffered
                sender.abort()
                await told_of_the_end(receive)


async def told_of_the_end(receive: Receive) -> None:
    """Wait until the server knows, too, that a connection is gone.

    A write finds out first; to leave before the server does is a fault in its eyes.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
