"""One of several hub processes on one listening socket: `python -m sessionwire_server.worker`.

Made by `workers`. Gets the socket by number and its settings as the first line of stdin, says
`ready` on stdout, and ends on SIGTERM or when stdin ends, which is when its parent is gone.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from functools import partial

import anyio
import anyio.to_thread

from sessionwire_server.event_loop import run
from sessionwire_server.http_server import CannotStart, HttpServer
from sessionwire_server.server_log import configure_log, expect_broken_requests
from sessionwire_server.settings import Settings
from sessionwire_server.stop_signals import Stop, stop_signals

__all__ = ["READY", "main"]

logger = logging.getLogger("sessionwire_server.worker")

READY = b"ready\n"


def main() -> None:
    """Serve until the parent says or is gone. Exits with 1 if it could not start."""
    settings = Settings.model_validate_json(sys.stdin.buffer.readline())
    configure_log()
    listener = socket.socket(fileno=int(sys.argv[1]))
    code = 1
    try:
        run(partial(_work, settings, listener))
        code = 0
    except CannotStart as exc:
        logger.error("%s", exc)
    except Exception:
        logger.exception("the worker failed")
    # Not `sys.exit`: a thread may still wait for stdin, and the interpreter would wait for it.
    os._exit(code)


async def _work(settings: Settings, listener: socket.socket) -> None:
    server = HttpServer(settings, started=_say_ready)
    async with stop_signals(expect_broken_requests) as stop, anyio.create_task_group() as tasks:
        tasks.start_soon(_end_with_parent, stop)
        await server.serve_until(stop.asked, listener)
        tasks.cancel_scope.cancel()


def _say_ready() -> None:
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()


async def _end_with_parent(stop: Stop) -> None:
    await anyio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
    stop.asked.set()


if __name__ == "__main__":
    main()
