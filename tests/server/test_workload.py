"""The simulated agent: what it makes is valid, whole and the same every time."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import pytest

from sessionwire_schemas.catalog import COPILOT
from sessionwire_server.workload import Paced, session_events

START = datetime(2026, 8, 21, 9, tzinfo=UTC)
SEEDS = range(12)


def events(seed: int) -> list[Paced]:
    return list(session_events(seed, START, "demo"))


def of_type(seed: int, type_: str) -> list[dict[str, Any]]:
    return [paced.event for paced in events(seed) if paced.event["type"] == type_]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_is_valid(seed: int) -> None:
    validator = jsonschema_rs.validator_for(COPILOT.json_schema())
    faults = [f for paced in events(seed) for f in validator.iter_errors(paced.event)]
    assert faults == []


def test_the_same_seed_tells_the_same_session() -> None:
    assert events(3) == events(3)
    assert events(3) != events(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_ephemeral_is_so_in_the_catalog(seed: int) -> None:
    for paced in events(seed):
        assert paced.ephemeral == COPILOT.is_ephemeral(paced.event["type"], None)


@pytest.mark.parametrize("seed", SEEDS)
def test_parents_are_the_chain_of_durable_events(seed: int) -> None:
    parent = None
    for paced in events(seed):
        assert paced.event["parentId"] == parent
        parent = parent if paced.ephemeral else paced.event["id"]


@pytest.mark.parametrize("seed", SEEDS)
def test_deltas_add_up_to_the_message_that_replaces_them(seed: int) -> None:
    texts: dict[str, str] = {}
    for delta in of_type(seed, "assistant.message_delta"):
        message = delta["data"]["messageId"]
        texts[message] = texts.get(message, "") + delta["data"]["deltaContent"]
    said = {
        e["data"]["messageId"]: e["data"]["content"] for e in of_type(seed, "assistant.message")
    }
    assert texts == said


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_opened_is_closed(seed: int) -> None:
    for opened, closed, member in (
        ("tool.execution_start", "tool.execution_complete", "toolCallId"),
        ("permission.requested", "permission.completed", "requestId"),
        ("hook.start", "hook.end", "hookInvocationId"),
        ("subagent.started", "subagent.completed", "toolCallId"),
    ):
        openers = sorted(event["data"][member] for event in of_type(seed, opened))
        assert openers == sorted(event["data"][member] for event in of_type(seed, closed))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_is_of_a_believable_size_and_pace(seed: int) -> None:
    told = events(seed)
    assert 450 <= len(told) <= 900
    assert sum(not paced.ephemeral for paced in told) * 5 < len(told)
    assert 7_000 <= sum(paced.pause_ms for paced in told) <= 20_000
    assert len(of_type(seed, "subagent.started")) == 2


def test_sub_agents_work_at_the_same_time() -> None:
    agents = [p.event["agentId"] for p in events(0) if "agentId" in p.event]
    switches = sum(before != after for before, after in itertools.pairwise(agents))
    assert switches > 5
