"""Following a session (protocol.md §6 and §7): connect, read, resume.

Owns the cursor and the loop. How bytes come is a transport's, what a failure means is decided in
`_reconnect`, what a frame means in `_items`. Starts no task: everything happens inside `__anext__`,
so a consumer may take as long as it likes over an item, and cancelling it never loses one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import anyio
import httpx2

from sessionwire._choice import Choice, TransportChoice
from sessionwire._event import Event
from sessionwire._items import (
    Closing,
    Connected,
    Disconnected,
    Item,
    Reset,
    read_closing,
    read_frame,
)
from sessionwire._progress import Progress
from sessionwire._reconnect import Outcome, Reconnection, judge
from sessionwire._sse import MAX_EVENT_BYTES, ServerSentEvent
from sessionwire._sse_transport import SSETransport
from sessionwire._transport import Line, Start, Transport, TransportName, Wanted
from sessionwire.errors import ConnectionFailed, HubError, RequestRejected

__all__ = ["IDLE_TIMEOUT_S", "Follow", "Start", "Wanted", "follow"]

IDLE_TIMEOUT_S: Final = 45.0
"""3 × the hub's heartbeat (15 s), so that one late or lost heartbeat is not a drop."""


class Follow:
    """The items of a session, endlessly; made by `follow` and by `Session.watch`."""

    def __init__(
        self,
        transports: Mapping[TransportName, Transport],
        choice: TransportChoice,
        *,
        start: Start,
        wanted: Wanted,
        max_retries: int | None,
        connect_retries: int | None,
    ) -> None:
        self._transports = transports
        self._choice = Choice(choice)
        self._start = start
        self._wanted = wanted
        self._max_retries = max_retries
        self._bound = connect_retries if connect_retries is not None else max_retries
        self._progress = Progress()
        self._reconnection = Reconnection()
        self._wait_s = 0.0
        self._line: Line | None = None
        self._frames: deque[ServerSentEvent] = deque()
        self._closing: Closing | None = None
        self._ended = False

    @property
    def cursor(self) -> str:
        """The place just after the last item that was handed over, empty before the first.

        Moved in the very step that returns the item, so it never runs ahead of the consumer.
        """
        return self._progress.cursor

    @property
    def transport(self) -> TransportName:
        """What the connection, or the next attempt, goes over."""
        return self._choice.current

    @property
    def closed(self) -> bool:
        """Whether the iteration has ended."""
        return self._ended

    async def switch(self, transport: TransportChoice) -> None:
        """Go on over another transport, from the same place; loses and doubles nothing."""
        self._choice = Choice(transport)
        self._frames.clear()
        await self._close_line()
        self._closing = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            while not self._ended:
                item = self._take()
                if item is None:
                    item = await self._advance()
                if item is not None:
                    return item
        except HubError:
            await self.aclose()
            raise
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection and end the iteration. Closing twice is fine."""
        self._ended = True
        self._frames.clear()
        await self._close_line()

    def _take(self) -> Item | None:
        while self._frames:
            frame = self._frames.popleft()
            item = read_frame(frame)
            if isinstance(item, Event):
                if self._progress.take(item.cursor):
                    return item
                continue
            self._note(frame, item)
            if item is not None:
                return item
        return None

    def _note(self, frame: ServerSentEvent, item: Item | None) -> None:
        """Take what a frame of the hub's own says about the place and the connection."""
        if isinstance(item, Connected):
            self._reconnection.connected()
            self._bound = self._max_retries
        elsewhere = isinstance(item, Connected) and item.gap is not None
        if elsewhere or isinstance(item, Reset):
            self._progress.restart(frame.last_event_id)
        elif frame.last_event_id:
            self._progress.move(frame.last_event_id)
        self._closing = read_closing(frame) or self._closing

    async def _advance(self) -> Disconnected | None:
        """Do the next thing that takes time: wait, connect or read.

        Cancelled or failed, it leaves a state from which the next call resumes exactly.
        """
        try:
            if self._line is None:
                self._line = await self._connected()
                self._closing = None
                return None
            self._frames.extend(await self._line.frames())
        except HubError as error:
            opened = self._line is not None
            await self._close_line()
            return self._failed(error, opened=opened)
        except BaseException:
            await self._close_line()
            raise
        self._reconnection.retry_hint(self._line.retry_ms)
        return None

    async def _connected(self) -> Line:
        if self._wait_s:
            await anyio.sleep(self._wait_s)
            self._wait_s = 0.0
        start = Start(since_id=self.cursor) if self.cursor else self._start
        return await self._transports[self._choice.current].open(start, self._wanted)

    async def _close_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.aclose()

    def _failed(self, error: HubError, *, opened: bool) -> Disconnected | None:
        """Decide what follows the end of a connection, or of an attempt."""
        closing, self._closing = self._closing, None
        if closing is not None:
            self._ended = closing.reason == "deleted"
            self._reconnection.planned(closing.retry_ms)
            self._wait_s = self._reconnection.delay_s()
            return Disconnected(closing.reason, "", self._wait_s)
        outcome = judge(error)
        if outcome is Outcome.END:
            self._ended = True
            return None
        another = not opened and self._choice.not_opened(error)
        if outcome is Outcome.FATAL and not another:
            raise error
        if self._bound is not None and self._reconnection.failures >= self._bound and not another:
            raise error
        after_s = error.retry_after_s if isinstance(error, RequestRejected) else None
        self._wait_s = 0.0 if another else self._reconnection.delay_s(after_s)
        reason = error.failure if isinstance(error, ConnectionFailed) else "refused"
        return Disconnected(reason, str(error), self._wait_s)


def follow(
    http: httpx2.AsyncClient,
    session_id: str,
    *,
    start: Start | None = None,
    wanted: Wanted | None = None,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
    max_retries: int | None = None,
    connect_retries: int | None = None,
    max_event_bytes: int = MAX_EVENT_BYTES,
) -> Follow:
    """Follow a session over SSE with an HTTP client of your own; `Client` does more.

    Every durable event after the start is handed over once and in order. What is not an event is
    told by items of its own: `Connected`, `Disconnected`, `CaughtUp`, `Gap`, `Reset` … . The
    iteration ends when the hub says that nothing will ever come (a deleted session). Use it as an
    asynchronous context manager, so that the connection is closed when the loop is left.

    Args:
        http: client with the hub's base URL and the key; not closed here.
        session_id: the session.
        start: where to begin; None is the hub's default, its oldest event.
        wanted: which events to ask for.
        idle_timeout_s: silence after which the connection is taken for dead; above the hub's
            heartbeat.
        max_retries: failures in a row, without a `connected` between them, that are borne; None
            for any number. A planned closing is no failure.
        connect_retries: the same until the first `connected`; None is `max_retries`.
        max_event_bytes: bound on one event of the stream.

    Raises (while iterating):
        RequestRejected: the hub refused for good (4xx but 408, 425 and 429), or once too often.
        ConnectionFailed: the hub cannot be reached, once too often.
        ProtocolError: what answers is not the hub's protocol.
    """
    transport = SSETransport(
        http, session_id, idle_timeout_s=idle_timeout_s, max_event_bytes=max_event_bytes
    )
    return Follow(
        {"sse": transport},
        "sse",
        start=start or Start(),
        wanted=wanted or Wanted(),
        max_retries=max_retries,
        connect_retries=connect_retries,
    )
