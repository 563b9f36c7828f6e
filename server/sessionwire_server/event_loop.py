"""The event loop that a hub process runs on: uvloop, where there is one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import anyio

__all__ = ["run"]

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function to its end.

    Raises: what it raises. A single exception comes out as it is, however many task groups it came
        through.
    """
    try:
        return anyio.run(main, backend_options={"use_uvloop": sys.platform != "win32"})
    except BaseExceptionGroup as group:
        only = _only(group)
        if only is None:
            raise
        raise only from group


def _only(error: BaseException) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        inner = cast("tuple[BaseException, ...]", error.exceptions)
        if len(inner) != 1:
            return None
        error = inner[0]
    return error
