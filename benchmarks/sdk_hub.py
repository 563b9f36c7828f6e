"""A hub for measuring clients: a process of its own, on the server's core, with its own Valkey."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.machine import SERVER_CORE, on_core
from sessionwire._hub_file import read_hub_file

__all__ = ["SdkHub", "running_hub"]

READY_S = 30.0
STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class SdkHub:
    """Where it is, and a key."""

    url: str
    key: str


@contextmanager
def running_hub() -> Generator[SdkHub]:
    """Run a hub that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="sessionwire-bench-") as folder:
        command = [sys.executable, "-m", "sessionwire", "serve", "--port", "0"]
        environment = {n: v for n, v in os.environ.items() if not n.startswith("SESSIONWIRE_")}
        with on_core(SERVER_CORE):
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--data-dir", folder],
                env={**environment, "SESSIONWIRE_DRAIN_S": "0"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        try:
            yield _ready(process, Path(folder))
        finally:
            process.terminate()
            process.wait(STOP_S)


def _ready(process: subprocess.Popen[bytes], folder: Path) -> SdkHub:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        found = read_hub_file(folder)
        if found is not None:
            try:
                if httpx.get(f"{found.url}/readyz", trust_env=False).status_code == 200:
                    return SdkHub(found.url, found.key)
            except httpx.HTTPError:
                pass  # not listening yet
        time.sleep(0.1)
    raise RuntimeError("the hub did not start")
