"""How many long reads may go on at once (protocol.md §5, setting `max_scans`).

A read that one page answers is no scan and never refused. One that reads on needs a place: before
its answer has begun it is refused when all are taken, afterwards it waits for its turn, so that a
client that reads slowly keeps nobody out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from sessionwire_server.errors import HubError
from sessionwire_server.metrics import Metrics

__all__ = ["Scans"]


class Scans:
    """The places for long reads of one hub process."""

    def __init__(self, places: int, metrics: Metrics) -> None:
        self._semaphore = anyio.Semaphore(places)
        self._metrics = metrics

    def enter(self) -> None:
        """Take a place now; give it back with `leave`.

        Raises:
            HubError: 429 `busy`.
        """
        try:
            self._semaphore.acquire_nowait()
        except anyio.WouldBlock:
            self._metrics.scans_refused += 1
            raise HubError(
                429, "busy", "too many long reads at once", headers={"Retry-After": "1"}
            ) from None

    def leave(self) -> None:
        """Give a place back."""
        self._semaphore.release()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a place and hold it for the block."""
        async with self._semaphore:
            yield
