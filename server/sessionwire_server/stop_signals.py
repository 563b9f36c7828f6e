"""SIGTERM and SIGINT of a serving process: the first asks it to end, the second ends it."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import TaskStatus

__all__ = ["Stop", "stop_signals"]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether the process is asked to end.

    Attributes:
        asked: set by the first signal.
        forced: whether a second one came; what ran inside was then cancelled.
    """

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.forced = False


@asynccontextmanager
async def stop_signals(forced: Callable[[], None] = lambda: None) -> AsyncGenerator[Stop]:
    """Listen for the signals; a second one cancels the body and leaves quietly.

    Args:
        forced: called just before the body is cancelled.
    """
    stop = Stop()

    async def listen(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            task_status.started()
            async for _ in signals:
                if stop.asked.is_set():
                    stop.forced = True
                    forced()
                    scope.cancel()
                stop.asked.set()

    async with anyio.create_task_group() as tasks:
        await tasks.start(listen, tasks.cancel_scope)
        yield stop
        tasks.cancel_scope.cancel()
