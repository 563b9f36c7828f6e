"""Hubs as real processes on loopback, for black-box tests.

A hub is started with `python -m sessionwire serve` against a given Redis, waited for by `/readyz`,
measured through /proc, and ended by SIGTERM. Only processes started here are ever signalled.
Leaving `running_hub` checks that the hub ended by itself with exit code 0 and logged no traceback.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["KEY", "HubProcess", "running_hub", "start_hub"]

KEY = "test-key-of-the-black-box-suite"
"""The key of every hub started here: all scopes."""

START_S = 40.0
"""Two busy cores and a cold import; a hub that needs longer is broken."""

STOP_S = 30.0

FAULTS_IN_LOG = ("Traceback (most recent call last)", "was never retrieved", "was never awaited")


@dataclass
class HubProcess:
    """One hub: where it listens, and the process behind it.

    Attributes:
        host, port: the listening socket.
        key: bearer key with every scope.
        log: file with its stdout and stderr.
    """

    process: subprocess.Popen[bytes]
    host: str
    port: int
    key: str
    log: Path
    data_dir: Path
    faults_allowed: bool = False
    asked_to_end: bool = False
    _owned: list[Path] = field(default_factory=list[Path])

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str, *, timeout: float = 5.0) -> tuple[int, bytes]:
        """GET `path` with the hub's key, blocking. Raises OSError when nobody answers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def metrics(self) -> dict[str, float]:
        """Read `/metrics`: sample name with its labels, to value."""
        status, body = self.get("/metrics")
        assert status == 200, body
        samples: dict[str, float] = {}
        for line in body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def private_kib(self) -> int:
        """Memory that this process has allocated; code that it shares with others is not in it."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
        raise AssertionError("no RssAnon in its status")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def terminate(self) -> None:
        """Ask it to end, once: a second signal would cut its streams."""
        if not self.asked_to_end:
            self.asked_to_end = True
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to clean up, as a crash would."""
        self.faults_allowed = True
        self.process.kill()
        self.process.wait(10)

    def wait(self, timeout: float = STOP_S) -> int:
        return self.process.wait(timeout)

    def stop(self) -> None:
        """SIGTERM, wait, and check a clean end. A hub that hangs is killed and fails the test."""
        if self.process.poll() is None:
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise AssertionError(f"the hub did not end on SIGTERM:\n{self.tail()}") from None
        code, log, tail = self.process.returncode, self.log_text(), self.tail()
        for folder in self._owned:
            shutil.rmtree(folder, ignore_errors=True)
        if self.faults_allowed:
            return
        assert code == 0, f"exit code {code}:\n{tail}"
        found = [fault for fault in FAULTS_IN_LOG if fault in log]
        assert not found, f"the hub's log holds {found}:\n{tail}"

    def tail(self) -> str:
        """The end of the log, without a line for every request."""
        lines = self.log_text().splitlines()
        return "\n".join([line for line in lines if "uvicorn.access" not in line][-40:])


def start_hub(
    redis_url: str,
    *,
    key: str = KEY,
    env: Mapping[str, object] | None = None,
    args: Sequence[str] = (),
    data_dir: Path | None = None,
    wait_ready: bool = True,
) -> HubProcess:
    """Start one hub on a free port of 127.0.0.1 and wait until it is ready.

    Args:
        redis_url: empty for the embedded server in `data_dir`.
        env: settings by field name (`heartbeat_s=0.2`), passed as `SESSIONWIRE_…` variables.
        args: further options of `sessionwire serve`.
        wait_ready: False waits only until it listens (Redis may be away).

    Raises:
        AssertionError: it ended or was not ready in time; the text holds its log.
    """
    owned: list[Path] = []
    if data_dir is None:
        data_dir = Path(tempfile.mkdtemp(prefix="sw-hub-"))
        owned.append(data_dir)
    log = data_dir / "hub.log"
    command = [sys.executable, "-m", "sessionwire", "serve"]
    command += ["--host", "127.0.0.1", "--port", "0", "--data-dir", str(data_dir)]
    if redis_url:
        command += ["--redis-url", redis_url]
    if key:
        command += ["--key", key]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *args],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(data_dir, env or {}),
        )
    hub = HubProcess(process, "127.0.0.1", 0, key, log, data_dir, _owned=owned)
    try:
        _wait_listening(hub)
        if wait_ready:
            _wait_until(hub, hub.is_ready, "ready")
    except BaseException:
        process.kill()
        process.wait(10)
        raise
    return hub


@contextmanager
def running_hub(
    redis_url: str,
    *,
    key: str = KEY,
    env: Mapping[str, object] | None = None,
    args: Sequence[str] = (),
    data_dir: Path | None = None,
    wait_ready: bool = True,
) -> Generator[HubProcess]:
    """`start_hub`, ended and checked on leaving."""
    hub = start_hub(
        redis_url, key=key, env=env, args=args, data_dir=data_dir, wait_ready=wait_ready
    )
    try:
        yield hub
    except BaseException as error:
        error.add_note(f"the end of the hub's log:\n{hub.tail()}")
        hub.faults_allowed = True
        raise
    finally:
        hub.stop()


def _environment(data_dir: Path, settings: Mapping[str, object]) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith("SESSIONWIRE_")}
    ours = {f"SESSIONWIRE_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, "HOME": str(data_dir), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **ours}


def _wait_listening(hub: HubProcess) -> None:
    """Learn the port from `hub.json`, then wait until `/livez` answers."""
    path = hub.data_dir / "hub.json"

    def is_listening() -> bool:
        try:
            said: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError):
            return False
        if said["pid"] != hub.pid:
            return False
        hub.port = urlsplit(str(said["url"])).port or 0
        hub.key = hub.key or str(said.get("key", ""))
        try:
            return hub.get("/livez")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    _wait_until(hub, is_listening, "listening")


def _wait_until(hub: HubProcess, is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_S
    while not is_so():
        code = hub.process.poll()
        assert code is None, f"the hub ended with {code} before it was {what}:\n{hub.tail()}"
        assert time.monotonic() < deadline, f"the hub is not {what}:\n{hub.tail()}"
        time.sleep(0.05)
