"""Answers to everruns calls: what the agent is told, and what fits no question."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionwire_schemas.answers import Answer
from tests.schemas.answering import answer, faults
from tests.schemas.prompting import call, requested


def text(found: Answer) -> Any:
    """Return what an everruns answer tells the agent."""
    (part,) = found.closer.data["result"]
    return part["text"]


def test_a_tool_returns_any_json_or_an_error() -> None:
    opener = requested(call("c1"), call("c2"))
    assert text(answer(opener, {"result": "plain"}, "c2")) == "plain"
    assert json.loads(text(answer(opener, {"result": {"ok": [1, None]}}, "c1"))) == {
        "ok": [1, None]
    }
    nothing = answer(opener, {"tool_call_id": "c1", "result": None, "error": None}, "c1").closer
    assert nothing.data["status"] == "success"
    failed = answer(opener, {"error": "boom"}, "c1").closer.data
    assert (failed["status"], failed["success"], failed["error"]) == ("error", False, "boom")
    assert failed["tool_name"] == ""
    assert faults(opener, {}, "c1") == [""]
    assert faults(opener, {"tool_call_id": "c2", "result": 1}, "c1") == ["/tool_call_id"]


QUESTIONS = [
    {"id": "q1", "question": "?", "options": [{"label": "a"}, {"label": "b"}]},
    {"id": "q2", "options": ["x", "y"], "multi_select": False, "allow_other": False},
    {"id": "q3", "required": False},
]


def test_a_set_of_questions_is_answered_label_by_label() -> None:
    opener = requested(call("c1", "ask_user", questions=QUESTIONS))
    replies = [
        {"id": "q1", "selected": ["a", "b"]},
        {"id": "q2", "selected": ["x"]},
    ]
    said = json.loads(text(answer(opener, {"answers": replies}, "c1")))
    assert said == {"status": "answered", "answers": replies}
    free = [{"id": "q1", "other_text": "c"}, {"id": "q2", "selected": ["y"]}]
    answer(opener, {"status": "answered", "answers": free}, "c1")
    declined = answer(opener, {"status": "declined"}, "c1")
    assert json.loads(text(declined))["status"] == "declined"


Q1_A = {"id": "q1", "selected": ["a"]}
Q2_X = {"id": "q2", "selected": ["x"]}


@pytest.mark.parametrize(
    ("replies", "pointers"),
    [
        ([Q1_A], ["/answers"]),
        ([], ["/answers", "/answers"]),
        ([Q1_A | {"selected": ["c"]}, Q2_X], ["/answers/0/selected/0"]),
        ([Q1_A, Q2_X | {"selected": ["x", "y"]}], ["/answers/1/selected"]),
        ([Q1_A, {"id": "q2", "other_text": "z"}], ["/answers/1/other_text"]),
        ([{"id": "q1"}, Q2_X], ["/answers/0"]),
        ([Q1_A, Q1_A, Q2_X], ["/answers/1/id"]),
        ([Q1_A, Q2_X, {"id": "q9"}], ["/answers/2/id"]),
        ([{"id": 1}], ["/answers/0/id"]),
    ],
)
def test_a_reply_that_fits_no_question_is_refused(replies: Any, pointers: list[str]) -> None:
    opener = requested(call("c1", "ask_user", questions=QUESTIONS))
    assert faults(opener, {"answers": replies}, "c1") == pointers


def test_an_approval_tells_the_agent_its_outcome() -> None:
    opener = requested(call("tool_approval_1", "approve_tool_call", tool="rm"))
    for decision in ("allow", "allow_always", "reject", "reject_always", "not_approved"):
        found = answer(opener, {"decision": decision}, "tool_approval_1")
        assert json.loads(text(found)) == {"outcome": decision}
    assert faults(opener, {"decision": "maybe"}, "tool_approval_1") == ["/decision"]
    assert faults(opener, {"result": "allow"}, "tool_approval_1") != []


def test_an_everruns_elicitation_is_answered_either_way() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    elicitation = {"server": "srv", "tool": "t", "requested_schema": schema}
    opener = requested(call("c1", "ask_user", questions=QUESTIONS, elicitation=elicitation))
    found = answer(opener, {"action": "accept", "content": {"n": 1.5}}, "c1")
    assert json.loads(text(found)) == {"action": "accept", "content": {"n": 1.5}}
    assert faults(opener, {"action": "accept", "content": {}}, "c1") == ["/content/n"]
    replies = [{"id": "q1", "selected": ["a"]}, {"id": "q2", "selected": ["x"]}]
    answer(opener, {"answers": replies}, "c1")
