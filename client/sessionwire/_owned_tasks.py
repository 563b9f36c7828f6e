"""Tasks that belong to an asynchronous context manager and stay out of its body's exceptions.

A task group wraps whatever its body raises; a session, a host and a publisher have tasks of their
own and must not. A task that fails ends the body, and its error comes out as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVarTuple

import anyio

__all__ = ["OwnedTasks"]

Ts = TypeVarTuple("Ts")


class OwnedTasks:
    """The tasks. An owner with an `async with` of its own calls `open` and `close` from there."""

    def __init__(self) -> None:
        self._group = anyio.create_task_group()
        self._failure: Exception | None = None

    async def open(self) -> None:
        """Begin."""
        await self._group.__aenter__()

    def start(self, run: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a task; it is cancelled at the end."""
        self._group.start_soon(self._guarded, run, args)

    async def _guarded(self, run: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]) -> None:
        try:
            await run(*args)
        except Exception as exc:
            if self._failure is None:
                self._failure = exc
            self._group.cancel_scope.cancel()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(exc)

    async def close(self, exc: BaseException | None) -> None:
        """Cancel the tasks and wait for them.

        Args:
            exc: what the body raised; it goes on by itself.

        Raises:
            Exception: that of a task that failed, where it is what ended the body.
        """
        ours = self._failure is not None and (
            exc is None or isinstance(exc, anyio.get_cancelled_exc_class())
        )
        self._group.cancel_scope.cancel()
        if exc is not None and ours:
            # Only with the cancellation in hand can the group tell its own from an outer one.
            if not await self._group.__aexit__(type(exc), exc, exc.__traceback__):
                return
        else:
            await self._group.__aexit__(None, None, None)
        if ours and self._failure is not None:
            raise self._failure
