"""The examples run as their pages say, against a real hub."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import IO
from urllib.parse import quote

import httpx2
import pytest
from playwright.async_api import Browser, expect

from tests.chromium import WAIT_MS, headless
from tests.hub_process import HubProcess, running_hub

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Generator[str]:
    """Serve the folder, as `python -m http.server` does; its origin."""
    handler = functools.partial(_Quiet, directory=str(EXAMPLES))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture(scope="module")
def hub(redis_url: str, site: str) -> Generator[HubProcess]:
    with running_hub(redis_url, args=["--allow-origin", site]) as running:
        yield running


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with headless() as running:
        yield running


def _environment(hub: HubProcess) -> dict[str, str]:
    return {
        **os.environ,
        "SESSIONWIRE_URL": hub.url,
        "SESSIONWIRE_KEY": hub.key,
        "PACE_S": "0.02",
        "PYTHONUNBUFFERED": "1",
    }


def _run(hub: HubProcess, name: str, *args: str) -> str:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        env=_environment(hub),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_quickstart_prints_both_events_with_their_cursors(hub: HubProcess) -> None:
    lines = _run(hub, "quickstart.py").splitlines()
    assert [line.split(" ")[1] for line in lines] == ["turn.started", "turn.completed"]
    assert all(re.fullmatch(r"[a-z2-7]{8}\.\d+\.\d+\.[a-z2-7]{5} \S+", line) for line in lines)


def test_the_output_shown_in_the_readme_has_the_shape_of_the_real_one() -> None:
    shown = re.findall(
        r"^([a-z2-7]{8}\.\d+\.\d+\.[a-z2-7]{5}) (\S+)$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert [kind for _, kind in shown] == ["turn.started", "turn.completed"]


def test_what_publish_writes_follow_prints_as_it_comes(hub: HubProcess, sid: str) -> None:
    _run(hub, "publish.py", sid)
    follower = subprocess.Popen(
        [sys.executable, EXAMPLES / "follow.py", sid],
        env=_environment(hub),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    try:
        replayed = _read_until(follower.stdout, "-- live --")
        _run(hub, "publish.py", sid)
        live = _read_until(follower.stdout, "[turn.completed]")
    finally:
        follower.kill()
        follower.communicate(timeout=20)
    assert "[output.message.completed]" in replayed
    assert "The retry test was flaky because two of its timers shared one clock." in live


def test_the_host_obeys_what_is_sent_to_it_also_what_was_sent_while_it_was_away(
    hub: HubProcess, sid: str
) -> None:
    def steer(*args: str) -> str:
        command = [sys.executable, "-m", "sessionwire", *args]
        done = subprocess.run(
            command, env=_environment(hub), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def hosting() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, EXAMPLES / "host.py", sid],
            env=_environment(hub),
            stdout=subprocess.PIPE,
            text=True,
        )

    first = hosting()
    try:
        assert first.stdout is not None
        _wait_for_session(hub, sid)
        assert steer("send", sid, "hello").splitlines() == ["accepted", "delivered", "consumed"]
        assert steer("abort", sid).splitlines()[-1] == "consumed"
        _read_until(first.stdout, "abort attempt 1")
    finally:
        first.kill()
        first.communicate(timeout=20)
    assert "nothing is lost" in steer("send", sid, "later", "--wait", "0")
    second = hosting()
    try:
        assert second.stdout is not None
        _read_until(second.stdout, "message.send attempt 1")
    finally:
        second.kill()
        second.communicate(timeout=20)
    exported = steer("export", sid)
    assert [json.loads(line)["type"] for line in exported.splitlines()] == [
        *("user.message", "assistant.message", "abort", "user.message", "assistant.message"),
    ]
    assert "You said: later" in exported


@pytest.fixture
def copied_key_hub(redis_url: str) -> Generator[HubProcess]:
    """A hub with the key of the pages, and without the session that they name."""
    with running_hub(redis_url, key="letmein") as running:
        yield running
        headers = {"Authorization": "Bearer letmein"}
        httpx2.delete(f"{running.url}/v1/sessions/my-session", headers=headers).raise_for_status()


def _shell(hub: HubProcess, script: str) -> list[str]:
    """Spell a page's lines as a command; of the environment only the hub's address is given."""
    return ["env", f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}",
            f"SESSIONWIRE_URL={hub.url}", "PYTHONUNBUFFERED=1", "sh", "-ec", script]  # fmt: skip


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_lines_about_answering_do_what_the_page_says(
    copied_key_hub: HubProcess, page: str
) -> None:
    text = (ROOT / page).read_text().partition("## Answer what an agent asks\n")[2]
    asks, answers = re.findall(r"^```sh\n(.*?)^```", text.partition("\n## ")[0], re.M | re.S)
    clean = {name: value for name, value in os.environ.items() if "SESSIONWIRE" not in name}
    with subprocess.Popen(
        _shell(copied_key_hub, asks.replace("python examples", "exec python examples")),
        cwd=ROOT,
        env=clean,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        try:
            assert agent.stdout is not None
            _read_until(agent.stdout, "waiting for: sessionwire answer my-session deploy-1")
            command = _shell(copied_key_hub, answers)
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=clean,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            shown = done.stdout.splitlines()
            assert re.match(
                r"my-session deploy-1  permission  waits for \d+ s, nobody there", shown[0]
            )
            assert shown[1:3] == ["    run: ./deploy.sh", "answered, completed"]
            assert _read_until(agent.stdout, " by ") == "approve-once by key\n"
            assert agent.wait(20) == 0
        finally:
            agent.kill()


def test_an_answer_waits_for_an_agent_that_is_away(hub: HubProcess, sid: str) -> None:
    def asking() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, EXAMPLES / "ask.py", sid, "deploy-1"],
            env=_environment(hub),
            stdout=subprocess.PIPE,
            text=True,
        )

    first = asking()
    try:
        assert first.stdout is not None
        _read_until(first.stdout, "waiting for")
    finally:
        first.kill()
        first.communicate(timeout=20)
    command = [sys.executable, "-m", "sessionwire", "answer", sid, "deploy-1", "reject"]
    subprocess.run(command, env=_environment(hub), timeout=60, check=True)
    second = asking()
    try:
        said, _ = second.communicate(timeout=30)
    finally:
        second.kill()
    assert said.splitlines()[-1].startswith("reject by ")


def _wait_for_session(hub: HubProcess, sid: str) -> None:
    deadline = time.monotonic() + 20
    while hub.get(f"/v1/sessions/{sid}")[0] != 200:
        assert time.monotonic() < deadline, "the host has made no session"
        time.sleep(0.05)


def _read_until(lines: IO[str], wanted: str) -> str:
    """Read up to a line; pytest's own timeout bounds the wait."""
    text = ""
    for line in lines:
        text += line
        if wanted in line:
            return text
    raise AssertionError(f"ended before {wanted!r}: {text!r}")


@pytest.mark.anyio
async def test_the_browser_page_shows_the_session_live(
    hub: HubProcess, site: str, sid: str, browser: Browser
) -> None:
    _run(hub, "publish.py", sid)
    page = await browser.new_page()
    try:
        await page.goto(f"{site}/browser.html?hub={quote(hub.url)}&session={sid}#{hub.key}")
        await expect(page.locator("#state")).to_have_text("live", timeout=WAIT_MS)
        await expect(page.locator("#events li")).to_have_count(3, timeout=WAIT_MS)
        _run(hub, "publish.py", sid)
        await expect(page.locator("#events li")).to_have_count(6, timeout=WAIT_MS)
        await expect(page.locator("#text")).to_contain_text("shared one clock", timeout=WAIT_MS)
    finally:
        await page.close()


def test_every_example_is_short_enough_to_read() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.iterdir()}
    assert {name: size for name, size in sizes.items() if not 25 <= size <= 120} == {}
