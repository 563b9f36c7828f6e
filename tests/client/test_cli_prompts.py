"""`sessionwire prompts` and `answer` as processes against a real hub."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.command import environment, run, started
from tests.hub_process import HubProcess, running_hub

SHELL = {
    "kind": "shell",
    "fullCommandText": "rm -rf build \x1b[2J",
    "intention": "Clean up",
    "commands": [{"identifier": "rm", "readOnly": False}],
    "possiblePaths": [],
    "possibleUrls": [],
    "hasWriteFileRedirection": False,
    "canOfferSessionApproval": True,
}


@pytest.fixture(scope="module")
def hub(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[HubProcess]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    entries = [
        {"key": "reader", "scopes": ["read"], "sessions": ["*"]},
        {"key": "robot", "name": "robot", "scopes": ["read", "answer"], "sessions": ["*"]},
        {
            "key": "ann",
            "name": "Ann",
            "human": True,
            "scopes": ["read", "answer"],
            "sessions": ["*"],
        },
    ]
    keys.write_text(json.dumps(entries))
    with running_hub(redis_url, args=["--keys", str(keys)]) as process:
        yield process


@pytest.fixture
def env(tmp_path: Path, hub: HubProcess) -> dict[str, str]:
    return environment(tmp_path, hub)


@pytest.fixture
def http(hub: HubProcess, sid: str) -> Generator[httpx2.Client]:
    """A client for the hub, on which the copilot session exists."""
    with httpx2.Client(
        base_url=hub.url, headers={"Authorization": f"Bearer {hub.key}"}, timeout=30
    ) as client:
        made = client.post("/v1/sessions", json={"id": sid, "catalog": "copilot"})
        made.raise_for_status()
        yield client


def publish(http: httpx2.Client, sid: str, type_: str, **data: Any) -> None:
    event = {"type": type_, "data": data}
    http.post(f"/v1/sessions/{sid}/events", json=event).raise_for_status()


def ask(http: httpx2.Client, sid: str, rid: str = "req/1 é", **more: Any) -> str:
    """Open a permission prompt."""
    request = {**SHELL, **more}
    publish(http, sid, "permission.requested", requestId=rid, permissionRequest=request)
    return rid


def rows(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def record(http: httpx2.Client, sid: str, status: str) -> dict[str, Any]:
    found = http.get(f"/v1/sessions/{sid}/prompts", params={"status": status}).json()["data"]
    assert len(found) == 1
    one: dict[str, Any] = found[0]
    return one


def error_of(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that a failed command says."""
    text = done.stderr.decode()
    assert "Traceback" not in text
    assert text.startswith("sessionwire: ")
    assert text.count("\n") == 1
    return text


