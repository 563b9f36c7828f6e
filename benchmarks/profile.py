"""Records where a Python server spends its time while it is measured, with py-spy if installed.

The recording costs some CPU time itself: profile to find costs, not to state them.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contenders import FLOOR
from benchmarks.load import Load
from benchmarks.machine import LOAD_CORE, on_core
from benchmarks.native import OUT
from benchmarks.processes import Server

__all__ = ["ProfilerMissing", "recording"]

RATE = 200
"""Samples a second."""


class ProfilerMissing(Exception):
    """py-spy is not installed beside this Python or on the PATH."""


def _py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ProfilerMissing("profiling needs py-spy: pip install py-spy")
    return found


@contextmanager
def recording(server: Server, name: str, load: Load, *, on: bool) -> Generator[None]:
    """Write `out/profile-<name>.txt`, folded stacks with sample counts, while the block runs.

    Raises:
        ProfilerMissing: there is no py-spy.
    """
    if not on or server.contender is FLOOR:
        yield
        return
    OUT.mkdir(exist_ok=True)
    target = OUT / f"profile-{name}.txt"
    options = ["--rate", str(RATE), "--format", "raw", "--native", "--output", str(target)]
    seconds = str(round(60 + load.measure))
    command = [_py_spy(), "record", *options, "--duration", seconds, "--pid"]
    with on_core(LOAD_CORE):
        process = subprocess.Popen(
            [*command, str(server.process.pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
