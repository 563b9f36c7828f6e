"""`sessionwire serve` as a process: keys, ports, hub.json, signals, workers, and what it logs."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from sessionwire_server.http_server import CannotStart
from sessionwire_server.listener import bind
from sessionwire_server.settings import Settings
from sessionwire_server.workers import run_workers
from tests.client.command import environment, run, started
from tests.hub_process import HubProcess, running_hub, start_hub

DEADLINE_S = 30.0
SLOW_END = {"drain_s": 20}


def eventually(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
    except FileNotFoundError:
        return False


@contextmanager
def streaming(hub: HubProcess, sid: str) -> Generator[httpx2.Response]:
    """Hold a stream of a session open; its first bytes have come."""
    headers = {"Authorization": f"Bearer {hub.key}"}
    with httpx2.Client(base_url=hub.url, headers=headers, timeout=30) as http:
        http.post("/v1/sessions", json={"id": sid, "catalog": "copilot"})
        with http.stream("GET", f"/v1/sessions/{sid}/sse", params={"control": "1"}) as response:
            assert response.status_code == 200
            yield response


def test_without_keys_one_is_made_for_the_run_and_left_in_hub_json(
    redis_url: str, tmp_path: Path
) -> None:
    with running_hub(redis_url, key="", data_dir=tmp_path) as hub:
        path = hub.data_dir / "hub.json"
        told = json.loads(path.read_text())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert told == {"url": hub.url, "pid": hub.pid, "key": hub.key}
        assert len(told["key"]) >= 32
        assert hub.get("/v1/sessions")[0] == 200
        assert httpx2.get(f"{hub.url}/v1/sessions").status_code == 401
        assert hub.key not in hub.log_text()
        hub.terminate()
        hub.wait()
        assert not path.exists()


def test_a_configured_key_is_not_written_down(redis_url: str) -> None:
    with running_hub(redis_url, key="of-my-own") as hub:
        assert json.loads((hub.data_dir / "hub.json").read_text()) == {
            "url": hub.url,
            "pid": hub.pid,
        }


def test_the_file_of_a_hub_that_took_the_folder_since_is_left_alone(redis_url: str) -> None:
    with running_hub(redis_url) as hub:
        path = hub.data_dir / "hub.json"
        path.write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
        hub.terminate()
        hub.wait()
        assert json.loads(path.read_text())["pid"] == 1


def test_beyond_this_machine_it_refuses_to_start_without_keys(tmp_path: Path) -> None:
    done = run("serve", "--host", "0.0.0.0", "--port", "0", env=environment(tmp_path))
    assert done.returncode == 2
    assert b"--keys" in done.stderr
    assert not (tmp_path / "sessionwire").exists()


def test_the_console_link_is_shown_on_a_terminal_only(redis_url: str, tmp_path: Path) -> None:
    """The key stands in a fragment, which never reaches a server or its log."""
    terminal, tty = pty.openpty()
    command = ["serve", "--port", "0", "--redis-url", redis_url, "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "sessionwire", *command],
        env=environment(tmp_path),
        stdout=tty,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(tty)
        shown = os.read(terminal, 1_000).decode()
        told = json.loads((tmp_path / "hub.json").read_text())
        assert f"{told['url']}/#key={told['key']}" in shown
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
    os.close(terminal)


def test_a_taken_port_names_the_option(redis_url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        args = ("serve", "--port", port, "--redis-url", redis_url)
        done = run(*args, env=environment(tmp_path))
    assert done.returncode == 1
    assert f"port {port}".encode() in done.stderr
    assert b"--port" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_second_hub_on_one_data_folder_says_so(tmp_path: Path) -> None:
    """The embedded server's folder; its socket and data stay the first one's."""
    with running_hub("", data_dir=tmp_path) as hub:
        args = ("serve", "--port", "0", "--data-dir", str(tmp_path))
        done = run(*args, env=environment(tmp_path))
        assert done.returncode == 1
        assert b"uses the data folder" in done.stderr
        assert done.stderr.count(b"\n") == 1
        assert hub.is_ready()
        assert json.loads((tmp_path / "hub.json").read_text())["pid"] == hub.pid


def test_the_embedded_server_keeps_everything_over_a_restart_and_ends_with_the_hub(
    tmp_path: Path, sid: str
) -> None:
    for count in (1, 2):
        with running_hub("", data_dir=tmp_path) as hub:
            servers = children(hub.pid)
            headers = {"Authorization": f"Bearer {hub.key}"}
            url = f"{hub.url}/v1/sessions/{sid}/events"
            event: dict[str, object] = {
                "timestamp": "2026-08-21T09:00:00Z",
                "type": "x.own",
                "data": {},
            }
            httpx2.post(url, json=event, headers=headers).raise_for_status()
            assert len(httpx2.get(url, headers=headers).json()["data"]) == count
        assert servers
        assert not any(is_alive(server) for server in servers)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--keys", "/nonexistent"], b"keys file"),
        (["--key", "two words"], b"printable ASCII"),
        (["--key", "k", "--allow-origin", "nonsense"], b"no origin"),
        (["--key", "k", "--host", "nonsense.invalid"], b"--host"),
        (["--redis-url", "http://127.0.0.1"], b"redis://"),
    ],
)
def test_a_wrong_setting_is_one_line(
    redis_url: str, tmp_path: Path, args: list[str], says: bytes
) -> None:
    done = run("serve", "--port", "0", "--redis-url", redis_url, *args, env=environment(tmp_path))
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_every_option_is_also_a_variable(redis_url: str, tmp_path: Path) -> None:
    env = environment(
        tmp_path,
        SESSIONWIRE_PORT="0",
        SESSIONWIRE_REDIS_URL=redis_url,
        SESSIONWIRE_DATA_DIR=str(tmp_path / "elsewhere"),
        SESSIONWIRE_KEY="of-my-own",
        SESSIONWIRE_ALLOW_ORIGIN="https://a.example,https://b.example",
    )
    with started("serve", env=env) as process:
        path = tmp_path / "elsewhere" / "hub.json"
        eventually(path.exists)
        url = json.loads(path.read_text())["url"]
        headers = {"Authorization": "of-my-own", "Origin": "https://b.example"}
        answer = httpx2.get(f"{url}/v1/sessions", headers=headers)
        assert answer.headers["access-control-allow-origin"] == "https://b.example"
        process.terminate()
        assert process.wait(DEADLINE_S) == 0


def test_sigterm_tells_the_streams_before_it_ends(redis_url: str, sid: str) -> None:
    with running_hub(redis_url) as hub, streaming(hub, sid) as response:
        chunks = response.iter_bytes()
        next(chunks)
        hub.terminate()
        rest = b"".join(chunks)
        assert b"event: disconnecting" in rest
        assert b'"reason":"shutdown"' in rest
        assert hub.wait() == 0


def test_a_second_signal_ends_it_at_once(redis_url: str, sid: str) -> None:
    """An upload that goes no further would otherwise hold the end up for as long as it may."""
    hub = start_hub(redis_url, env=SLOW_END)
    try:
        with socket.create_connection((hub.host, hub.port)) as stuck:
            stuck.sendall(
                f"POST /v1/sessions/{sid}/events HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n"
                f"content-type: application/x-ndjson\r\nauthorization: {hub.key}\r\n\r\n".encode()
            )
            stuck.sendall(b'{"timestamp":"2026-08-21T09:00:00Z","type":"x.own","data":{}}\n')
            hub.terminate()
            eventually(lambda: "Waiting for connections" in hub.log_text())
            since = time.monotonic()
            hub.process.send_signal(signal.SIGTERM)
            assert hub.wait() == 1
            assert time.monotonic() - since < 5
        assert "second signal" in hub.log_text()
        assert "Traceback" not in hub.log_text()
        assert not (hub.data_dir / "hub.json").exists()
    finally:
        hub.faults_allowed = True
        hub.stop()


def test_the_access_log_has_no_query(redis_url: str) -> None:
    """Tickets stand there."""
    with running_hub(redis_url, env={"access_log": True}) as hub:
        hub.get("/v1/sessions?q=needle&ticket=hidden")
        eventually(lambda: "GET /v1/sessions HTTP" in hub.log_text())
        assert "needle" not in hub.log_text()
        assert "hidden" not in hub.log_text()


def test_requests_are_not_logged_unless_that_is_asked_for(redis_url: str) -> None:
    with running_hub(redis_url) as hub:
        hub.get("/v1/sessions")
        hub.terminate()
        assert hub.wait() == 0
        assert "GET /v1" not in hub.log_text()


def test_workers_share_the_port_and_drain_together(redis_url: str, sid: str) -> None:
    with running_hub(redis_url, args=["--workers", "2"]) as hub:
        workers = children(hub.pid)
        assert len(workers) == 2
        with streaming(hub, sid) as response:
            chunks = response.iter_bytes()
            next(chunks)
            hub.terminate()
            assert b'"reason":"shutdown"' in b"".join(chunks)
        assert hub.wait() == 0
        assert not any(is_alive(worker) for worker in workers)


def test_a_worker_that_dies_is_replaced(redis_url: str) -> None:
    with running_hub(redis_url, args=["--workers", "2"]) as hub:
        first, second = children(hub.pid)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: len(set(children(hub.pid)) - {first}) == 2)
        assert second in children(hub.pid)
        eventually(hub.is_ready)


def test_workers_do_not_outlive_a_parent_that_is_killed(redis_url: str) -> None:
    hub = start_hub(redis_url, args=["--workers", "2"])
    workers = children(hub.pid)
    hub.kill()
    eventually(lambda: not any(is_alive(worker) for worker in workers))
    hub.stop()


@pytest.mark.anyio
async def test_workers_that_cannot_start_end_the_parent() -> None:
    """A Redis URL of no known kind, which `serve` itself would have refused before."""
    settings = Settings(redis_url="http://127.0.0.1", key="k", workers=2)
    with bind("127.0.0.1", 0) as listener, pytest.raises(ExceptionGroup) as caught:
        await run_workers(settings, listener, anyio.Event(), pytest.fail)
    assert caught.group_contains(CannotStart)
