"""The pairs: complete, and about members that events have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS
from sessionwire_schemas.pairs import Pair
from tests.schemas.corpus import NAMES
from tests.schemas.test_types import pinned

_ENVELOPE = {"agentId", "context.turn_id", "context.exec_id", "context.span_id"}


def every_pair() -> list[Any]:
    return [
        pytest.param(name, pair, id=f"{name}-{pair.id}")
        for name in NAMES
        for pair in CATALOGS[name].pairs
    ]


def exists(definitions: dict[str, Any], schema: dict[str, Any], path: list[str]) -> bool:
    """Tell whether some event that fits `schema` has a member at `path`."""
    if "$ref" in schema:
        return exists(definitions, definitions[schema["$ref"].rsplit("/", 1)[-1]], path)
    if "anyOf" in schema:
        return any(exists(definitions, branch, path) for branch in schema["anyOf"])
    if not path:
        return True
    name, array, _ = path[0].partition("[]")
    inner = schema.get("properties", {}).get(name)
    if inner is None:
        return False
    return exists(definitions, inner["items"] if array else inner, path[1:])


def has(name: str, event_type: str, path: str) -> bool:
    schema = CATALOGS[name].json_schema()
    model = CATALOGS[name].types[event_type].model_name
    definitions = schema["definitions"]
    return exists(definitions, definitions[model], path.split("."))


def test_copilot_pairs_are_the_27_pinned_ones() -> None:
    entries = pinned("copilot_pairs.json")["pairs"]
    assert [pair.id for pair in COPILOT.pairs] == [entry["id"] for entry in entries]
    roles = [pair.role for pair in COPILOT.pairs]
    assert [roles.count(role) for role in ("prompt", "span", "state")] == [12, 13, 2]
    for pair, entry in zip(COPILOT.pairs, entries, strict=True):
        assert pair.role == entry["class"]
        assert pair.opens == tuple(side["type"] for side in entry["opened"])
        assert pair.closes == tuple(side["type"] for side in entry["closed"])
        assert pair.open_ephemeral == entry["open_is_ephemeral"]
        assert pair.close_ephemeral == entry["close_is_ephemeral"]
        for kinds, name in (
            (pair.kinds, "request_kinds"),
            (pair.prompt_kinds, "prompt_kinds"),
            (pair.result_kinds, "result_kinds"),
            (pair.approval_kinds, "approval_kinds"),
        ):
            assert [(k.kind, [*k.required], [*k.optional]) for k in kinds] == [
                (k["kind"], k["required"], k["optional"]) for k in entry.get(name, [])
            ]


def test_everruns_has_one_prompt_pair_and_the_spans_of_its_page() -> None:
    assert [pair.id for pair in EVERRUNS.pairs if pair.role == "prompt"] == ["tool_call"]
    assert {pair.id for pair in EVERRUNS.pairs} == {
        *("tool_call", "input", "turn", "activity", "reason", "thinking", "output_message"),
        *("act", "tool", "hosted_call", "task", "task_input", "compaction", "budget"),
        *("voice_session", "voice_input", "voice_output", "sandbox", "timer"),
    }


@pytest.mark.parametrize(("name", "pair"), every_pair())
def test_a_pair_is_made_of_types_and_members_of_its_catalog(name: str, pair: Pair) -> None:
    catalog = CATALOGS[name]
    sides = (*pair.opens, *pair.closes, *pair.progress, *pair.also_closed_by)
    assert set(sides) <= set(catalog.types)
    assert len(pair.open_key) == len(pair.close_key)
    for types, key in ((pair.opens, pair.open_key), (pair.closes, pair.close_key)):
        for event_type in types:
            for path in key:
                assert not path or has(name, event_type, path), (event_type, path)
    for path in pair.secondary_keys:
        assert any(has(name, t, path) for t in sides), path
    for path in (*pair.human_when, pair.skip_when, pair.open_when[0]):
        assert not path or has(name, pair.opens[0], path), path
    assert not pair.close_when[0] or has(name, pair.closes[0], pair.close_when[0])


@pytest.mark.parametrize(("name", "pair"), every_pair())
def test_a_pair_knows_which_of_its_events_stand_in_no_log(name: str, pair: Pair) -> None:
    types = CATALOGS[name].types
    assert pair.open_ephemeral == all(types[t].ephemeral == "always" for t in pair.opens)
    assert pair.close_ephemeral == all(types[t].ephemeral == "always" for t in pair.closes)


def test_prompts_are_known_by_their_request_id() -> None:
    for pair in COPILOT.pairs:
        if pair.role == "prompt":
            assert pair.open_key == pair.close_key == ("data.requestId",)
            assert pair.answer_method.startswith("session.")


def test_only_programs_answer_tools_commands_and_headers() -> None:
    assert {pair.id for pair in COPILOT.pairs if pair.machine} == {
        "command_execute",
        "command_queued",
        "external_tool",
        "mcp_headers_refresh",
    }


def test_a_finished_external_tool_leaves_a_durable_trace() -> None:
    (pair,) = (pair for pair in COPILOT.pairs if pair.id == "external_tool")
    assert pair.also_closed_by == ("tool.execution_complete",)
    assert pair.secondary_keys == ("data.toolCallId",)


def test_pairs_with_credentials_are_marked() -> None:
    secret = {pair.id for pair in COPILOT.pairs if pair.secret}
    assert secret == {"mcp_oauth", "mcp_headers_refresh"}
    (oauth,) = (pair for pair in COPILOT.pairs if pair.id == "mcp_oauth")
    assert oauth.requires_interest == "mcp.oauth_required"
    assert json.dumps(oauth.outcomes) == '["token", "cancelled"]'
