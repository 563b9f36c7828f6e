"""Answers: every kind can be given, makes an event that fits, and is refused where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from sessionwire_schemas.answers import AnswerError, check_answer
from sessionwire_schemas.catalog import COPILOT, EVERRUNS
from sessionwire_schemas.closers import ending_closer
from sessionwire_schemas.prompt_rules import STATE_AFTER, EndReason, PromptKind
from sessionwire_schemas.prompts import effects
from tests.schemas.answering import answer, check_fits, faults, subject
from tests.schemas.prompting import event, openers

ANSWERS: list[tuple[str, Any, dict[str, Any]]] = [
    ("user_input.requested", {"answer": "x"}, {"answer": "x", "wasFreeform": True}),
    ("elicitation.requested", {"action": "decline"}, {"action": "decline"}),
    ("elicitation.requested", {"action": "cancel", "_meta": {"a": 1}}, {"action": "cancel"}),
    ("sampling.requested", None, {}),
    (
        "sampling.requested",
        {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m", "stop": 1},
        {},
    ),
    ("exit_plan_mode.requested", {"approved": False}, {"approved": False}),
    (
        "exit_plan_mode.requested",
        {"approved": True, "autoApproveEdits": True, "feedback": None, "deferImplementation": True},
        {"approved": True, "autoApproveEdits": True},
    ),
    ("auto_mode_switch.requested", "yes", {"response": "yes"}),
    ("auto_mode_switch.requested", "yes_always", {"response": "yes_always"}),
    ("auto_mode_switch.requested", "no", {"response": "no"}),
    (
        "session_limits_exhausted.requested",
        {"action": "add", "additionalAiCredits": 5},
        {"response": {"action": "add", "additionalAiCredits": 5}},
    ),
    (
        "session_limits_exhausted.requested",
        {"action": "set", "maxAiCredits": 0.5},
        {"response": {"action": "set", "maxAiCredits": 0.5}},
    ),
    (
        "session_limits_exhausted.requested",
        {"action": "unset"},
        {"response": {"action": "unset"}},
    ),
    (
        "mcp.oauth_required",
        {"kind": "token", "accessToken": "t", "tokenType": "bearer", "expiresIn": 60},
        {"outcome": "token"},
    ),
    ("mcp.oauth_required", {"kind": "cancelled"}, {"outcome": "cancelled"}),
    (
        "mcp.headers_refresh_required",
        {"kind": "headers", "headers": {"Authorization": "Bearer t"}, "ttlMs": 5},
        {"outcome": "headers"},
    ),
    ("mcp.headers_refresh_required", {"kind": "none"}, {"outcome": "none"}),
    ("external_tool.requested", {"result": "42"}, {}),
    ("external_tool.requested", {"result": {"textResultForLlm": "42", "contents": []}}, {}),
    ("external_tool.requested", {"error": "boom"}, {}),
    ("command.execute", None, {}),
    ("command.execute", {}, {}),
    ("command.execute", {"error": "boom"}, {}),
    ("command.queued", {"handled": True, "stopProcessingQueue": True}, {}),
    ("command.queued", {"handled": False}, {}),
]


def plain(event_type: str) -> dict[str, Any]:
    """Return the least opener of a type, which asks for nothing in particular."""
    return event(event_type, {"requestId": "r1"})


@pytest.mark.parametrize(("event_type", "value", "members"), ANSWERS)
def test_an_answer_becomes_its_completed_event(
    event_type: str, value: Any, members: dict[str, Any]
) -> None:
    found = answer(plain(event_type), value)
    assert found.closer.data == {"requestId": "r1", **members}


def test_every_prompt_pair_is_answered_by_an_example_here() -> None:
    types = {t for pair in COPILOT.pairs if pair.role == "prompt" for t in pair.opens}
    assert {event_type for event_type, _, _ in ANSWERS} == types - {"permission.requested"}


WRONG: list[tuple[str, Any, list[str]]] = [
    ("user_input.requested", {}, ["/answer"]),
    ("user_input.requested", {"answer": 5}, ["/answer"]),
    ("user_input.requested", {"answer": "x", "was": 1}, ["/was"]),
    ("user_input.requested", "x", [""]),
    ("user_input.requested", None, [""]),
    ("elicitation.requested", {"action": "approve"}, ["/action"]),
    ("elicitation.requested", {"action": "decline", "content": {}}, ["/content"]),
    ("elicitation.requested", {"action": "accept", "content": {"a": {"b": 1}}}, ["/content/a"]),
    ("sampling.requested", {"role": "assistant"}, ["/content", "/model"]),
    ("exit_plan_mode.requested", {"approved": 1}, ["/approved"]),
    ("exit_plan_mode.requested", {"approved": True, "selectedAction": "go"}, ["/selectedAction"]),
    ("auto_mode_switch.requested", "maybe", [""]),
    ("auto_mode_switch.requested", {"response": "yes"}, [""]),
    ("session_limits_exhausted.requested", {"action": "add"}, ["/additionalAiCredits"]),
    ("session_limits_exhausted.requested", {"action": "set"}, ["/maxAiCredits"]),
    (
        "session_limits_exhausted.requested",
        {"action": "add", "additionalAiCredits": 0},
        ["/additionalAiCredits"],
    ),
    (
        "session_limits_exhausted.requested",
        {"action": "add", "additionalAiCredits": True},
        ["/additionalAiCredits"],
    ),
    (
        "session_limits_exhausted.requested",
        {"action": "unset", "maxAiCredits": 5},
        ["/maxAiCredits"],
    ),
    ("mcp.oauth_required", {"kind": "token"}, ["/accessToken"]),
    ("mcp.oauth_required", {"kind": "token", "accessToken": ""}, ["/accessToken"]),
    ("mcp.oauth_required", {}, ["/kind"]),
    ("mcp.headers_refresh_required", {"kind": "headers", "headers": {"a": 1}}, ["/headers/a"]),
    (
        "mcp.headers_refresh_required",
        {"kind": "headers", "headers": {"a": "1\r\nb: 2"}},
        ["/headers/a"],
    ),
    ("mcp.headers_refresh_required", {"kind": "headers", "headers": {"a b": ""}}, ["/headers/a b"]),
    ("external_tool.requested", {}, [""]),
    ("external_tool.requested", {"result": "x", "error": "y"}, [""]),
    ("external_tool.requested", {"result": {"text": "x"}}, ["/result/textResultForLlm", "/result"]),
    ("command.execute", {"handled": True}, ["/handled"]),
    ("command.queued", {}, ["/handled"]),
    ("command.queued", None, [""]),
    ("command.queued", {"handled": False, "stopProcessingQueue": True}, ["/stopProcessingQueue"]),
]


@pytest.mark.parametrize(("event_type", "value", "pointers"), WRONG)
def test_a_wrong_answer_is_refused_at_its_place(
    event_type: str, value: Any, pointers: list[str]
) -> None:
    assert sorted(faults(plain(event_type), value)) == sorted(pointers)


def test_a_fault_never_quotes_a_credential() -> None:
    for event_type, value in (
        ("mcp.oauth_required", {"kind": "token", "accessToken": {"s3cret": "s3cret"}}),
        ("mcp.headers_refresh_required", {"kind": "headers", "headers": {"a": "s3cret\n"}}),
    ):
        with pytest.raises(AnswerError) as caught:
            check_answer(subject(plain(event_type)), value)
        assert "s3cret" not in str(caught.value)


def test_a_question_without_free_text_takes_its_choices_only() -> None:
    data = {"requestId": "u1", "question": "?", "choices": ["a", "b"], "allowFreeform": False}
    opener = event("user_input.requested", data)
    assert answer(opener, {"answer": "a"}).closer.data["wasFreeform"] is False
    assert faults(opener, {"answer": "c"}) == ["/answer"]
    for free in (True, None):
        opener = event("user_input.requested", data | {"allowFreeform": free})
        assert answer(opener, {"answer": "c"}).closer.data["wasFreeform"] is True


def test_a_plan_is_left_by_one_of_its_actions() -> None:
    opener = event("exit_plan_mode.requested", {"requestId": "e1", "actions": ["exit_only"]})
    chosen = answer(opener, {"approved": True, "selectedAction": "exit_only"})
    assert chosen.closer.data["selectedAction"] == "exit_only"
    assert faults(opener, {"approved": True, "selectedAction": "autopilot"}) == ["/selectedAction"]


def test_a_form_is_filled_in_as_its_schema_says_and_a_link_is_not() -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    data = {"requestId": "e1", "message": "?", "requestedSchema": form}
    opener = event("elicitation.requested", data)
    accepted = answer(opener, {"action": "accept", "content": {"n": 5}})
    assert accepted.closer.data["content"] == {"n": 5}
    assert faults(opener, {"action": "accept", "content": {"n": "5"}}) == ["/content/n"]
    assert faults(opener, {"action": "accept"}) == ["/content/n"]
    opener = event("elicitation.requested", data | {"mode": "url", "url": "https://x.test"})
    answer(opener, {"action": "accept"})


@pytest.mark.parametrize("opener", openers(), ids=lambda one: f"{one['type']}-{one['id'][:8]}")
def test_every_example_opener_asks_something(opener: dict[str, Any]) -> None:
    (opening,) = effects(COPILOT, opener).opens
    what = subject(opener)
    assert (what.kind, what.request_id) == (opening.kind, opening.request_id)
    assert what.tool_call_id == opening.tool_call_id


@pytest.mark.parametrize("reason", STATE_AFTER)
def test_a_prompt_that_ends_has_an_event_that_fits(reason: EndReason) -> None:
    silent = reason in ("deleted", "rewind")
    kinds: set[PromptKind] = set()
    for one in openers():
        kinds.update(opening.kind for opening in effects(COPILOT, one).opens)
    assert len(kinds) == 11
    for kind in kinds:
        closer = ending_closer(COPILOT, kind, "r1", reason, tool_call_id="c1")
        assert (closer is None) == silent
        if closer is not None:
            check_fits("copilot", closer)
    calls: list[PromptKind] = ["tool", "question", "approval", "elicitation"]
    for kind in calls:
        closer = ending_closer(EVERRUNS, kind, "r1", reason)
        assert (closer is None) == silent
        if closer is not None:
            check_fits("everruns", closer)
            expired = STATE_AFTER[reason] == "expired"
            assert closer.data["status"] == ("timeout" if expired else "cancelled")
