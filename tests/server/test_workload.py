"""The simulated agent: what it makes is valid, whole and the same every time, and it obeys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from sessionwire_schemas.answers import check_answer
from sessionwire_schemas.catalog import COPILOT
from sessionwire_schemas.prompts import asked
from sessionwire_server.workload import Paced, Question, Reply, SimulatedAgent, Telling

START = datetime(2026, 8, 21, 9, tzinfo=UTC)
SEEDS = range(12)

USUAL: dict[str, Any] = {
    "permission.requested": {"kind": "approve-once"},
    "user_input.requested": {"answer": "Whatever you think", "wasFreeform": True},
    "exit_plan_mode.requested": {"approved": True, "selectedAction": "interactive"},
    "elicitation.requested": {"action": "accept", "content": {"branch": "fix", "draft": True}},
}


def play(telling: Telling, answers: dict[str, Any]) -> Iterator[Paced]:
    """Tell a story to its end; what is asked is answered, and the hub's events are left out."""
    reply: Reply | None = None
    while True:
        try:
            step = telling.send(reply)
        except StopIteration:
            return
        reply = None
        if isinstance(step, Question):
            yield step.opener
            what = asked(COPILOT, step.opener.event, step.request_id)
            assert what is not None
            answer = answers[step.opener.type]
            check_answer(what, answer)
            reply = Reply(answer, waited_ms=500)
        else:
            yield step


def told(seed: int, **answers: Any) -> list[Paced]:
    """Tell a whole session; `permission={…}` answers that kind otherwise than usual."""
    agent = SimulatedAgent(seed, START, "demo")
    given = USUAL | {f"{kind}.requested": answer for kind, answer in answers.items()}
    return [*play(agent.whole(), given), agent.ends()]


events = cache(told)


def of_type(paced: Iterable[Paced], type_: str) -> list[dict[str, Any]]:
    return [one.event for one in paced if one.type == type_]


def texts(paced: Iterable[Paced]) -> str:
    said = of_type(paced, "assistant.message")
    return "\n".join(event["data"]["content"] for event in said)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_is_valid(seed: int) -> None:
    validator = jsonschema_rs.validator_for(COPILOT.json_schema())
    faults = [f for paced in events(seed) for f in validator.iter_errors(paced.event)]
    assert faults == []


