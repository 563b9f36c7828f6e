"""Running `sessionwire …` as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.hub_process import HubProcess

__all__ = ["environment", "run", "started"]

TIMEOUT_S = 60.0


def environment(home: Path, hub: HubProcess | None = None, **more: str) -> dict[str, str]:
    """Build an environment without anybody's settings; with a hub's address, if one is given."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SESSIONWIRE_")}
    env |= {"HOME": str(home), "XDG_DATA_HOME": str(home), "COLUMNS": "200", "NO_COLOR": "1"}
    if hub is not None:
        env |= {"SESSIONWIRE_URL": hub.url, "SESSIONWIRE_KEY": hub.key}
    return env | more


def run(
    *args: str, env: Mapping[str, str], stdin: bytes = b"", timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "sessionwire", *args]
    return subprocess.run(command, env=env, input=stdin, capture_output=True, timeout=timeout_s)


@contextmanager
def started(*args: str, env: Mapping[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """Start a command; whatever is left of it is killed."""
    command = [sys.executable, "-m", "sessionwire", *args]
    with subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
