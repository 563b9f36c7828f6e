"""Every kind of prompt takes an answer in its own words, and refuses any other (protocol.md §8)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, copilot, events_of, publish
from tests.contract.prompting import (
    ALLOW,
    REJECT,
    answer,
    answered,
    ask,
    ask_calls,
    look,
    open_ids,
    open_prompts,
    permit,
    prompts,
    tool,
)
from tests.contract.test_commands import acknowledge, hosting, read
from tests.contract.test_publish import check_problem
from tests.contract.wire import Connection, open_stream, request
from tests.hub_process import HubProcess
from tests.schemas.test_answers import ANSWERS, WRONG

pytestmark = pytest.mark.anyio

CLOSED_BY = {
    "mcp.oauth_required": "mcp.oauth_completed",
    "mcp.headers_refresh_required": "mcp.headers_refresh_completed",
    "command.execute": "command.completed",
    "command.queued": "command.completed",
}


def closer_of(opener: str) -> str:
    return CLOSED_BY.get(opener, opener.replace(".requested", ".completed"))


def named(case: tuple[str, Any, Any]) -> str:
    return f"{case[0]}-{json.dumps(case[1])}"


@pytest.mark.parametrize(
    ("opener", "value", "members"), ANSWERS, ids=[named(case) for case in ANSWERS]
)
@proves("prompt-kinds")
async def test_an_answer_becomes_the_completed_event_of_its_kind(
    hub: HubProcess,
    other_hub: HubProcess,
    session: str,
    opener: str,
    value: Any,
    members: dict[str, Any],
) -> None:
    await publish(hub, session, copilot(opener, {"requestId": "r1"}))
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1&from=now") as stream:
        await stream.until("caught_up")
        won = await answered(other_hub, session, "r1", value)
        (frame,) = (await stream.until(closer_of(opener)))[-1:]
    assert frame.json()["data"] == {"requestId": "r1", **members}
    assert won["status"] == "completed"
    secret = opener.startswith("mcp.")
    assert won["answer"] == ({"redacted": True} if secret else value)
    async with hosting(other_hub, session) as (host, _):
        (command,) = read(await host.take(1))
        assert command["data"].get("answer") == value, "the host gets it as it was given"


@pytest.mark.parametrize(
    ("opener", "value", "pointers"), WRONG, ids=[named(case) for case in WRONG]
)
@proves("prompt-kinds", "prompt-refused")
async def test_a_wrong_answer_is_refused_with_its_faults_and_changes_nothing(
    hub: HubProcess, session: str, opener: str, value: Any, pointers: list[str]
) -> None:
    await publish(hub, session, copilot(opener, {"requestId": "r1"}))
    before = await look(hub, session, "r1")
    problem = check_problem(await answer(hub, session, "r1", value), 422, "invalid_answer")
    assert sorted(fault["pointer"] for fault in problem["faults"]) == sorted(pointers)
    assert all(fault["message"] for fault in problem["faults"])
    assert await look(hub, session, "r1") == before


@proves("prompt-kinds")
async def test_an_answer_is_checked_against_what_was_asked(hub: HubProcess, session: str) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    plan = {"requestId": "e1", "summary": "s", "planContent": "p", "actions": ["exit_only"]}
    await publish(
        hub,
        session,
        [
            ask("u1", choices=["a", "b"], allowFreeform=False),
            copilot(
                "elicitation.requested",
                {"requestId": "f1", "message": "?", "requestedSchema": form},
                ephemeral=True,
            ),
            copilot(
                "exit_plan_mode.requested",
                {**plan, "recommendedAction": "exit_only"},
                ephemeral=True,
            ),
            permit("p1"),
        ],
    )
    wrong: list[tuple[str, Any, str]] = [
        ("u1", {"answer": "c"}, "/answer"),
        ("f1", {"action": "accept", "content": {"n": "5"}}, "/content/n"),
        ("e1", {"approved": True, "selectedAction": "autopilot"}, "/selectedAction"),
        ("p1", {"kind": "approved"}, "/kind"),
        ("p1", {"kind": "approve-for-session", "approval": {"kind": "read"}}, "/approval/kind"),
    ]
    for rid, value, place in wrong:
        problem = check_problem(await answer(hub, session, rid, value), 422, "invalid_answer")
        assert [fault["pointer"] for fault in problem["faults"]] == [place], (rid, problem)
    assert await open_ids(hub, session) == ["u1", "f1", "e1", "p1"]
    right: list[tuple[str, Any]] = [
        ("u1", {"answer": "a"}),
        ("f1", {"action": "accept", "content": {"n": 5}}),
        ("e1", {"approved": True, "selectedAction": "exit_only"}),
        ("p1", {"kind": "approve-for-session"}),
    ]
    for rid, value in right:
        await answered(hub, session, rid, value)


@proves("prompt-kinds", "prompt-batch")
async def test_an_everruns_answer_is_checked_against_the_stored_question(
    hub: HubProcess, session: str
) -> None:
    options = [{"label": "a"}, {"label": "b"}]
    questions = [{"id": "q1", "question": "?", "options": options, "allow_other": False}]
    gated = {"tool": "bash", "fingerprint": "f1"}
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    elicitation = {"server": "s", "tool": "t", "fingerprint": "f", "requested_schema": schema}
    await publish(hub, session, ask_calls("q", name="ask_user", questions=questions))
    await publish(hub, session, ask_calls("tool_approval_1", name="approve_tool_call", **gated))
    await publish(
        hub, session, ask_calls("e", name="ask_user", questions=[], elicitation=elicitation)
    )
    await publish(hub, session, ask_calls("c"))
    kinds = {each["request_id"]: each["kind"] for each in await open_prompts(hub, session)}
    assert kinds == {
        "q": "question",
        "tool_approval_1": "approval",
        "e": "elicitation",
        "c": "tool",
    }
    wrong: list[tuple[str, Any]] = [
        ("q", {"answers": [{"id": "q1", "selected": ["c"]}]}),
        ("q", {"answers": [{"id": "q2", "selected": ["a"]}]}),
        ("tool_approval_1", {"decision": "maybe"}),
        ("e", {"action": "accept", "content": {"n": "1"}}),
        ("c", {}),
    ]
    for rid, value in wrong:
        check_problem(await answer(hub, session, rid, value), 422, "invalid_answer")
    right: list[tuple[str, Any]] = [
        ("q", {"answers": [{"id": "q1", "selected": ["b"]}]}),
        ("tool_approval_1", {"decision": "allow_always"}),
        ("e", {"action": "accept", "content": {"n": 1.5}}),
        ("c", {"error": "boom"}),
    ]
    for rid, value in right:
        assert (await answered(hub, session, rid, value))["status"] == "completed"
    page = await call(hub, "GET", f"/v1/sessions/{session}/events?types=tool.completed")
    states = {each["data"]["tool_call_id"]: each["data"]["status"] for each in page["data"]}
    assert states == dict.fromkeys(("q", "tool_approval_1", "e"), "success") | {"c": "error"}


ODD_BODIES: list[tuple[bytes, int, str]] = [
    (b"[]", 422, "invalid_body"),
    (b'"x"', 422, "invalid_body"),
    (b'{"answer":{"kind":"approve-once"},"odd":1}', 422, "invalid_body"),
    (b'{"answer":{"kind":"approve-once"},"comment":1}', 422, "invalid_body"),
    (b'{"answer":{"kind":"approve-once"},"claim_id":""}', 422, "invalid_body"),
    (b'{"answer":{"kind":"approve-once"}', 400, "malformed_json"),
    (b'{"answer":NaN}', 400, "malformed_json"),
    (b'{"answer":"\\ud800"}', 400, "malformed_json"),
    (b'{"answer":"\xff"}', 400, "malformed_json"),
    (b'{"answer":' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400, "malformed_json"),
    (b'{"answer":1e999}', 422, "invalid_answer"),
    (b'{"answer":' + b"9" * 300 + b"}", 422, "invalid_answer"),
    (b'{"answer":{"kind":"approve-once","kind2":true}}', 422, "invalid_answer"),
    (b"", 422, "invalid_answer"),
    (b'{"comment":"x"}', 422, "invalid_answer"),
    (b'{"answer":"' + b"x" * 1_048_577 + b'"}', 413, "body_too_large"),
]


@pytest.mark.parametrize(
    ("body", "status", "code"), ODD_BODIES, ids=[str(n) for n in range(len(ODD_BODIES))]
)
@proves("prompt-refused")
async def test_an_odd_body_is_refused_and_changes_nothing(
    hub: HubProcess, session: str, body: bytes, status: int, code: str
) -> None:
    await publish(hub, session, permit("p1"))
    before = await look(hub, session, "p1")
    path = prompts(session, "p1", "answer")
    check_problem(await request(hub, "POST", path, body=body), status, code)
    plain = {"Content-Type": "text/plain"}
    refused = await request(hub, "POST", path, body=b"x", headers=plain)
    check_problem(refused, 415, "unsupported_media_type")
    assert await look(hub, session, "p1") == before


@proves("prompt-kinds")
async def test_numbers_and_texts_of_an_answer_arrive_as_they_were(
    hub: HubProcess, session: str
) -> None:
    value = {
        "textResultForLlm": 'é\u2028\U0001f600\x00 \\ "',
        "toolTelemetry": {"big": 2**53 + 1, "small": -(2**63), "real": 0.1, "none": None},
    }
    await publish(hub, session, tool("x1"))
    won = await answered(hub, session, "x1", {"result": value})
    assert won["answer"] == {"result": value}
    async with hosting(hub, session) as (host, _):
        (command,) = read(await host.take(1))
    assert command["data"]["answer"] == {"result": value}


WORDS = (
    *("action", "answer", "approved", "content", "error", "feedback", "handled", "headers"),
    *("kind", "model", "result", "role", "selectedAction", "wasFreeform", "accessToken"),
)


def anything(chance: random.Random, depth: int = 3) -> Any:
    """Some JSON value, with the members that answers have more often than others."""
    plain = (None, True, 0, -1, 1.5, 2**63 - 1, "", "yes", "approve-once", "accept", "\u0000é")
    kind = chance.randrange(4) if depth else 0
    if kind < 2:
        return chance.choice(plain)
    if kind == 2:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(3))]
    names = chance.sample(WORDS, chance.randrange(4))
    return {name: anything(chance, depth - 1) for name in names}


@pytest.mark.parametrize("seed", range(4))
@proves("prompt-refused")
async def test_no_answer_makes_the_hub_fail(hub: HubProcess, session: str, seed: int) -> None:
    """Whatever is sent is taken, or refused with a code of its own; nothing else happens."""
    chance = random.Random(seed)
    openers = sorted({opener for opener, _, _ in ANSWERS} | {"permission.requested"})
    asked = {f"{opener}/{n}": opener for opener in openers for n in range(12)}
    await publish(hub, session, [copilot(o, {"requestId": rid}) for rid, o in asked.items()])
    left = set(asked)
    async with Connection(hub) as connection:
        for rid in asked:
            given = await answer(connection, session, rid, anything(chance))
            if given.status == 200:
                left.discard(rid)
                assert given.json()["status"] == "completed"
            else:
                check_problem(given, 422, "invalid_answer")
    page = await call(hub, "GET", f"{prompts(session)}?limit=200")
    assert {each["request_id"] for each in page["data"]} == left


RIDS = [
    "a/b",
    "a%2Fb",
    "é ü",
    "日本語",
    "x" * 256,
    "é" * 128,
    "a?b#c&d=e+f",
    '"\\',
    "..",
    ".",
    " ",
    "a\nb\x00",
    "answer",
    "p:1",
]


@pytest.mark.parametrize("rid", RIDS, ids=[str(n) for n in range(len(RIDS))])
@proves("prompt-rid")
async def test_any_request_id_can_be_asked_for_and_answered(
    hub: HubProcess, other_hub: HubProcess, session: str, rid: str
) -> None:
    await publish(hub, session, [tool(rid), tool("other", "call_2")])
    assert (await look(other_hub, session, rid))["request_id"] == rid
    encoded = "".join(f"%{byte:02x}" for byte in rid.encode())
    path = f"{prompts(session)}/{encoded}"
    assert (await call(hub, "GET", path))["request_id"] == rid
    held = await call(other_hub, "POST", f"{path}/claim", body=b"{}")
    won = await answered(hub, session, rid, {"result": "x"}, claim_id=held["claim_id"])
    assert (won["request_id"], won["status"]) == (rid, "completed")
    assert await open_ids(other_hub, session) == ["other"]
    async with hosting(hub, session) as (host, _):
        (command,) = read(await host.take(1))
        assert command["data"]["request_id"] == rid
        assert (await acknowledge(hub, session, command["id"])).status == 200


@proves("prompt-rid")
async def test_a_request_id_that_is_too_long_opens_nothing(hub: HubProcess, session: str) -> None:
    long = "x" * 257
    path = f"/v1/sessions/{session}/events"
    given = await request(hub, "POST", path, body=json.dumps(tool(long)).encode())
    assert given.status in (200, 422), given
    await publish(hub, session, tool("y"))
    assert await open_ids(hub, session) == ["y"]
    check_problem(await request(hub, "GET", prompts(session, long)), 404, "prompt_not_found")
    bad = await request(hub, "GET", f"{prompts(session)}/%ff")
    check_problem(bad, 400, "invalid_parameter")


@proves("prompt-open")
async def test_filters_hide_events_and_never_a_prompt(hub: HubProcess, session: str) -> None:
    asked = {**permit("sub"), "agentId": "a1"}
    await publish(hub, session, [permit("main"), asked])
    query = "control=1&agents=primary&exclude=permission.requested"
    async with open_stream(hub, f"/v1/sessions/{session}/sse?{query}") as stream:
        told = await stream.until("caught_up")
        assert events_of(told) == []
    assert await open_ids(hub, session) == ["main", "sub"]
    assert (await answered(hub, session, "sub", REJECT))["agent_id"] == "a1"
    await answered(hub, session, "main", ALLOW)
