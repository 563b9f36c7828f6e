"""Joins what is asked for at the same time into few calls.

A fixed number of calls is in flight; what arrives meanwhile goes together in the next, in order of
arrival. No task of its own: one of those who wait makes the call for all of its batch. A batch that
was begun is seen to its end, so whoever is cancelled takes no one else's answer along; whoever is
cancelled before that is not sent. How long a call may take is the callee's to bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

__all__ = ["CallBrokenOff", "JoinedCalls"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class CallBrokenOff(Exception):
    """Whoever made the call for us was stopped by force; what became of it is not known."""


@dataclass(slots=True, eq=False)
class _Ticket(Generic[Item, Answer]):
    item: Item
    woken: anyio.Event | None = None
    """Set when there is an answer, or the call is to be made; None for one that never waits."""
    batch: list[_Ticket[Item, Answer]] | None = None
    """Set for the one that makes the call: all that go with it, itself first."""
    answer: Answer | None = None
    error: Exception | None = None
    given_up: bool = False

    def wake(self) -> None:
        if self.woken is not None:
            self.woken.set()


class JoinedCalls(Generic[Item, Answer]):
    """Calls that carry many items each.

    Attributes:
        made: calls made so far.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        in_flight: int,
        max_items: int,
        max_bytes: int,
        max_wait_s: float,
        size_of: Callable[[Item], int],
    ) -> None:
        """Set up.

        Args:
            call: carries out items, and gives an answer each, in order.
            in_flight: most calls at a time.
            max_items: most items of a call.
            max_bytes: most bytes of a call, but one item always goes.
            max_wait_s: longest that an item waits for its answer where it does not go at once.
            size_of: tells an item's bytes.
        """
        self._call = call
        self._free = in_flight
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._max_wait_s = max_wait_s
        self._size_of = size_of
        self._waiting: deque[_Ticket[Item, Answer]] = deque()
        self.made = 0

    async def submit(self, item: Item) -> Answer:
        """Have an item carried out; gives its answer.

        Raises:
            TimeoutError: it waited for `max_wait_s`; what became of it is not known.
            Exception: what the call raised, the same one for all of a batch.
        """
        # Its calls are shielded, so without this a cancelled loop over them would never end.
        await checkpoint_if_cancelled()
        ticket: _Ticket[Item, Answer] = _Ticket(item)
        if self._free:
            self._free -= 1
            ticket.batch = [ticket]
        else:
            ticket.woken = anyio.Event()
            self._waiting.append(ticket)
            with anyio.fail_after(self._max_wait_s):
                await self._turn(ticket, ticket.woken)
        if ticket.batch is not None:
            with anyio.CancelScope(shield=True):
                await self._carry_out(ticket.batch)
        if ticket.error is not None:
            raise ticket.error
        return cast("Answer", ticket.answer)

    async def _turn(self, ticket: _Ticket[Item, Answer], woken: anyio.Event) -> None:
        """Wait until the ticket is answered, or has to make the call."""
        try:
            await woken.wait()
        except BaseException:
            ticket.given_up = True
            if ticket.batch is not None:
                self._next(ticket.batch)
            raise

    def _take(self) -> list[_Ticket[Item, Answer]]:
        """Take the next batch off those that wait."""
        batch: list[_Ticket[Item, Answer]] = []
        size = 0
        while self._waiting and len(batch) < self._max_items:
            ticket = self._waiting[0]
            if not ticket.given_up:
                size += self._size_of(ticket.item)
                if batch and size > self._max_bytes:
                    break
                batch.append(ticket)
            self._waiting.popleft()
        return batch

    def _next(self, batch: list[_Ticket[Item, Answer]]) -> None:
        """Have a batch carried out by its first, or a new one where nobody is left of it."""
        batch = [ticket for ticket in batch if not ticket.given_up] or self._take()
        if batch:
            batch[0].batch = batch
            batch[0].wake()
        else:
            self._free += 1

    async def _carry_out(self, batch: list[_Ticket[Item, Answer]]) -> None:
        going = [ticket for ticket in batch if not ticket.given_up]
        self.made += 1
        try:
            answers = await self._call([ticket.item for ticket in going])
            for ticket, answer in zip(going, answers, strict=True):
                ticket.answer = answer
        except Exception as error:
            for ticket in going:
                ticket.error = error
        except BaseException:
            for ticket in going:
                ticket.error = CallBrokenOff()
            raise
        finally:
            for ticket in going:
                ticket.wake()
            self._next([])
