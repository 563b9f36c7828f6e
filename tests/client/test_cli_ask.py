"""What a person is shown before they answer, and the answers that they can give."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import pytest
from rich.console import Console

from sessionwire._prompts import PromptRecord
from sessionwire.cli._ask import ask
from sessionwire.cli._asked import MAX_LINES, one_line, parts
from sessionwire.cli._exit import CommandFailed
from sessionwire_schemas.answers import check_answer
from sessionwire_schemas.catalog import COPILOT, EVERRUNS
from sessionwire_schemas.prompts import asked, effects
from tests.schemas.prompting import openers, requested

EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"


class Typist:
    """A person who types these lines, and is seen to type the secret ones unseen."""

    def __init__(self, *lines: str) -> None:
        self.lines = deque(lines)
        self.prompts: list[str] = []
        self.unseen: list[str] = []

    def line(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.popleft()

    def secret(self, prompt: str) -> str:
        self.unseen.append(prompt)
        return self.lines.popleft()


def record(event_type: str, data: dict[str, Any], kind: str = "permission") -> PromptRecord:
    """A prompt as the hub shows it."""
    everruns = event_type == "tool.call_requested"
    envelope = {"ts": "2026-08-21T09:00:00Z"} if everruns else {"timestamp": "2026-08-21T09:00:00Z"}
    event = {"id": "e", **envelope, "type": event_type, "data": data}
    members: dict[str, Any] = {
        "request_id": "r",
        "session_id": "s",
        "kind": kind,
        "status": "pending",
        "event": event,
        "opened_at": "2026-08-21T09:00:00.000Z",
    }
    return PromptRecord.read(members)


def asking(typist: Typist, one: PromptRecord, comment: str = "") -> tuple[Any, str]:
    """Ask the typist. Returns: the answer, checked against the prompt, and what was shown."""
    shown = io.StringIO()
    console = Console(file=shown, width=200, highlight=False, markup=False, soft_wrap=True)
    what = one.asked()
    assert what is not None
    given = ask(console, one, what, typist, comment)
    check_answer(what, given)
    return given, shown.getvalue()


def shell(**more: Any) -> PromptRecord:
    request = {"kind": "shell", "fullCommandText": "rm -rf build", "intention": "Clean up", **more}
    return record("permission.requested", {"requestId": "r", "permissionRequest": request})


def test_a_command_is_shown_with_its_reason_and_the_choices() -> None:
    given, shown = asking(Typist("1"), shell(warning="deletes files"))
    assert given == {"kind": "approve-once"}
    for text in ("permission", "s r", "rm -rf build", "Clean up", "deletes files", "reject"):
        assert text in shown


def test_a_refusal_asks_why() -> None:
    typist = Typist("reject", "keep the logs")
    given, _ = asking(typist, shell())
    assert given == {"kind": "reject", "feedback": "keep the logs"}
    assert "why" in typist.prompts[-1]


def test_a_diff_is_shown_whole_or_what_is_missing_is_said() -> None:
    diff = "\n".join(f"+line {number}" for number in range(MAX_LINES + 7))
    request = {"kind": "write", "fileName": "/repo/a.py", "diff": diff, "intention": "Write"}
    one = record("permission.requested", {"requestId": "r", "permissionRequest": request})
    _, shown = asking(Typist("approve"), one)
    assert "… 7 more lines are not shown" in shown
    assert f"+line {MAX_LINES + 6}" not in shown
    _, shown = asking(Typist("more", "approve"), one)
    assert f"+line {MAX_LINES + 6}" in shown


def test_the_arguments_of_an_mcp_tool_are_shown() -> None:
    request = {"kind": "mcp", "serverName": "git", "toolName": "push", "args": {"force": True}}
    one = record("permission.requested", {"requestId": "r", "permissionRequest": request})
    _, shown = asking(Typist("approve"), one)
    assert "git / push" in shown
    assert '"force": true' in shown


def test_a_plan_is_shown_and_its_actions_are_offered() -> None:
    data = {
        "requestId": "r",
        "summary": "short",
        "planContent": "# Plan\n1. do it",
        "actions": ["interactive", "autopilot"],
        "recommendedAction": "interactive",
    }
    one = record("exit_plan_mode.requested", data, "exit_plan_mode")
    given, shown = asking(Typist("autopilot"), one)
    assert given == {"approved": True, "selectedAction": "autopilot"}
    assert "1. do it" in shown


def test_a_form_is_filled_in_field_by_field() -> None:
    schema = {
        "type": "object",
        "properties": {
            "branch": {"type": "string", "default": "main"},
            "draft": {"type": "boolean"},
            "labels": {"type": "array"},
        },
        "required": ["branch", "draft"],
    }
    data = {"requestId": "r", "message": "Where to?", "requestedSchema": schema}
    typist = Typist("accept", "", "yes", "a, b")
    given, shown = asking(typist, record("elicitation.requested", data, "elicitation"))
    content = {"branch": "main", "draft": True, "labels": ["a", "b"]}
    assert given == {"action": "accept", "content": content}
    assert "Where to?" in shown
    assert typist.prompts[1:] == ["branch [main]: ", "draft: ", "labels: "]


def test_what_does_not_fit_is_asked_again() -> None:
    given, shown = asking(Typist("perhaps", "", "{nonsense", "yes"), shell())
    assert given == {"kind": "approve-once"}
    assert "'perhaps' does not answer this prompt" in shown
    assert "that is no JSON" in shown


def test_an_answer_may_be_typed_as_json() -> None:
    given, _ = asking(Typist('{"kind": "user-not-available"}'), shell())
    assert given == {"kind": "user-not-available"}


@pytest.mark.parametrize(
    ("event_type", "kind", "lines", "given"),
    [
        pytest.param(
            "mcp.oauth_required",
            "mcp_oauth",
            ("token", "t0p"),
            {"kind": "token", "accessToken": "t0p"},
            id="a token",
        ),
        pytest.param(
            "mcp.headers_refresh_required",
            "mcp_headers",
            ("headers", "X-Key", "t0p"),
            {"kind": "headers", "headers": {"X-Key": "t0p"}},
            id="a header",
        ),
    ],
)
def test_credentials_are_typed_unseen(
    event_type: str, kind: str, lines: tuple[str, ...], given: dict[str, Any]
) -> None:
    typist = Typist(*lines)
    data = {"requestId": "r", "serverName": "srv", "serverUrl": "https://m.test"}
    said, shown = asking(typist, record(event_type, data, kind))
    assert said == given
    assert len(typist.unseen) == 1
    assert "t0p" not in shown


def test_a_terminal_that_ends_leaves_the_prompt_alone() -> None:
    with pytest.raises(CommandFailed, match="still waits"):
        asking(Typist(), shell())


def _evil(value: Any) -> Any:
    """Put what a terminal would obey into every text below."""
    if isinstance(value, dict):
        kept = ("kind", "requestId", "type", "mode", "id", "name")
        known = cast("dict[str, Any]", value)
        return {name: v if name in kept else _evil(v) for name, v in known.items()}
    if isinstance(value, list):
        return [_evil(item) for item in cast("Sequence[Any]", value)]
    return f"{value}{EVIL}" if isinstance(value, str) else value


def test_nothing_of_a_payload_reaches_the_terminal_as_a_command() -> None:
    for opener in openers():
        (opening,) = effects(COPILOT, opener).opens
        data = _evil(opener["data"])
        one = record(opener["type"], data, opening.kind)
        one = PromptRecord.read({**one.members, "request_id": opening.request_id})
        what = one.asked()
        assert what is not None
        texts = [one_line(what), *(f"{part.label}{part.text}" for part in parts(what))]
        assert not any(char in text for text in texts for char in EVIL if not char.isprintable())


def test_calls_are_shown_with_what_they_ask() -> None:
    questions = [{"id": "q", "question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]
    event = requested({"id": "r", "name": "ask_user", "arguments": {"questions": questions}})
    given, shown = asking(Typist("2"), record("tool.call_requested", event["data"], "question"))
    assert given == {"status": "answered", "answers": [{"id": "q", "selected": ["B"]}]}
    assert "Which?" in shown
    tool = {"id": "r", "name": "lookup", "arguments": {"city": "Berne"}}
    what = asked(EVERRUNS, requested(tool), "r")
    assert what is not None
    assert one_line(what) == 'tool: lookup { "city": "Berne" }'
