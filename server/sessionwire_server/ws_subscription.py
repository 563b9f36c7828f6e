"""One session on one WebSocket: a viewer, written to by the connection's writer (protocol.md §7).

Replay, order and filters are the viewer's, as on SSE. Viewers of one connection that are behind
pull by turns, each a chunk at a time, so that what a slow connection holds does not grow with the
number of sessions it follows; while it is full nobody writes to it.
"""

from __future__ import annotations

from contextlib import ExitStack, aclosing

import anyio
from starlette.types import Message

from sessionwire_server.viewer import EndReason, Viewer
from sessionwire_server.ws_sender import AsgiOutlet, TransportOutlet

__all__ = ["Subscription"]

PATIENCE_S = 0.5
"""How long one viewer waits for Redis before another one of its connection has the turn."""


class Subscription:
    """A session that a connection follows.

    Args:
        viewer: has its place already.
        held: what is given back when it ends: the viewer's membership, its count.
    """

    def __init__(self, viewer: Viewer, held: ExitStack) -> None:
        self._viewer = viewer
        self._held = held
        self._scope = anyio.CancelScope()
        self._left = False

    def leave(self) -> None:
        """Stop following: nothing is put after this."""
        self._left = True
        self._scope.cancel()
        self._held.close()

    async def deliver(
        self, outlet: TransportOutlet | AsgiOutlet, turns: anyio.Semaphore
    ) -> EndReason | None:
        """Deliver until the viewer ends, and why; None if it was left or the connection is over.

        Raises:
            Gone, Slow: as `Outlet.put`.
        """
        with self._scope:
            if isinstance(outlet, TransportOutlet):
                await self._written(outlet, turns)
            else:
                await self._sent(outlet)
        return None if self._left else self._viewer.ending

    async def _sent(self, outlet: AsgiOutlet) -> None:
        async with aclosing(self._viewer.chunks()) as chunks:
            async for data in chunks:
                if self._left:
                    return
                await outlet.put(data)

    async def _written(self, outlet: TransportOutlet, turns: anyio.Semaphore) -> None:
        viewer = self._viewer
        viewer.beat_s = min(viewer.beat_s, PATIENCE_S)
        while viewer.ending is None and not outlet.closed and not self._left:
            await self._pull(outlet, turns)
            if viewer.is_live:
                await viewer.sleep(_never)

    async def _pull(self, outlet: TransportOutlet, turns: anyio.Semaphore) -> None:
        """Write chunks, one a turn, until the viewer is live or ends or the connection is over."""
        viewer = self._viewer
        async with aclosing(viewer.chunks()) as chunks:
            while not self._left:
                async with turns:
                    if outlet.paused and not await viewer.drained(outlet):
                        return
                    data = await anext(chunks, None)
                    if data is None:
                        # Run out, and nothing was awaited since: this is still the head.
                        if viewer.ending is None and not outlet.closed and not self._left:
                            viewer.go_live(outlet)
                        return
                    outlet.write(data)


async def _never() -> Message:
    """Receive nothing: the connection reads for all of its viewers."""
    await anyio.sleep_forever()
    raise AssertionError
