"""Hears that the server is about to stop while the server still waits for its streams.

uvicorn runs the lifespan's shutdown only after every connection has closed, and streams close only
when they are told. So SIGTERM and SIGINT are heard here first and passed on to whoever had them.
Nothing is patched; the handlers are put back at the end.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["told_of_shutdown"]

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_of_shutdown(tell: Callable[[], None]) -> Generator[None]:
    """Call `tell` in the event loop when a shutdown signal arrives, then the handler before us.

    Does nothing outside the main thread, where signals are not delivered, and nothing for a signal
    that nobody handles in Python.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def hear(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(tell)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is hear:
                signal.signal(number, before[number])
