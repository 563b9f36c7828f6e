"""Functions that answer prompts, one for each kind: `@session.on_permission` and its like.

Owns which prompt is being handled. A handler that raises answers nothing: its error is logged, its
claim given back, and whoever else may answer still can. One whose prompt is over meanwhile is
cancelled.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread

from sessionwire._owned_tasks import OwnedTasks
from sessionwire._prompt import WAIT_S, Prompt
from sessionwire._prompt_feed import MAX_KNOWN, OpenPrompts
from sessionwire._prompts import PromptRecord
from sessionwire.errors import Conflict, Gone, HubError

if TYPE_CHECKING:
    from sessionwire._session import Session

__all__ = ["PASS", "Handler", "Handlers", "Pass"]

logger = logging.getLogger(__name__)

MAX_RUNNING: Final = 64
"""Handlers that run at once; more prompts wait."""


class Pass:
    """What a handler returns that leaves its prompt to others."""

    def __repr__(self) -> str:
        return "PASS"


PASS: Final = Pass()

_NULL_KINDS: Final = frozenset({"command", "sampling"})
"""Kinds that null is an answer to; for all others None leaves the prompt to others."""

Handler: TypeAlias = Callable[[Prompt], Awaitable[Any] | Any]
"""Takes a prompt and returns its answer; a plain function runs in a thread."""

H = TypeVar("H", bound=Handler)


class Handlers:
    """The handlers of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_kind: dict[str, Handler] = {}
        self._running: dict[str, anyio.CancelScope] = {}
        self._done: dict[str, None] = {}
        """Ids of prompts that a handler has had, the oldest first."""
        self._doubted: set[str] = set()
        """Ids of prompts that are handled and no longer stand in the list."""
        self._limit = anyio.Semaphore(MAX_RUNNING)

    def register(self, kind: str, handler: H) -> H:
        """Have a function answer the prompts of a kind.

        Raises:
            ValueError: the kind has one.
        """
        if kind in self._by_kind:
            raise ValueError(f"prompts of the kind {kind!r} have a handler")
        self._by_kind[kind] = handler
        return handler

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    async def run(self) -> None:
        """Answer prompts until the session is deleted.

        Raises:
            HubError: refused for good.
        """
        lists = OpenPrompts(self._session)
        try:
            async with OwnedTasks() as tasks:
                async for found in lists:
                    for record in self._due(found):
                        scope = self._running[record.request_id] = anyio.CancelScope()
                        tasks.start(self._handle, record, scope)
                    waiting = {record.request_id for record in found if record.waits}
                    for request_id in self._running.keys() - waiting - self._doubted:
                        self._doubted.add(request_id)
                        tasks.start(self._end_when_over, request_id)
        finally:
            await lists.aclose()

    def _due(self, found: Sequence[PromptRecord]) -> list[PromptRecord]:
        """Return what is to be handled now."""
        return [
            record
            for record in found
            # A claimed one is somebody else's; should that claim lapse, the list comes again.
            if record.status == "pending"
            and record.request_id not in self._running
            and record.request_id not in self._done
            and record.kind in self._by_kind
        ]

    async def _end_when_over(self, request_id: str) -> None:
        """Cancel the handler of a prompt that no longer waits in the list, once that is so.

        The list alone does not say: one that was read before the prompt was opened may come late,
        and then nothing tells of its end, which leaves the list as it is.
        """
        try:
            prompt = await self._session.prompt(request_id)
            while prompt.record.waits and request_id in self._running:
                await prompt.refresh(wait_s=WAIT_S)
        except HubError as error:
            logger.info("the prompt %r could not be looked at: %s", request_id, error)
            return
        finally:
            self._doubted.discard(request_id)
        if (scope := self._running.get(request_id)) is not None:
            scope.cancel()

    async def _handle(self, record: PromptRecord, scope: anyio.CancelScope) -> None:
        prompt = Prompt(self._session.client.http, record)
        try:
            async with self._limit:
                with scope:
                    if prompt.claimable:
                        async with prompt.claim():
                            await self._answer(prompt)
                    else:
                        await self._answer(prompt)
        except (Conflict, Gone) as error:
            logger.info("the prompt %r is not ours: %s", prompt.request_id, error)
        except HubError as error:
            logger.error("the prompt %r was not answered: %s", prompt.request_id, error)
            self._finish(prompt)
        except Exception:
            logger.exception("the handler of the prompt %r failed", prompt.request_id)
            self._finish(prompt)
        else:
            self._finish(prompt)
        finally:
            del self._running[prompt.request_id]

    def _finish(self, prompt: Prompt) -> None:
        self._done[prompt.request_id] = None
        if len(self._done) > MAX_KNOWN:
            del self._done[next(iter(self._done))]

    async def _answer(self, prompt: Prompt) -> None:
        handler = self._by_kind[prompt.kind]
        if inspect.iscoroutinefunction(handler):
            answer = await cast("Awaitable[Any]", handler(prompt))
        else:
            answer = await anyio.to_thread.run_sync(
                partial(handler, prompt), abandon_on_cancel=True
            )
        nothing = answer is None and prompt.kind not in _NULL_KINDS
        if not (isinstance(answer, Pass) or nothing) and prompt.record.waits:
            await prompt.answer(answer)