def test_the_same_seed_tells_the_same_session() -> None:
    assert told(3) == told(3)
    assert told(3) != told(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_ephemeral_is_so_in_the_catalog(seed: int) -> None:
    for paced in events(seed):
        assert paced.ephemeral == COPILOT.is_ephemeral(paced.type, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_parents_are_the_chain_of_durable_events(seed: int) -> None:
    parent = None
    for paced in events(seed):
        assert paced.event["parentId"] == parent
        parent = parent if paced.ephemeral else paced.event["id"]


@pytest.mark.parametrize("seed", SEEDS)
def test_deltas_add_up_to_the_message_that_replaces_them(seed: int) -> None:
    deltas: dict[str, str] = {}
    for delta in of_type(events(seed), "assistant.message_delta"):
        message = delta["data"]["messageId"]
        deltas[message] = deltas.get(message, "") + delta["data"]["deltaContent"]
    said = {
        event["data"]["messageId"]: event["data"]["content"]
        for event in of_type(events(seed), "assistant.message")
    }
    assert deltas == said


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_opened_is_closed(seed: int) -> None:
    for opened, closed, member in (
        ("tool.execution_start", "tool.execution_complete", "toolCallId"),
        ("hook.start", "hook.end", "hookInvocationId"),
        ("subagent.started", "subagent.completed", "toolCallId"),
    ):
        openers = sorted(event["data"][member] for event in of_type(events(seed), opened))
        closers = sorted(event["data"][member] for event in of_type(events(seed), closed))
        assert openers == closers


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_is_of_a_believable_size_and_pace(seed: int) -> None:
    paced = events(seed)
    assert 450 <= len(paced) <= 1_000
    assert sum(not one.ephemeral for one in paced) * 5 < len(paced)
    assert 6_000 <= sum(one.pause_ms for one in paced) <= 20_000
    assert len(of_type(paced, "subagent.started")) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_it_asks_for_a_command_a_choice_a_plan_and_a_form(seed: int) -> None:
    asks = [one.type for one in events(seed) if one.type in USUAL]
    assert set(asks) == set(USUAL)
    assert len(asks) <= 6


def test_sub_agents_work_at_the_same_time() -> None:
    agents = [p.event["agentId"] for p in events(0) if "agentId" in p.event]
    switches = sum(before != after for before, after in itertools.pairwise(agents))
    assert switches > 5


def test_a_choice_is_taken_up() -> None:
    free = told(0, user_input={"answer": "the blue one", "wasFreeform": True})
    assert "All right: the blue one." in texts(free)
    (opener,) = of_type(free, "user_input.requested")
    choice = opener["data"]["choices"][0]
    chosen = told(0, user_input={"answer": choice, "wasFreeform": False})
    assert texts(chosen) != texts(free)
    assert "All right" not in texts(chosen)


def test_a_command_that_is_not_allowed_is_not_run() -> None:
    denied = told(0, permission={"kind": "reject", "feedback": "not now"})
    asks = of_type(denied, "permission.requested")
    refused = [asked["data"]["permissionRequest"]["toolCallId"] for asked in asks]
    assert len(refused) == 2
    ran = {event["data"]["toolCallId"] for event in of_type(denied, "tool.execution_start")}
    assert ran.isdisjoint(refused)
    failed = [e["data"] for e in of_type(denied, "tool.execution_complete") if "error" in e["data"]]
    assert [data["toolCallId"] for data in failed] == refused
    assert "not now" in failed[0]["error"]["message"]


def test_an_approval_for_the_session_asks_no_more() -> None:
    once, session = told(0), told(0, permission={"kind": "approve-for-session"})
    assert len(of_type(once, "permission.requested")) == 2
    assert len(of_type(session, "permission.requested")) == 1


def test_autopilot_asks_for_no_permission_after_the_plan() -> None:
    plan = {"approved": True, "selectedAction": "autopilot"}
    assert len(of_type(told(0, exit_plan_mode=plan), "permission.requested")) == 1


def test_a_plan_that_is_rejected_is_changed_and_then_left_alone() -> None:
    rejected = told(0, exit_plan_mode={"approved": False, "feedback": "smaller steps"})
    plans = of_type(rejected, "exit_plan_mode.requested")
    assert ["smaller steps" in plan["data"]["planContent"] for plan in plans] == [False, True]
    assert of_type(rejected, "elicitation.requested") == []
    assert "I have changed nothing" in texts(rejected)


def test_the_form_decides_where_the_change_goes() -> None:
    assert "I open a draft on fix." in texts(told(0))
    declined = texts(told(0, elicitation={"action": "decline"}))
    assert "I open no pull request" in declined


def test_a_message_is_answered_and_remembered() -> None:
    agent = SimulatedAgent(0, START, "demo")
    telling = agent.whole()
    first = [next(telling) for _ in range(9)]
    assert all(isinstance(step, Paced) for step in first)
    said = [*agent.told("keep the test", "queued"), *play(agent.replies("keep the test"), {})]
    rest = [*play(telling, USUAL)]
    assert "keep the test" in texts([one for one in said if isinstance(one, Paced)])
    assert "kept in mind" in texts(rest)


def test_an_abort_leaves_a_session_that_can_go_on() -> None:
    agent = SimulatedAgent(0, START, "demo")
    telling = agent.whole()
    next(telling)
    telling.close()
    assert [one.type for one in agent.aborts()] == ["abort", "assistant.idle", "session.idle"]
    assert "Understood" in texts(play(agent.replies("go on"), {}))


def test_the_time_that_an_answer_took_has_passed_in_the_story() -> None:
    agent = SimulatedAgent(0, START, "demo")
    telling, reply = agent.whole(), None
    step = next(telling)
    while not isinstance(step, Question):
        step = telling.send(reply)
    before = datetime.fromisoformat(step.opener.event["timestamp"])
    after = telling.send(Reply(USUAL[step.opener.type], waited_ms=60_000))
    assert isinstance(after, Paced)
    assert (datetime.fromisoformat(after.event["timestamp"]) - before).total_seconds() >= 60
