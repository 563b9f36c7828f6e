"""A bell: how one task waits for news of a session without asking Redis again and again.

It is hung up at a channel before Redis is read, so news between the read and the wait still rings.
It carries nothing: whoever hears it reads what is true now.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from sessionwire_server.live_message import News

__all__ = ["Bell"]


class Bell:
    """Rings for the news that `wants` picks; rings in a row are one."""

    def __init__(self, wants: Callable[[News], bool]) -> None:
        self.wants = wants
        self._rung = anyio.Event()

    def ring(self) -> None:
        """Wake whoever waits, now or next."""
        self._rung.set()

    async def heard(self, seconds: float) -> bool:
        """Wait for a ring, at most so long; tell whether there was one."""
        with anyio.move_on_after(seconds) as patience:
            await self._rung.wait()
        if patience.cancelled_caught:
            return False
        self._rung = anyio.Event()
        return True
