"""A stream of events to one session: batched, in order, safe over restarts of the hub.

What is sent while a request is on its way goes together with the next one. `send` waits while more
is held than the bounds allow, so a hub that is slow or away slows its producer down and costs a
constant amount of memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import anyio

from sessionwire._api import Api
from sessionwire._event_input import Outgoing, Publishable, outgoing
from sessionwire._owned_tasks import OwnedTasks
from sessionwire._publish import BATCH_BYTES, BATCH_EVENTS
from sessionwire._published import Published, store
from sessionwire.errors import HubError, RequestRejected

__all__ = ["Publisher", "Sent"]

MAX_HELD: Final = 1_024
"""Events that wait, four batches: the next one is always ready when an answer comes."""

MAX_HELD_BYTES: Final = 16 * 2**20

PATIENCE_S: Final = 300.0
"""How long a batch is sent again while the hub is away: more than a restart takes."""

LAST_FLUSH_S: Final = 5.0
"""How long an exit by an exception is held up for what was sent before it."""


class _Slot:
    """An event that is held, and what becomes of it."""

    __slots__ = ("done", "error", "event", "looked", "verdict")

    def __init__(self, event: Outgoing) -> None:
        self.event = event
        self.done = anyio.Event()
        self.verdict: Published | None = None
        self.error: HubError | None = None
        self.looked = False

    def settle(self, verdict: Published | None, error: HubError | None) -> None:
        if not self.done.is_set():
            self.verdict, self.error = verdict, error
            self.done.set()


class Sent:
    """One event that was given to a publisher."""

    __slots__ = ("_slot",)

    def __init__(self, slot: _Slot) -> None:
        self._slot = slot

    @property
    def id(self) -> str:
        """The event's id."""
        return self._slot.event.id

    async def stored(self) -> Published:
        """Wait until it is stored. Whoever waits here takes its error, if there is one.

        Raises:
            HubError: it was refused, or could not be sent.
        """
        self._slot.looked = True
        await self._slot.done.wait()
        if self._slot.error is not None:
            raise self._slot.error
        assert self._slot.verdict is not None, "done without an error"
        return self._slot.verdict


class Publisher:
    """Made by `Session.publisher`; an asynchronous context manager that flushes at its end.

    Attributes:
        stored: events stored so far.
        duplicates: events that were there before.
        refused: events that the hub refused.
    """

    def __init__(
        self,
        api: Api,
        session_id: str,
        catalog: str,
        *,
        max_held: int,
        max_held_bytes: int,
        patience_s: float | None,
    ) -> None:
        self.stored: int = 0
        self.duplicates: int = 0
        self.refused: int = 0
        self._api = api
        self._session_id = session_id
        self._catalog = catalog
        self._max_held = max_held
        self._max_held_bytes = max_held_bytes
        self._patience_s = patience_s
        self._tasks = OwnedTasks()
        self._held: deque[_Slot] = deque()
        self._held_bytes = 0
        self._changed = anyio.Event()
        self._refusals: list[_Slot] = []
        self._failure: HubError | None = None
        self._open = False

    async def __aenter__(self) -> Self:
        await self._tasks.open()
        self._tasks.start(self._run)
        self._open = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open = False
        failure: HubError | None = None
        try:
            if exc is None:
                try:
                    await self.flush()
                except HubError as error:
                    failure = error
            else:
                with anyio.move_on_after(LAST_FLUSH_S, shield=True):
                    await self._drained()
        finally:
            await self._tasks.close(exc)
        if failure is not None:
            raise failure

    async def send(self, event: Publishable) -> Sent:
        """Give it an event; returns once there is room for it.

        Returns: a handle, for `await sent.stored()` where it matters what becomes of it.

        Raises:
            HubError: the publisher has given up: the key was refused, the hub was away too long …
            ValueError, TypeError: this is no event.
        """
        slot = _Slot(outgoing(event, self._catalog))
        size = len(slot.event.body)
        while True:
            if self._failure is not None:
                raise self._failure
            if not self._open:
                raise RuntimeError("a publisher takes events inside its `async with` only")
            full = len(self._held) >= self._max_held
            if not self._held or not (full or self._held_bytes + size > self._max_held_bytes):
                break
            await self._changed.wait()
        self._held.append(slot)
        self._held_bytes += size
        self._tell()
        return Sent(slot)

    async def flush(self) -> None:
        """Wait until everything that was given is stored.

        Raises:
            HubError: the first refusal that nobody has looked at, or why the publisher gave up.
        """
        await self._drained()
        unseen = [slot for slot in self._refusals if not slot.looked]
        self._refusals.clear()
        if self._failure is not None:
            raise self._failure
        if unseen:
            await Sent(unseen[0]).stored()

    async def _drained(self) -> None:
        while self._held and self._failure is None:
            await self._changed.wait()

    def _tell(self) -> None:
        """Wake everybody who waits for a change; each looks for itself."""
        self._changed.set()
        self._changed = anyio.Event()

    async def _run(self) -> None:
        while True:
            while not self._held:
                await self._changed.wait()
            batch = self._next_batch()
            try:
                await self._deliver(batch)
            except HubError as error:
                self._give_up(error)
                return
            for _ in batch:
                self._held_bytes -= len(self._held.popleft().event.body)
            self._tell()

    def _next_batch(self) -> list[_Slot]:
        """Look at the oldest events that go together; they are held until they are stored."""
        batch: list[_Slot] = []
        size = 0
        for slot in self._held:
            size += len(slot.event.body)
            if batch and (len(batch) == BATCH_EVENTS or size > BATCH_BYTES):
                break
            batch.append(slot)
        return batch

    async def _deliver(self, batch: Sequence[_Slot]) -> None:
        """Store a batch, but for what is refused of it.

        Raises:
            HubError: nothing more can be stored at all.
        """
        events = [slot.event for slot in batch]
        try:
            verdicts = await store(self._api, self._session_id, events, patience_s=self._patience_s)
        except RequestRejected as refusal:
            await self._without(batch, refusal)
            return
        for slot, verdict in zip(batch, verdicts, strict=True):
            self.duplicates += verdict.duplicate
            self.stored += not verdict.duplicate
            slot.settle(verdict, None)

    async def _without(self, batch: Sequence[_Slot], refusal: RequestRejected) -> None:
        """Leave out the event at fault and store the others, in order."""
        index = refusal.extra.get("index")
        known = isinstance(index, int) and 0 <= index < len(batch)
        if not known and refusal.status not in (400, 413, 422):
            raise refusal
        if len(batch) == 1:
            self._refuse(batch[0], refusal)
            return
        middle = index if known and isinstance(index, int) else len(batch) // 2
        parts = [batch[:middle], batch[middle : middle + 1], batch[middle + 1 :]]
        if not known:
            parts = [batch[:middle], batch[middle:]]
        for part in parts:
            if part:
                await self._deliver(part)

    def _refuse(self, slot: _Slot, refusal: RequestRejected) -> None:
        self.refused += 1
        if len(self._refusals) < self._max_held:
            self._refusals.append(slot)
        slot.settle(None, refusal)

    def _give_up(self, error: HubError) -> None:
        self._failure = error
        for slot in self._held:
            slot.settle(None, error)
        self._held.clear()
        self._held_bytes = 0
        self._tell()
