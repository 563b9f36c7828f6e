"""The examples of the SDK page run as they say, against a real hub."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.hub_process import HubProcess, running_hub

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url) as running:
        yield running


def environment(hub: HubProcess, **more: str) -> dict[str, str]:
    ours = {"SESSIONWIRE_URL": hub.url, "SESSIONWIRE_KEY": hub.key, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **ours, **more}


def run(hub: HubProcess, name: str, *args: str, cwd: Path | None = None, **more: str) -> str:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        env=environment(hub, **more),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def running(hub: HubProcess, name: str, *args: str) -> Generator[IO[str]]:
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / name, *args],
        env=environment(hub),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_an_agent_asks_people_answer_and_a_follower_sees_it(
    hub: HubProcess, sid: str, tmp_path: Path
) -> None:
    with running(hub, "sdk_agent.py", sid):
        said = run(hub, "sdk_people.py", sid, "Read the notes").splitlines()
        assert sorted(said) == ["allowed: read notes.txt", "consumed", "delivered"]
        lines = run(hub, "sdk_follow.py", sid, cwd=tmp_path, UNTIL="assistant.message")
        assert lines.splitlines() == [
            *("[user.message]", "[permission.requested]", "[permission.completed]"),
            "I have read it. ",
        ]
        run(hub, "sdk_people.py", sid, "And again")
        again = run(hub, "sdk_follow.py", sid, cwd=tmp_path, UNTIL="assistant.message")
        assert again == lines, "it goes on where it was"


def test_a_script_needs_no_event_loop(hub: HubProcess, sid: str) -> None:
    said = run(hub, "sdk_script.py", sid).splitlines()
    assert said == ["line 0", "line 1", "line 2", "accepted"]


def test_the_example_test_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    ran = subprocess.run(
        [*command, "--rootdir", tmp_path, EXAMPLES / "sdk_test.py"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
