"""What one event does to prompts: each pair of both catalogs, and events that nobody checked."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS
from sessionwire_schemas.closers import CLOSING_REASONS, closer_id, closer_type
from sessionwire_schemas.names import EVENT_ID_PATTERN
from sessionwire_schemas.outcomes import canonical, outcome_of
from sessionwire_schemas.paths import MAX_ITEMS
from sessionwire_schemas.prompt_rules import (
    CLAIMABLE_KINDS,
    END_RULES,
    KIND_OF_PAIR,
    SECRET_KINDS,
    STATE_AFTER,
)
from sessionwire_schemas.prompts import NO_EFFECTS, asked, effects
from tests.schemas.corpus import NAMES, events
from tests.schemas.prompting import call, event, openers, requested

_PROMPTS = [pair for pair in COPILOT.pairs if pair.role == "prompt"]


def test_the_tables_speak_of_the_catalogs_pairs_and_types() -> None:
    assert set(KIND_OF_PAIR) == {pair.id for pair in _PROMPTS}
    for name in NAMES:
        assert set(END_RULES[name]) <= set(CATALOGS[name].types)
    assert {KIND_OF_PAIR[p.id] for p in _PROMPTS if p.secret} == SECRET_KINDS
    machine = {KIND_OF_PAIR[pair.id] for pair in _PROMPTS if pair.machine and not pair.secret}
    assert machine | {"sampling", "tool"} == CLAIMABLE_KINDS


@pytest.mark.parametrize("pair", _PROMPTS, ids=lambda pair: pair.id)
def test_a_pairs_events_open_and_close_one_prompt(pair: Any) -> None:
    (opener,) = pair.opens
    (closer,) = pair.closes
    (opening,) = effects(COPILOT, event(opener, {"requestId": "r1"}, agentId="a")).opens
    assert (opening.request_id, opening.kind) == ("r1", KIND_OF_PAIR[pair.id])
    assert opening.agent_id == "a"
    assert opening.claimable == (opening.kind in CLAIMABLE_KINDS)
    assert opening.secret == pair.secret
    assert opening.resumable == (not pair.open_ephemeral)
    closing = effects(COPILOT, event(closer, {"requestId": "r1"})).closes
    assert closing is not None
    assert (closing.request_id, closing.kind) == ("r1", opening.kind)
    assert closer_type("copilot", opening.kind) == closer


def test_only_prompts_and_what_ends_them_have_effects() -> None:
    for name in NAMES:
        prompts = [pair for pair in CATALOGS[name].pairs if pair.role == "prompt"]
        known = {t for p in prompts for t in (*p.opens, *p.closes, *p.also_closed_by)}
        for one in events(name):
            if one["type"] not in known | set(END_RULES[name]):
                assert effects(CATALOGS[name], one) is NO_EFFECTS


def test_a_hook_settles_and_a_policy_wants_a_human() -> None:
    request = {"kind": "shell", "managedApprovalRequired": True}
    data: dict[str, Any] = {"requestId": "p1", "permissionRequest": request}
    (opening,) = effects(COPILOT, event("permission.requested", data)).opens
    assert (opening.human, opening.settled) == (True, False)
    data = {"requestId": "p1", "promptRequest": request, "resolvedByHook": True}
    (opening,) = effects(COPILOT, event("permission.requested", data)).opens
    assert (opening.human, opening.settled) == (True, True)
    # What is not plainly true is not true.
    data = {"requestId": "p1", "permissionRequest": request | {"managedApprovalRequired": 1}}
    (opening,) = effects(COPILOT, event("permission.requested", data | {"resolvedByHook": 1})).opens
    assert (opening.human, opening.settled) == (False, False)


def test_a_prompt_names_the_tool_call_that_waits() -> None:
    data = {"requestId": "p1", "permissionRequest": {"kind": "read", "toolCallId": "c1"}}
    (opening,) = effects(COPILOT, event("permission.requested", data)).opens
    assert opening.tool_call_id == "c1"
    (opening,) = effects(
        COPILOT, event("user_input.requested", {"requestId": "u1", "toolCallId": "c2"})
    ).opens
    assert opening.tool_call_id == "c2"
    sampling = event("sampling.requested", {"requestId": "s1", "mcpRequestId": "m1"})
    (opening,) = effects(COPILOT, sampling).opens
    assert opening.tool_call_id == ""


def test_an_everruns_batch_opens_a_prompt_for_each_call() -> None:
    batch = requested(
        call("a", "lookup", elicitation={}),
        call("tool_approval_1", "approve_tool_call", expires_at="2026-01-01T00:00:00+01:00"),
        call("q", "ask_user", questions=[]),
        call("e", "ask_user", elicitation={"server": "s"}),
        call("a", "ask_user"),
        turn_id="t1",
    )
    opens = effects(EVERRUNS, batch).opens
    assert [(one.request_id, one.kind) for one in opens] == [
        ("a", "tool"),
        ("tool_approval_1", "approval"),
        ("q", "question"),
        ("e", "elicitation"),
    ]
    assert [one.claimable for one in opens] == [True, False, False, False]
    assert [one.expires_ms for one in opens] == [None, 1_767_222_000_000, None, None]
    assert {one.turn_id for one in opens} == {"t1"}
    what = asked(EVERRUNS, batch, "q")
    assert what is not None
    assert what.data["name"] == "ask_user"
    assert asked(EVERRUNS, batch, "z") is None


def test_a_batch_opens_a_bounded_number_of_prompts() -> None:
    batch = requested(*(call(f"c{number}") for number in range(MAX_ITEMS + 5)))
    assert len(effects(EVERRUNS, batch).opens) == MAX_ITEMS


@pytest.mark.parametrize("request_id", ["", None, 7, "x" * 257, "ä" * 129])
def test_a_request_id_that_is_none_opens_nothing(request_id: Any) -> None:
    assert effects(COPILOT, event("sampling.requested", {"requestId": request_id})).opens == ()
    assert effects(EVERRUNS, requested({"id": request_id, "name": "t"})).opens == ()


@pytest.mark.parametrize(
    ("kind", "data", "same", "other"),
    [
        ("user_input", {"answer": "a"}, {"answer": "a", "wasFreeform": True}, {"answer": "b"}),
        (
            "permission",
            {"result": {"kind": "approved"}, "toolCallId": "c1"},
            {"result": {"kind": "approved"}},
            {"result": {"kind": "denied-interactively-by-user"}},
        ),
        (
            "session_limits_exhausted",
            {"response": {"action": "add", "additionalAiCredits": 5}},
            {"response": {"additionalAiCredits": 5.0, "action": "add"}},
            {"response": {"action": "add", "additionalAiCredits": 6}},
        ),
        ("mcp_headers", {"outcome": "none"}, {"outcome": "none", "x": 1}, {"outcome": "headers"}),
        ("exit_plan_mode", {"approved": True}, {"approved": True, "feedback": None}, {}),
        ("elicitation", {"action": "cancel"}, {}, {"action": "decline"}),
        (
            "permission",
            {"result": {"kind": "cancelled", "reason": "abort"}},
            {"result": {"kind": "cancelled"}},
            {"result": {"kind": "approved"}},
        ),
    ],
)
def test_outcomes_agree_where_only_descriptions_differ(
    kind: Any, data: Any, same: Any, other: Any
) -> None:
    found = outcome_of(COPILOT, kind, {"requestId": "r1", **data})
    assert found == outcome_of(COPILOT, kind, same)
    assert found != outcome_of(COPILOT, kind, other)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("permission", {"result": {"kind": "cancelled"}}),
        ("user_input", {}),
        ("elicitation", {"action": None}),
        ("exit_plan_mode", {"feedback": "x"}),
        ("mcp_oauth", {"outcome": "cancelled"}),
        ("mcp_headers", {"outcome": "timeout"}),
    ],
)
def test_some_closers_carry_no_answer(kind: Any, data: Any) -> None:
    closing = effects(
        COPILOT, event(closer_type("copilot", kind), {"requestId": "r", **data})
    ).closes
    assert closing is not None
    assert (closing.answered, closing.outcome) == (False, "")


@pytest.mark.parametrize(
    ("status", "answered"),
    [("success", True), ("error", True), ("timeout", False), ("cancelled", False)],
)
def test_a_finished_call_is_an_answer_by_its_status(status: str, answered: bool) -> None:
    data = {"tool_call_id": "a", "status": status, "success": status == "success"}
    closing = effects(EVERRUNS, event("tool.completed", data)).closes
    assert closing is not None
    assert (closing.request_id, closing.kind, closing.answered) == ("a", "", answered)


def test_a_long_outcome_is_hashed() -> None:
    long = [outcome_of(EVERRUNS, "tool", {"status": "success", "error": c * 5_000}) for c in "ab"]
    assert [len(text) for text in long] == [33, 33]
    assert long[0] != long[1]


def test_an_outcome_too_deep_to_compare_is_no_error() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert outcome_of(EVERRUNS, "tool", {"status": "success", "result": deep}) == "null"


def test_canonical_text_is_that_of_equal_values() -> None:
    assert canonical({"b": 1.0, "a": [True, None, "é"]}) == '{"a":[true,null,"\\u00e9"],"b":1}'
    assert canonical(1) != canonical(True)


def test_the_hubs_ids_are_stable_distinct_and_well_formed() -> None:
    found = {
        closer_id(catalog, session, request_id, reason)
        for catalog in NAMES
        for session in ("s1", "s2")
        for request_id in ("r1", "r2", "\ud800")
        for reason in CLOSING_REASONS
    }
    assert len(found) == 2 * 2 * 3 * len(CLOSING_REASONS)
    assert all(EVENT_ID_PATTERN.fullmatch(one) for one in found)
    assert set(CLOSING_REASONS) == (set(STATE_AFTER) - {"deleted", "rewind"}) | {"answered"}
    # Pinned: a hub of another version must make the same event.
    assert closer_id("copilot", "s1", "r1", "abort") == "0ee55b71-9b32-8554-90d5-3954fa84049a"
    assert closer_id("everruns", "s1", "r1", "abort") == "event_0ee55b719b32855490d53954fa84049a"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
_PATHS = ["data", "data.requestId", "data.tool_calls", "data.result", "data.toolCallId", "agentId"]


@given(st.data())
def test_no_event_is_an_error(data: st.DataObject) -> None:
    known = [*openers(), requested(call("a", "ask_user", expires_at="x"))]
    closers = [event(t, {}) for pair in _PROMPTS for t in (*pair.closes, *pair.also_closed_by)]
    ends = [event(name, {}) for rules in END_RULES.values() for name in rules]
    one = copy.deepcopy(data.draw(st.sampled_from(known + closers + ends)))
    for path in data.draw(st.lists(st.sampled_from(_PATHS), max_size=2, unique=True)):
        outer, _, inner = path.rpartition(".")
        place = one.get(outer) if outer else one
        if isinstance(place, dict):
            place[inner] = data.draw(_JSON)
    for catalog in (COPILOT, EVERRUNS):
        for opening in effects(catalog, one).opens:
            assert asked(catalog, one, opening.request_id) is not None
