"""The demo's agent: publishes prepared events in time, in batches as an agent's SDK would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from sessionwire._event_reader import ReadEvent
from sessionwire._http import HubAddress, client
from sessionwire._publish import Publisher, batches

if TYPE_CHECKING:
    from sessionwire_server.workload import Paced

__all__ = ["Agent"]

BATCH_S: Final = 0.03
"""What is due within this goes in one request."""

PATIENCE_S: Final = 5.0
"""The hub is in this very process: if it is away for longer, it does not come back."""


class Agent:
    """Publishes one session.

    Attributes:
        published: how many events the hub has taken so far.
    """

    def __init__(self, address: HubAddress, session: str, events: Sequence[Paced]) -> None:
        self.published = 0
        self._address = address
        self._session = session
        self._events = events
        self._moved = anyio.Event()

    async def run(self, speed: float) -> None:
        """Publish everything, `speed` times as fast as its pauses say.

        Raises:
            HubError: the hub does not take it.
        """
        with client(self._address) as http:
            publisher = Publisher(http, self._session, patience_s=PATIENCE_S)
            start, due_s = anyio.current_time(), 0.0
            pending: list[Paced] = []
            for paced in self._events:
                due_s += paced.pause_ms / 1000 / speed
                if start + due_s - anyio.current_time() > BATCH_S:
                    await self._send(publisher, pending)
                    pending = []
                    await anyio.sleep_until(start + due_s)
                pending.append(paced)
            await self._send(publisher, pending)

    async def _send(self, publisher: Publisher, pending: Sequence[Paced]) -> None:
        events = [ReadEvent(json.dumps(paced.event), paced.event, 0) for paced in pending]
        for batch in batches(events, "copilot"):
            await anyio.to_thread.run_sync(publisher.send, batch)
        self.published += len(pending)
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def reached(self, count: int) -> None:
        """Wait until so many events are published."""
        while self.published < min(count, len(self._events)):
            await self._moved.wait()
