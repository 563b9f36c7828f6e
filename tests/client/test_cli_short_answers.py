"""Short words for answers: every word that is offered makes an answer that fits its prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionwire.cli._short_answers import choices, hint, read_words
from sessionwire.cli._short_words import WordsError
from sessionwire_schemas.answers import check_answer
from sessionwire_schemas.catalog import COPILOT, EVERRUNS
from sessionwire_schemas.prompts import Asked, asked, effects
from tests.schemas.prompting import call, event, openers, requested

COLOURS = {
    "id": "colour",
    "question": "Which colour?",
    "options": [{"label": "Red"}, {"label": "Blue"}],
}
FREE = {"id": "why", "question": "Why?"}
FORM = {
    "type": "object",
    "properties": {
        "branch": {"type": "string", "default": "main"},
        "draft": {"type": "boolean", "default": False},
        "reviewers": {"type": "integer", "minimum": 0},
        "labels": {"type": "array", "items": {"type": "string", "enum": ["bug", "docs"]}},
    },
    "required": ["branch", "draft"],
}


def copilot(event_type: str, **data: Any) -> Asked:
    found = asked(COPILOT, event(event_type, {"requestId": "r", **data}), "r")
    assert found is not None
    return found


def everruns(name: str, **arguments: Any) -> Asked:
    found = asked(EVERRUNS, requested(call("c", name, **arguments)), "c")
    assert found is not None
    return found


def _of_the_corpus() -> dict[str, Asked]:
    found: dict[str, Asked] = {}
    for opener in openers():
        for opening in effects(COPILOT, opener).opens:
            one = asked(COPILOT, opener, opening.request_id)
            assert one is not None
            found[json.dumps([opener["type"], opener["data"]])] = one
    return found


CALLS = {
    "a tool": everruns("lookup", city="Berne"),
    "a question": everruns("ask_user", questions=[COLOURS]),
    "a free question": everruns("ask_user", questions=[FREE]),
    "two questions": everruns("ask_user", questions=[COLOURS, FREE]),
    "an approval": everruns("approve_tool_call", tool="bash"),
    "a form": everruns("ask_user", elicitation={"server": "s", "requested_schema": FORM}),
}


def test_the_corpus_has_openers_of_every_kind() -> None:
    kinds = {one.kind for one in [*_of_the_corpus().values(), *CALLS.values()]}
    assert len(kinds) == 14


def test_every_word_that_is_offered_is_an_answer_of_its_prompt() -> None:
    for one in [*_of_the_corpus().values(), *CALLS.values()]:
        for choice in choices(one):
            check_answer(one, read_words(one, [choice.word], "because"))
            assert choice.word in hint(one)


ASKS = copilot("user_input.requested", question="Which?", choices=["Red", "Blue"])
STRICT = copilot(
    "user_input.requested", question="Which?", choices=["Red", "Blue"], allowFreeform=False
)
SHELL = copilot(
    "permission.requested",
    permissionRequest={"kind": "shell", "fullCommandText": "ls", "canOfferSessionApproval": False},
)
URL = copilot("permission.requested", permissionRequest={"kind": "url", "url": "https://a.test/x"})
PLAN = copilot(
    "exit_plan_mode.requested",
    actions=["interactive", "autopilot_fleet"],
    recommendedAction="interactive",
)
LIMITS = copilot("session_limits_exhausted.requested", usedAiCredits=3, maxAiCredits=3)
QUEUED = copilot("command.queued", command="/help")
ELICITATION = copilot("elicitation.requested", message="m", requestedSchema=FORM)

CASES: list[tuple[str, Asked, str, Any]] = [
    ("permission", SHELL, "yes", {"kind": "approve-once"}),
    ("permission once", SHELL, "approve-once", {"kind": "approve-once"}),
    ("permission no", SHELL, "no", {"kind": "reject", "feedback": "because"}),
    ("nobody", SHELL, "user-not-available", {"kind": "user-not-available"}),
    ("a domain", URL, "permanently", {"kind": "approve-permanently", "domain": "a.test"}),
    ("a choice", ASKS, "Red", {"answer": "Red", "wasFreeform": False}),
    ("a choice in any case", ASKS, "blue", {"answer": "Blue", "wasFreeform": False}),
    ("free text", ASKS, "dark green", {"answer": "dark green", "wasFreeform": True}),
    (
        "a plan",
        PLAN,
        "approve",
        {"approved": True, "selectedAction": "interactive", "feedback": "because"},
    ),
    (
        "an action",
        PLAN,
        "autopilot-fleet",
        {"approved": True, "selectedAction": "autopilot_fleet", "feedback": "because"},
    ),
    ("no plan", PLAN, "reject", {"approved": False, "feedback": "because"}),
    ("more credits", LIMITS, "add 5", {"action": "add", "additionalAiCredits": 5}),
    ("a limit", LIMITS, "set=7.5", {"action": "set", "maxAiCredits": 7.5}),
    ("no limit", LIMITS, "unset", {"action": "unset"}),
    ("stop", LIMITS, "reject", {"action": "cancel"}),
    ("the queue", QUEUED, "stop", {"handled": True, "stopProcessingQueue": True}),
    ("not handled", QUEUED, "no", {"handled": False}),
    ("run", copilot("command.execute", command="/x"), "done", None),
    ("failed", copilot("command.execute", command="/x"), "no", {"error": "because"}),
    ("auto mode", copilot("auto_mode_switch.requested"), "approve", "yes"),
    ("always", copilot("auto_mode_switch.requested"), "yes_always", "yes_always"),
    (
        "a form",
        ELICITATION,
        "accept",
        {"action": "accept", "content": {"branch": "main", "draft": False}},
    ),
    (
        "fields",
        ELICITATION,
        "branch=fix draft=yes reviewers=2 labels=bug labels=docs",
        {
            "action": "accept",
            "content": {
                "branch": "fix",
                "draft": True,
                "reviewers": 2,
                "labels": ["bug", "docs"],
            },
        },
    ),
    ("no form", ELICITATION, "no", {"action": "decline"}),
    ("no token", copilot("mcp.oauth_required"), "cancel", {"kind": "cancelled"}),
    (
        "no headers",
        copilot("mcp.headers_refresh_required"),
        "no",
        {"kind": "none", "message": "because"},
    ),
    ("no sample", copilot("sampling.requested"), "reject", None),
    ("a result", copilot("external_tool.requested"), "forty two", {"result": "forty two"}),
    ("an error", copilot("external_tool.requested"), "reject", {"error": "because"}),
    ("JSON of a tool", CALLS["a tool"], '{"n": 1}', {"result": {"n": 1}}),
    ("text of a tool", CALLS["a tool"], "42", {"result": "42"}),
    (
        "a label",
        CALLS["a question"],
        "red",
        {"status": "answered", "answers": [{"id": "colour", "selected": ["Red"]}]},
    ),
    (
        "several answers",
        CALLS["two questions"],
        "colour=Blue why=sky",
        {
            "status": "answered",
            "answers": [
                {"id": "colour", "selected": ["Blue"]},
                {"id": "why", "other_text": "sky"},
            ],
        },
    ),
    (
        "an equals sign",
        CALLS["a free question"],
        "x=y",
        {"status": "answered", "answers": [{"id": "why", "other_text": "x=y"}]},
    ),
    ("allow", CALLS["an approval"], "approve", {"decision": "allow"}),
    ("never", CALLS["an approval"], "reject_always", {"decision": "reject_always"}),
]


@pytest.mark.parametrize(
    ("one", "said", "answer"),
    [pytest.param(one, said, answer, id=name) for name, one, said, answer in CASES],
)
def test_what_is_said_becomes_the_answer(one: Asked, said: str, answer: Any) -> None:
    assert read_words(one, said.split(), "because") == answer
    check_answer(one, answer)


@pytest.mark.parametrize(
    ("one", "said", "hinted"),
    [
        pytest.param(SHELL, "perhaps", "approve, reject", id="a permission"),
        pytest.param(SHELL, "approve-permanently", "approve", id="a permission without a domain"),
        pytest.param(STRICT, "Green", "Red, Blue", id="none of the choices"),
        pytest.param(PLAN, "autopilot", "autopilot_fleet", id="an action that is not offered"),
        pytest.param(LIMITS, "add many", "add CREDITS", id="no number"),
        pytest.param(LIMITS, "add inf", "add CREDITS", id="no number of credits"),
        pytest.param(copilot("mcp.oauth_required"), "token", "--json", id="a token in the open"),
        pytest.param(CALLS["two questions"], "Red", "QUESTION=TEXT", id="one of two questions"),
    ],
)
def test_what_is_no_answer_is_told_with_what_is(one: Asked, said: str, hinted: str) -> None:
    with pytest.raises(WordsError) as caught:
        read_words(one, said.split())
    assert hinted in str(caught.value)
    assert repr(said) in str(caught.value)


def test_a_session_approval_is_only_offered_where_it_can_be_given() -> None:
    assert [choice.word for choice in choices(SHELL)] == ["approve", "reject"]
    assert "TEXT" not in hint(STRICT)