def test_open_prompts_are_listed_for_people_and_as_json(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    rid = ask(http, sid)
    publish(http, sid, "user_input.requested", requestId="u1", question="Which colour?")
    shown = run("prompts", sid, env=env).stdout.decode()
    assert f"{sid} {rid}  permission  waits for" in shown
    assert "nobody there to answer" in shown
    assert "run: rm -rf build \ufffd[2J" in shown
    assert "Which colour?" in shown
    assert "\x1b[2J" not in shown
    found = rows(run("prompts", sid, "--json", env=env).stdout)
    assert [row["request_id"] for row in found] == [rid, "u1"]
    everywhere = rows(run("prompts", "--json", env=env).stdout)
    assert rid in [row["request_id"] for row in everywhere if row["session_id"] == sid]


def test_closed_prompts_are_listed_on_demand(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    rid = ask(http, sid)
    run("answer", sid, rid, "approve", "--key", "ann", env=env)
    assert run("prompts", sid, env=env).stdout == b""
    shown = run("prompts", sid, "--all", env=env).stdout.decode()
    assert "completed, answered by Ann with 'approve-once' at" in shown


@pytest.mark.parametrize("everywhere", [False, True], ids=["one session", "every session"])
def test_watching_tells_what_is_asked_and_what_became_of_it(
    env: dict[str, str], http: httpx2.Client, sid: str, everywhere: bool
) -> None:
    """The stream of one session, or the session list: the same is told."""

    def next_of(watch: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert watch.stdout is not None
        while True:
            row: dict[str, Any] = json.loads(watch.stdout.readline())
            if row["session_id"] == sid:
                return row

    first = ask(http, sid, "first")
    args = ["prompts", "--watch", "--json"] if everywhere else ["prompts", sid, "--watch", "--json"]
    with started(*args, env=env) as watch:
        assert next_of(watch)["request_id"] == first
        second = ask(http, sid, "second")
        while (row := next_of(watch))["request_id"] != second:
            pass
        assert row["status"] == "pending"
        run("answer", sid, first, "reject", "--key", "ann", env=env)
        while (row := next_of(watch))["status"] == "pending":
            pass
        assert row["request_id"] == first
        while row["status"] != "completed":
            row = next_of(watch)
        assert row["answered_by"]["name"] == "Ann"
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 130
        assert watch.stderr is not None
        assert watch.stderr.read() == b""


def test_a_watched_session_that_is_deleted_ends_the_watching(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    ask(http, sid)
    with started("prompts", sid, "--watch", env=env) as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        http.delete(f"/v1/sessions/{sid}").raise_for_status()
        assert watch.wait(30) == 0


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        pytest.param(["approve"], {"kind": "approve-once"}, id="a word"),
        pytest.param(
            ["reject", "--comment", "not now"],
            {"kind": "reject", "feedback": "not now"},
            id="a refusal",
        ),
        pytest.param(
            ["--json", '{"kind": "approve-for-session"}'],
            {"kind": "approve-for-session"},
            id="JSON",
        ),
    ],
)
def test_an_answer_is_taken_and_kept(
    env: dict[str, str], http: httpx2.Client, sid: str, args: list[str], answer: Any
) -> None:
    rid = ask(http, sid)
    done = run("answer", sid, rid, *args, "--key", "ann", env=env)
    assert (done.returncode, done.stdout) == (0, b"answered, completed\n"), done.stderr
    kept = record(http, sid, "completed")
    assert (kept["answer"], kept["answered_by"]["name"]) == (answer, "Ann")
    assert kept.get("comment", "") == ("not now" if "--comment" in args else "")


def test_json_is_read_from_standard_input(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    publish(
        http, sid, "external_tool.requested", requestId="x", toolCallId="c", toolName="t",
        sessionId=sid,
    )  # fmt: skip
    done = run("answer", sid, "x", "--json", "-", env=env, stdin=b'{"result": "42"}')
    assert done.returncode == 0, done.stderr
    assert record(http, sid, "completed")["answer"] == {"result": "42"}


def test_a_host_that_closes_by_itself_is_waited_for(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    other = f"{sid}-host"
    made = {"id": other, "catalog": "copilot", "completion": "host"}
    http.post("/v1/sessions", json=made).raise_for_status()
    rid = ask(http, other)
    done = run("answer", other, rid, "approve", env=env)
    assert done.stdout == b"answered; its host has yet to close it\n"
    again = run("answer", other, rid, "reject", env=env)
    assert again.returncode == 4
    assert "already answered by" in error_of(again)


def test_who_comes_second_is_told_who_was_first(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    rid = ask(http, sid)
    assert run("answer", sid, rid, "approve", "--key", "ann", env=env).returncode == 0
    for args in (["reject"], ["--json", '{"kind": "reject"}']):
        late = run("answer", sid, rid, *args, "--key", "robot", env=env)
        assert late.returncode == 4
        assert "already answered by Ann with 'approve-once' at " in error_of(late)


def test_a_prompt_that_ended_says_how(env: dict[str, str], http: httpx2.Client, sid: str) -> None:
    rid = ask(http, sid)
    publish(http, sid, "abort", reason="user_initiated")
    for args in (["approve"], ["--json", '{"kind": "reject"}']):
        done = run("answer", sid, rid, *args, env=env)
        assert done.returncode == 4
        assert "it is cancelled: the agent's turn was aborted" in error_of(done)


def test_a_claimed_prompt_says_who_has_it(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    publish(
        http, sid, "external_tool.requested", requestId="x", toolCallId="c", toolName="t",
        sessionId=sid,
    )  # fmt: skip
    claim = http.post(f"/v1/sessions/{sid}/prompts/x/claim", json={}).json()
    done = run("answer", sid, "x", "forty", "two", env=env)
    assert done.returncode == 4
    assert "claimed by" in error_of(done)
    held = run("answer", sid, "x", "forty", "two", "--claim", claim["claim_id"], env=env)
    assert held.returncode == 0, held.stderr
    assert record(http, sid, "completed")["answer"] == {"result": "forty two"}


def test_what_may_not_be_answered_exits_with_3(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    rid = ask(http, sid, managedApprovalRequired=True)
    cases = (
        ("reader", rid, "forbidden"),
        ("robot", rid, "human_required"),
        ("ann", "nothing", "prompt_not_found"),
    )
    for key, request, code in cases:
        done = run("answer", sid, request, "approve", "--key", key, env=env)
        assert done.returncode == 3
        assert code in error_of(done)
    assert "for a person" in run("prompts", sid, env=env).stdout.decode()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["perhaps"], "say approve, approve-for-session, reject", id="another word"),
        pytest.param([], "no terminal to ask at; say approve", id="nothing, and no terminal"),
        pytest.param(["--json", "{"], "--json holds no JSON", id="no JSON"),
        pytest.param(["approve", "--json", "{}"], "two answers", id="two answers"),
    ],
)
def test_wrong_usage_exits_with_2_and_answers_nothing(
    env: dict[str, str], http: httpx2.Client, sid: str, args: list[str], says: str
) -> None:
    done = run("answer", sid, ask(http, sid), *args, env=env)
    assert done.returncode == 2
    assert says in error_of(done)
    assert record(http, sid, "pending")["answered_by"] is None


def test_an_answer_that_does_not_fit_exits_with_1(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    done = run("answer", sid, ask(http, sid), "--json", '{"kind": "approved"}', env=env)
    assert done.returncode == 1
    assert "invalid_answer" in error_of(done)


def test_all_is_for_one_session(env: dict[str, str]) -> None:
    done = run("prompts", "--all", env=env)
    assert done.returncode == 2
    assert "--all goes with a SESSION" in error_of(done)


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, *args: str, env: dict[str, str]) -> None:
        self._fd, inner = pty.openpty()
        command = [sys.executable, "-m", "sessionwire", *args]
        self.process = subprocess.Popen(
            command, env=env, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
        )
        os.close(inner)
        self.text = ""

    def until(self, wanted: str) -> str:
        """Read until a text is on the screen."""
        deadline = time.monotonic() + 30
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self._fd], [], [], 1)[0]:
                try:
                    self.text += os.read(self._fd, 65_536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended: {self.text}") from None
        return self.text

    def type(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        os.close(self._fd)


def test_on_a_terminal_it_shows_what_is_to_be_allowed_and_asks(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    rid = ask(http, sid, warning="deletes files")
    screen = Screen("answer", sid, rid, "--key", "ann", env={**env, "TERM": "xterm"})
    try:
        shown = screen.until("> ")
        for text in ("rm -rf build \ufffd[2J", "Clean up", "deletes files", "approve-for-session"):
            assert text in shown
        assert "\x1b[2J" not in shown
        screen.type("perhaps")
        screen.until("does not answer this prompt")
        screen.type("2")
        screen.until("answered, completed")
        assert screen.process.wait(20) == 0
    finally:
        screen.close()
    assert record(http, sid, "completed")["answer"] == {"kind": "approve-for-session"}


def test_on_a_terminal_a_form_is_filled_in(
    env: dict[str, str], http: httpx2.Client, sid: str
) -> None:
    form = {
        "type": "object",
        "properties": {"branch": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["branch", "count"],
    }
    publish(
        http, sid, "elicitation.requested", requestId="e", message="Where?", requestedSchema=form
    )
    screen = Screen("answer", sid, "e", env={**env, "TERM": "xterm"})
    try:
        screen.until("> ")
        screen.type("accept")
        screen.until("branch: ")
        screen.type("main")
        screen.until("count: ")
        screen.type("0")
        screen.until("must be at least 1")
        screen.type("branch=main count=3")
        screen.until("answered, completed")
        assert screen.process.wait(20) == 0
    finally:
        screen.close()
    content = {"branch": "main", "count": 3}
    assert record(http, sid, "completed")["answer"] == {"action": "accept", "content": content}
