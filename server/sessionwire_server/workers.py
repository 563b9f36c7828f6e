"""Several hub processes on one listening socket: start them, replace one that dies, end them.

They share nothing but the socket and Redis. Each is a child with a session of its own, so that a
Ctrl-C reaches only the parent, which then asks each of them once.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from subprocess import PIPE

import anyio
from anyio.abc import Process, TaskStatus

from sessionwire_server.http_server import GRACE_S, CannotStart
from sessionwire_server.settings import Settings
from sessionwire_server.worker import READY

__all__ = ["run_workers"]

logger = logging.getLogger(__name__)

START_S = 60.0
"""How long a worker may take to answer its first request."""

RESTART_S = 1.0
"""Pause before a dead worker is replaced, so that one that cannot live does not eat a processor."""

END_S = 5.0
"""What a worker gets beyond its own drain before it is killed."""


async def run_workers(
    settings: Settings, listener: socket.socket, asked: anyio.Event, started: Callable[[], None]
) -> None:
    """Keep `settings.workers` processes serving until asked to end, then have them drain.

    Args:
        started: called once every worker answers.

    Raises:
        CannotStart: a worker did not start in the first place.
    """
    async with anyio.create_task_group() as tasks:
        for _ in range(settings.workers):
            await tasks.start(_keep_one, settings, listener, asked)
        started()


async def _keep_one(
    settings: Settings,
    listener: socket.socket,
    asked: anyio.Event,
    *,
    task_status: TaskStatus[None],
) -> None:
    first = True
    while not asked.is_set():
        process = await _spawn(settings, listener)
        try:
            if await _is_ready(process):
                if first:
                    task_status.started()
                first = False
                await _wait(process, asked, settings)
            elif first and not asked.is_set():
                raise CannotStart("a worker did not start, see its log")
        finally:
            await _end_now(process)
        if not asked.is_set():
            logger.warning("worker %d died with %s", process.pid, process.returncode)
            with anyio.move_on_after(RESTART_S):
                await asked.wait()
    if first:
        task_status.started()


async def _spawn(settings: Settings, listener: socket.socket) -> Process:
    command = [sys.executable, "-m", "sessionwire_server.worker", str(listener.fileno())]
    process = await anyio.open_process(
        command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=None,
        pass_fds=(listener.fileno(),),
        start_new_session=True,
    )
    assert process.stdin is not None
    await process.stdin.send(settings.model_dump_json().encode() + b"\n")
    return process


async def _is_ready(process: Process) -> bool:
    assert process.stdout is not None
    said = b""
    with anyio.move_on_after(START_S):
        try:
            while READY not in said:
                said += await process.stdout.receive()
        except anyio.EndOfStream:
            return False
    return READY in said


async def _wait(process: Process, asked: anyio.Event, settings: Settings) -> None:
    """Wait until a worker ends, by itself or because it is asked to."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_ask, process, asked, settings.drain_s + GRACE_S + END_S)
        await process.wait()
        tasks.cancel_scope.cancel()


async def _ask(process: Process, asked: anyio.Event, patience_s: float) -> None:
    await asked.wait()
    process.terminate()
    await anyio.sleep(patience_s)
    process.kill()


async def _end_now(process: Process) -> None:
    """Leave no worker behind, whatever happens here."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.kill()
        await process.wait()
        await process.aclose()
