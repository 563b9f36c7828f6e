"""Following a session over its event stream (protocol.md §6): connect, read, resume.

Owns the cursor and the loop. What a failure means is decided in `_reconnect`, what a frame means
in `_items`. Starts no task: everything happens inside `__anext__`, so a consumer may take as long
as it likes over an item, and cancelling it never loses one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import anyio
import httpx2

from sessionwire._connection import Connection, open_connection
from sessionwire._http import connection_failed, session_path
from sessionwire._items import (
    Closing,
    Connected,
    Disconnected,
    Item,
    read_closing,
    read_frame,
)
from sessionwire._reconnect import Outcome, Reconnection, classify_error, classify_status
from sessionwire._sse import MAX_EVENT_BYTES, ServerSentEvent
from sessionwire.errors import HubError, RequestRejected

__all__ = ["IDLE_TIMEOUT_S", "Follow", "Start", "Wanted", "follow"]

IDLE_TIMEOUT_S: Final = 45.0
"""3 × the hub's heartbeat (15 s), so that one late or lost heartbeat is not a drop."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin; the first that is given counts, none is the hub's default.

    Attributes:
        since_id: a cursor, or the id of an event: begin just after it.
        after_sequence: begin just after that durable event; 0 is the whole session.
        from_: `start`, `now` or `-N`, the last N durable events and then live.
    """

    since_id: str = ""
    after_sequence: int | None = None
    from_: str = ""

    def params(self) -> list[tuple[str, str]]:
        """Build the query members for it."""
        if self.since_id:
            return [("since_id", self.since_id)]
        if self.after_sequence is not None:
            return [("after_sequence", str(self.after_sequence))]
        return [("from", self.from_)] if self.from_ else []


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to ask for; empty members ask for all."""

    types: Sequence[str] = ()
    exclude: Sequence[str] = ()
    agents: Sequence[str] = ()

    def params(self) -> list[tuple[str, str]]:
        """Build the query members, a repeated key for each value."""
        named = (("types", self.types), ("exclude", self.exclude), ("agents", self.agents))
        return [(name, value) for name, values in named for value in values]


class Follow:
    """The items of a session, endlessly; made by `follow`.

    Attributes:
        cursor: the place just after the last item that was handed over, empty before the first;
            moved in the very step that returns the item, so it never runs ahead of the consumer.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        session_id: str,
        *,
        start: Start,
        wanted: Wanted,
        idle_timeout_s: float,
        max_retries: int | None,
        connect_retries: int | None,
        max_event_bytes: int,
    ) -> None:
        self.cursor = ""
        self._http = http
        self._path = session_path(session_id, "sse")
        self._start = start
        self._wanted = wanted
        self._idle_timeout_s = idle_timeout_s
        self._max_retries = max_retries
        self._bound = connect_retries if connect_retries is not None else max_retries
        self._max_event_bytes = max_event_bytes
        self._reconnection = Reconnection()
        self._wait_s = 0.0
        self._connection: Connection | None = None
        self._frames: deque[ServerSentEvent] = deque()
        self._closing: Closing | None = None
        self._ended = False

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
        await self._close_connection()

    def _take(self) -> Item | None:
        while self._frames:
            frame = self._frames.popleft()
            item = read_frame(frame)
            self.cursor = frame.last_event_id or self.cursor
            if isinstance(item, Connected):
                self._reconnection.connected()
                self._bound = self._max_retries
            self._closing = read_closing(frame) or self._closing
            if item is not None:
                return item
        return None

    async def _advance(self) -> Disconnected | None:
        """Do the next thing that takes time: wait, connect or read.

        Cancelled or failed, it leaves a state from which the next call resumes exactly.
        """
        try:
            if self._connection is None:
                return await self._connect()
            frames = await self._connection.frames()
        except httpx2.HTTPError as exc:
            await self._close_connection()
            return self._failed(exc)
        except BaseException:
            await self._close_connection()
            raise
        if frames is None:
            await self._close_connection()
            return self._failed(EOFError("the connection ended"))
        self._frames.extend(frames)
        self._reconnection.retry_hint(self._connection.retry_ms)
        return None

    async def _connect(self) -> Disconnected | None:
        if self._wait_s:
            await anyio.sleep(self._wait_s)
            self._wait_s = 0.0
        start = Start(since_id=self.cursor) if self.cursor else self._start
        answer = await open_connection(
            self._http,
            self._path,
            [("control", "1"), *start.params(), *self._wanted.params()],
            idle_timeout_s=self._idle_timeout_s,
            max_event_bytes=self._max_event_bytes,
        )
        if isinstance(answer, RequestRejected):
            return self._refused(answer)
        self._connection = answer
        self._ended = answer is None
        return None

    async def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _failed(self, exc: Exception) -> Disconnected:
        closing, self._closing = self._closing, None
        if closing is not None:
            self._reconnection.planned(closing.retry_ms)
            self._wait_s = self._reconnection.delay_s()
            return Disconnected(closing.reason, "", self._wait_s)
        error = connection_failed(self._http.base_url, exc)
        if isinstance(exc, httpx2.HTTPError) and classify_error(exc) is Outcome.FATAL:
            raise error from exc
        return self._retry(_reason(exc), error)

    def _refused(self, refusal: RequestRejected) -> Disconnected:
        if classify_status(refusal.status) is Outcome.FATAL:
            raise refusal
        return self._retry("refused", refusal)

    def _retry(self, reason: str, error: HubError) -> Disconnected:
        if self._bound is not None and self._reconnection.failures >= self._bound:
            raise error
        after_s = error.retry_after_s if isinstance(error, RequestRejected) else None
        self._wait_s = self._reconnection.delay_s(after_s)
        return Disconnected(reason, str(error), self._wait_s)


def _reason(exc: Exception) -> str:
    if isinstance(exc, httpx2.ReadTimeout):
        return "idle"
    never = isinstance(exc, httpx2.ConnectError | httpx2.ConnectTimeout)
    return "unreachable" if never else "dropped"


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
    """Follow a session: iterate over its items, reconnecting and resuming as needed.

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
    return Follow(
        http,
        session_id,
        start=start or Start(),
        wanted=wanted or Wanted(),
        idle_timeout_s=idle_timeout_s,
        max_retries=max_retries,
        connect_retries=connect_retries,
        max_event_bytes=max_event_bytes,
    )
