"""`sessionwire send` and `abort` as processes against a real hub."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.command import environment, run, started
from tests.hub_process import HubProcess, running_hub


@pytest.fixture(scope="module")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url) as process:
        yield process


@pytest.fixture
def env(tmp_path: Path, hub: HubProcess) -> dict[str, str]:
    return environment(tmp_path, hub)


@pytest.fixture
def http(hub: HubProcess, sid: str) -> Generator[httpx2.Client]:
    """A client for the hub, on which the session exists."""
    with httpx2.Client(
        base_url=hub.url, headers={"Authorization": f"Bearer {hub.key}"}, timeout=30
    ) as client:
        client.post("/v1/sessions", json={"id": sid}).raise_for_status()
        yield client


def next_command(http: httpx2.Client, sid: str) -> Any:
    """Be the host until one command has come."""
    path = f"/v1/sessions/{sid}/commands/sse"
    with http.stream("GET", path, params={"takeover": "1"}) as stream:
        assert stream.status_code == 200
        named = ""
        for line in stream.iter_lines():
            named = line.removeprefix("event: ") if line.startswith("event: ") else named
            if named == "command" and line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended")


@pytest.mark.parametrize(
    ("args", "type_", "data"),
    [
        (("send", "hello"), "message.send", {"prompt": "hello", "mode": "enqueue"}),
        (("send", "stop that", "--now"), "message.send", {"prompt": "stop that"}),
        (("abort",), "abort", {}),
        (("abort", "--reason", "wrong"), "abort", {"reason": "wrong"}),
    ],
    ids=str,
)
def test_each_stage_is_said_as_it_is_reached(
    env: dict[str, str],
    http: httpx2.Client,
    sid: str,
    args: tuple[str, ...],
    type_: str,
    data: dict[str, str],
) -> None:
    if "--now" in args:
        data = {**data, "mode": "immediate"}
    with started(args[0], sid, *args[1:], env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"accepted\n"
        command = next_command(http, sid)
        assert (command["type"], command["data"]) == (type_, data)
        assert process.stdout.readline() == b"delivered\n"
        said = {"outcome": "consumed"}
        http.post(f"/v1/sessions/{sid}/commands/{command['id']}/ack", json=said).raise_for_status()
        assert process.stdout.readline() == b"consumed\n"
        assert process.wait(20) == 0


def test_a_rejected_command_fails_with_what_the_host_said(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    with started("send", sid, "hello", env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        command = next_command(http, sid)
        said = {"outcome": "rejected", "detail": "busy\x1b[2J"}
        http.post(f"/v1/sessions/{sid}/commands/{command['id']}/ack", json=said).raise_for_status()
        assert process.wait(20) == 1
        assert process.stdout.read().decode() == "delivered\nrejected: busy\ufffd[2J\n"
        assert process.stderr.read() == b"sessionwire: the command was rejected\n"


def test_waiting_ends_and_the_command_stays(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    begun = time.monotonic()
    done = run("send", sid, "hello", "--wait", "1", env=env)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun >= 1
    first, second = done.stdout.decode().splitlines()
    assert first == "accepted"
    assert "has not read it within 1 s; nothing is lost: command_" in second
    assert next_command(http, sid)["id"] == second.rpartition(" ")[2]


def test_what_the_hub_refuses_is_said_in_one_line(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    done = run("send", f"{sid}-none", "hello", env=env)
    assert done.returncode == 3
    assert b"session_not_found" in done.stderr
    event = {"type": "session.start", "data": {"remoteSteerable": False}}
    http.post(f"/v1/sessions/{sid}/events", json=event).raise_for_status()
    done = run("abort", sid, env=env)
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"not_steerable" in done.stderr
