"""Answers as everruns' clients send them, all of a body or none (protocol.md §4.8, §8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.events import everruns
from tests.server.conftest import OpenHub, bearer, check_problem

pytestmark = pytest.mark.anyio

PAST = "2020-01-01T00:00:00Z"
DRINKS = [{"label": "tea"}, {"label": "coffee"}]


def tool(name: str) -> dict[str, Any]:
    return {"id": name, "name": "get_time", "arguments": {}}


def question(name: str, **more: Any) -> dict[str, Any]:
    asked = {"questions": [{"id": "q", "question": "?", "options": DRINKS}], **more}
    return {"id": name, "name": "ask_user", "arguments": asked}


def gate(name: str, **more: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"tool": f"tool of {name}", "arguments": {}, **more}
    return {"id": f"tool_approval_{name}", "name": "approve_tool_call", "arguments": arguments}


async def ask(client: httpx2.AsyncClient, sid: str, *batches: list[dict[str, Any]]) -> str:
    """Have a host ask, each batch with one event; the session's path."""
    path = f"/v1/sessions/{sid}"
    events = [
        everruns("turn.started", {"turn_id": "t", "input_message_id": "m"}, session=sid),
        *(everruns("tool.call_requested", {"tool_calls": calls}, session=sid) for calls in batches),
    ]
    answer = await client.post(f"{path}/events", json=events)
    assert answer.status_code == 200, answer.text
    return path


async def states(client: httpx2.AsyncClient, path: str, *names: str) -> list[str]:
    found = [(await client.get(f"{path}/prompts/{name}")).json()["status"] for name in names]
    return [str(state) for state in found]


def results(*names: str) -> dict[str, Any]:
    return {"tool_results": [{"tool_call_id": name, "result": {"n": 1}} for name in names]}


def decisions(**said: str) -> dict[str, Any]:
    named = {f"tool_approval_{name}": decision for name, decision in said.items()}
    return {"decisions": [{"tool_call_id": n, "decision": d} for n, d in named.items()]}


def answers(*labels: str, **more: Any) -> dict[str, Any]:
    return {"answers": [{"id": "q", "selected": list(labels)}], **more}


