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

from benchmarks.machine import LOAD_CORE, on_core
from benchmarks.native import OUT
from benchmarks.processes import Server

__all__ = ["ProfilerMissing", "Recorder", "recording"]

RATE = 200
"""Samples a second."""
LONGEST_S = 600
"""A recording that nobody ends, ends itself."""


class ProfilerMissing(Exception):
    """py-spy is not installed beside this Python or on the PATH."""


def _py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ProfilerMissing("profiling needs py-spy: pip install py-spy")
    return found


class Recorder:
    """Records one server, from `begin` to `end`; does nothing if `begin` is never called."""

    def __init__(self, server: Server, name: str) -> None:
        self._pid = str(server.process.pid)
        self._target = OUT / f"profile-{name}.txt"
        self._command = [_py_spy(), "record", "--rate", str(RATE), "--format", "raw"]
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start recording to `out/profile-<name>.txt`: folded stacks with sample counts."""
        options = ["--output", str(self._target), "--duration", str(LONGEST_S)]
        with on_core(LOAD_CORE):
            self._process = subprocess.Popen(
                [*self._command, *options, "--pid", self._pid],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def end(self) -> None:
        """Stop, and wait until it is written."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)


@contextmanager
def recording(server: Server, name: str, *, on: bool) -> Generator[Recorder | None]:
    """Offer a recorder to the block, None for a server that py-spy cannot read.

    Raises:
        ProfilerMissing: there is no py-spy.
    """
    recorder = Recorder(server, name) if on and server.contender.is_python else None
    try:
        yield recorder
    finally:
        if recorder is not None:
            recorder.end()
