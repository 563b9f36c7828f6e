"""Streams where the hub's application is one part of somebody else's, and lists nobody reads."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.hub_process import running_hub

DEADLINE_S = 30.0
KEY = "key-of-the-wrapped-app"
EVENT = {"type": "session.info", "timestamp": "2026-08-21T09:31:03Z", "data": {"infoType": "x"}}


@contextmanager
def served(name: str, redis_url: str, log: Path) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """Run an application of `wrapped_apps` under uvicorn; the process and the hub's URL."""
    command = [sys.executable, "-m", "uvicorn", "--factory", f"tests.server.wrapped_apps:{name}"]
    given = {"REDIS_URL": redis_url, "KEY": KEY, "DRAIN_S": "1"}
    env = {**os.environ, **{f"SESSIONWIRE_{name}": value for name, value in given.items()}}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--port", "0"], env=env, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not (found := re.search(r"running on (http://\S+)", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process, found[1] + ("/hub" if name == "mounted" else "")
        finally:
            process.kill()


def until(lines: Iterator[str], wanted: str) -> list[str]:
    """Read a stream's lines up to the one that is wanted."""
    taken: list[str] = []
    for line in lines:
        taken.append(line)
        if line == wanted:
            return taken
    raise AssertionError(f"ended before {wanted!r}: {taken[-5:]}")


def is_held(port: int, peer: int) -> bool:
    """Whether a connection of `port` is still open at that end."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if local.endswith(f":{port:04X}") and remote.endswith(f":{peer:04X}"):
            return state == "01"
    return False


@pytest.mark.parametrize(
    "name", ["bare", "watched", "compressed_inside", "compressed_outside", "mounted"]
)
def test_a_stream_is_whole_and_says_goodbye_inside_other_applications(
    name: str, redis_url: str, sid: str, tmp_path: Path
) -> None:
    """Middleware may pass messages on from a task of its own; uvicorn waits for streams to end."""
    log = tmp_path / "log"
    with served(name, redis_url, log) as (process, url):
        headers = {"Authorization": f"Bearer {KEY}", "Accept-Encoding": "gzip"}
        with httpx2.Client(base_url=url, headers=headers, timeout=DEADLINE_S) as http:
            events, stream = f"/v1/sessions/{sid}/events", f"/v1/sessions/{sid}/sse?control=1"
            assert http.post(events, json=EVENT).status_code == 200
            with http.stream("GET", stream) as one, http.stream("GET", "/v1/sessions/sse") as all_:
                assert "content-encoding" not in one.headers
                lines, listed = one.iter_lines(), all_.iter_lines()
                assert next(lines) == "event: connected"
                assert "event: session.info" in until(lines, "event: caught_up")
                assert http.post(events, json=EVENT).status_code == 200
                until(lines, "event: session.info")
                until(listed, "event: snapshot")
                process.send_signal(signal.SIGTERM)
                for rest in (list(lines), list(listed)):
                    data = rest[rest.index("event: disconnecting") + 2]
                    assert json.loads(data.removeprefix("data: "))["reason"] == "shutdown"
        # Once it has shut down, uvicorn hands the signal on to the system.
        assert process.wait(DEADLINE_S) in (0, -signal.SIGTERM)
    assert "ERROR" not in log.read_text()


def test_a_list_that_is_not_read_is_let_go(redis_url: str) -> None:
    """Cut, not closed: what the server has buffered would never be taken."""
    with running_hub(redis_url, env={"send_timeout_s": 0.5}) as hub:
        headers = {"Authorization": f"Bearer {hub.key}"}
        with httpx2.Client(base_url=hub.url, headers=headers) as http:
            for n in range(60):
                big = {"metadata": {"x": "x" * 200_000}, "title": f"unread {n}"}
                assert http.post("/v1/sessions", json=big).status_code == 201
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            stuck.connect((hub.host, hub.port))
            head = f"GET /v1/sessions/sse HTTP/1.1\r\nhost: x\r\nauthorization: {hub.key}\r\n\r\n"
            stuck.sendall(head.encode())
            assert stuck.recv(1) == b"H"
            deadline = time.monotonic() + DEADLINE_S
            while is_held(hub.port, stuck.getsockname()[1]):
                assert time.monotonic() < deadline, "its connection is kept"
                time.sleep(0.05)
        assert "ERROR" not in hub.log_text()


def test_clients_that_reset_are_no_fault_of_the_servers(redis_url: str, sid: str) -> None:
    """The hub finds out by a write that fails, before the server is told of the end."""
    with running_hub(redis_url) as hub:
        headers = {"Authorization": f"Bearer {hub.key}"}
        head = f"GET /v1/sessions/{sid}/sse HTTP/1.1\r\nhost: x\r\nauthorization: {hub.key}\r\n\r\n"
        with httpx2.Client(base_url=hub.url, headers=headers, timeout=DEADLINE_S) as http:
            for _ in range(30):
                assert http.post(f"/v1/sessions/{sid}/events", json=[EVENT] * 20).is_success
                for _ in range(5):
                    with socket.create_connection((hub.host, hub.port)) as rude:
                        rude.sendall(head.encode())
                        rude.recv(100)
                        rude.setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
        assert "ERROR" not in hub.log_text()