async def test_results_of_some_calls_leave_the_session_waiting_for_the_others(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await ask(client, sid, [tool("a"), tool("b"), tool("c")])
    first = await client.post(f"{path}/tool-results", json=results("a", "b"))
    assert first.json() == {"accepted": 2, "status": "waitingfortoolresults"}
    last = await client.post(f"{path}/tool-results", json=results("c"))
    assert last.json() == {"accepted": 1, "status": "active"}
    assert await states(client, path, "a", "b", "c") == ["completed"] * 3


async def test_a_result_may_be_nothing_or_an_error(client: httpx2.AsyncClient, sid: str) -> None:
    path = await ask(client, sid, [tool("a"), tool("b")])
    body = {"tool_results": [{"tool_call_id": "a"}, {"tool_call_id": "b", "error": "broke"}]}
    assert (await client.post(f"{path}/tool-results", json=body)).json()["accepted"] == 2
    listed = (await client.get(f"{path}/events", params={"types": "tool.completed"})).json()["data"]
    assert [event["data"]["success"] for event in listed] == [True, False]
    assert listed[1]["data"]["error"] == "broke"


async def test_a_body_with_one_bad_answer_changes_nothing(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await ask(client, sid, [tool("a"), question("asked")])
    for other, status, code in (
        ("unknown", 404, "prompt_not_found"),
        ("asked", 400, "invalid_answer"),
        ("a", 400, "invalid_body"),
    ):
        refused = await client.post(f"{path}/tool-results", json=results("a", other))
        check_problem(refused, status, code)
        assert await states(client, path, "a", "asked") == ["pending", "pending"]


async def test_the_newest_question_is_meant_where_none_is_named(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await ask(client, sid, [question("old")], [tool("t"), question("new")])
    taken = await client.post(f"{path}/question-answers", json=answers("tea"))
    assert taken.json() == {
        "status": "answered",
        "answered_by": "user",
        "session_status": "waitingfortoolresults",
    }
    assert await states(client, path, "old", "new") == ["pending", "completed"]
    named = await client.post(
        f"{path}/question-answers", json={"tool_call_id": "old", "status": "declined"}
    )
    assert named.json()["status"] == "declined"
    none = await client.post(f"{path}/question-answers", json=answers("tea"))
    check_problem(none, 404, "prompt_not_found")


async def test_a_gated_call_that_a_batch_leaves_out_is_not_approved(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await ask(client, sid, [gate("a"), gate("b"), gate("c")], [gate("other")])
    body = decisions(b="allow", a="reject_always")
    done = await client.post(f"{path}/tool-approvals", json=body)
    assert done.json() == {
        "resolved": [
            {"tool_call_id": f"tool_approval_{name}", "tool": f"tool of {name}", "outcome": outcome}
            for name, outcome in (("a", "reject_always"), ("b", "allow"), ("c", "not_approved"))
        ],
        "status": "waitingfortoolresults",
    }
    assert await states(client, path, "tool_approval_c", "tool_approval_other") == [
        "completed",
        "pending",
    ]


async def test_one_unknown_decision_refuses_them_all(client: httpx2.AsyncClient, sid: str) -> None:
    path = await ask(client, sid, [gate("a"), tool("t")])
    refused = await client.post(f"{path}/tool-approvals", json=decisions(a="allow", b="allow"))
    check_problem(refused, 404, "prompt_not_found")
    assert await states(client, path, "tool_approval_a") == ["pending"]


async def test_what_has_expired_is_a_conflict_with_its_own_code(
    client: httpx2.AsyncClient, sid: str
) -> None:
    calls = [gate("late", expires_at=PAST), question("old", expires_at=PAST), tool("t")]
    path = await ask(client, sid, calls)
    late = await client.post(f"{path}/tool-approvals", json=decisions(late="allow"))
    check_problem(late, 409, "expired")
    old = answers("tea", tool_call_id="old")
    check_problem(await client.post(f"{path}/question-answers", json=old), 409, "expired")


async def test_the_second_answer_is_told_of_the_first(client: httpx2.AsyncClient, sid: str) -> None:
    path = await ask(client, sid, [question("asked")])
    body = answers("tea", tool_call_id="asked")
    assert (await client.post(f"{path}/question-answers", json=body)).status_code == 200
    for again in (body, answers("coffee", tool_call_id="asked")):
        late = await client.post(f"{path}/question-answers", json=again)
        told = check_problem(late, 409, "prompt_already_answered")
        assert told["answer"]["answers"][0]["selected"] == ["tea"]


VERBS: Mapping[str, dict[str, Any]] = {
    "tool-results": results("a"),
    "question-answers": answers("tea"),
    "tool-approvals": decisions(a="allow"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_nothing_waits_where_nothing_was_asked(
    client: httpx2.AsyncClient, sid: str, verb: str
) -> None:
    path = await ask(client, sid)
    told = check_problem(await client.post(f"{path}/{verb}", json=VERBS[verb]), 409, "not_waiting")
    assert "not waiting for tool results" in told["error"]["message"]
    unknown = await client.post(f"/v1/sessions/{sid}-2/{verb}", json=VERBS[verb])
    check_problem(unknown, 404, "session_not_found")


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("tool-results", {}),
        ("tool-results", {"tool_results": []}),
        ("tool-results", {"tool_results": [{"result": 1}]}),
        ("tool-results", {"tool_results": [{"tool_call_id": "a", "error": 1}]}),
        ("question-answers", {"status": "timed_out"}),
        ("question-answers", {"answers": ["tea"]}),
        ("tool-approvals", {"decisions": []}),
        ("tool-approvals", {"decisions": [{"tool_call_id": "a", "decision": "maybe"}]}),
        ("tool-approvals", {"decisions": [{"tool_call_id": "a", "decision": "allow"}] * 2}),
        ("tool-approvals", decisions(**{f"n{n}": "allow" for n in range(65)})),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:60],
)
async def test_a_wrong_body_is_400(
    client: httpx2.AsyncClient, sid: str, verb: str, body: dict[str, Any]
) -> None:
    path = await ask(client, sid, [tool("a"), question("q")])
    check_problem(await client.post(f"{path}/{verb}", json=body), 400, "invalid_body")
    assert await states(client, path, "a", "q") == ["pending", "pending"]


@pytest.mark.parametrize("verb", VERBS)
async def test_answering_needs_the_scope_answer(
    open_hub: OpenHub, tmp_path: Path, sid: str, verb: str
) -> None:
    scopes = ["read", "steer", "publish"]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps([{"key": "other", "scopes": scopes, "sessions": ["*"]}]))
    async with open_hub(keys_file=file) as client:
        path = await ask(client, sid, [tool("a")])
        refused = await client.post(f"{path}/{verb}", json=VERBS[verb], headers=bearer("other"))
        check_problem(refused, 403, "forbidden")
