"""What the hub reads out of an event: messages, last values, status, title, rewinds, secrets."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS, Effects, detect
from sessionwire_schemas.paths import MAX_ITEMS, MAX_KEY_BYTES
from tests.schemas.corpus import NAMES, data_model, events

STREAMS = [
    (
        "copilot",
        ("assistant.message_delta", {"messageId": "m1", "deltaContent": "Hel"}),
        ("assistant.message", {"messageId": "m1", "content": "Hello"}),
    ),
    (
        "copilot",
        ("assistant.reasoning_delta", {"reasoningId": "r1", "deltaContent": "Hm"}),
        ("assistant.reasoning", {"reasoningId": "r1", "content": "Hmm"}),
    ),
    (
        "copilot",
        ("assistant.tool_call_delta", {"toolCallId": "c1", "inputDelta": "{"}),
        ("assistant.message", {"messageId": "m2", "toolRequests": [{"toolCallId": "c1"}]}),
    ),
    (
        "copilot",
        ("assistant.tool_call_delta", {"toolCallId": "c1", "inputDelta": "{"}),
        ("tool.execution_start", {"toolCallId": "c1", "toolName": "bash"}),
    ),
    (
        "copilot",
        ("tool.execution_partial_result", {"toolCallId": "c1", "partialOutput": "a"}),
        ("tool.execution_complete", {"toolCallId": "c1", "success": True}),
    ),
    (
        "everruns",
        ("output.message.delta", {"message_id": "m1", "delta": "l", "accumulated": "Hel"}),
        ("output.message.completed", {"message": {"id": "m1"}}),
    ),
    (
        "everruns",
        ("output.message.delta", {"message_id": "m1", "delta": "l", "accumulated": "Hel"}),
        ("output.message.replaced", {"message_id": "m1", "replacement": ""}),
    ),
    (
        "everruns",
        ("reason.thinking.delta", {"turn_id": "t1", "delta": "m", "accumulated": "Hm"}),
        ("reason.thinking.completed", {"turn_id": "t1", "thinking": "Hmm"}),
    ),
    (
        "everruns",
        ("tool.output.delta", {"tool_call_id": "c1", "stream": "stderr", "delta": "x"}),
        ("tool.completed", {"tool_call_id": "c1"}),
    ),
    (
        "everruns",
        ("voice.input_transcript.delta", {"voice_connection_id": "v", "item_id": "i"}),
        ("voice.input_transcript.completed", {"voice_connection_id": "v", "item_id": "i"}),
    ),
    (
        "everruns",
        ("voice.output_transcript.delta", {"voice_connection_id": "v", "response_id": None}),
        ("voice.output_transcript.completed", {"voice_connection_id": "v"}),
    ),
]


@pytest.mark.parametrize(("name", "delta", "closer"), STREAMS, ids=lambda value: str(value)[:60])
def test_closing_event_names_the_message_of_its_deltas(
    name: str, delta: tuple[str, dict[str, Any]], closer: tuple[str, dict[str, Any]]
) -> None:
    key = CATALOGS[name].message_key(*delta)
    assert key
    assert key in CATALOGS[name].closes(*closer)


def test_delta_rule_names_the_members_that_the_schema_has() -> None:
    for catalog in CATALOGS.values():
        rules = {name: rule for name in catalog.types if (rule := catalog.delta_rule(name))}
        assert len(rules) == {"copilot": 4, "everruns": 5}[catalog.name]
        for name, rule in rules.items():
            assert catalog.is_ephemeral(name, None)
            fields = data_model(catalog.types[name].model).model_fields
            aliases = {field.alias or key for key, field in fields.items()}
            assert {*rule.id_members, rule.text_member} <= aliases
            assert rule.accumulated_member is None or rule.accumulated_member in aliases


def test_message_key_is_readable_and_tells_streams_apart() -> None:
    assert (
        COPILOT.message_key("assistant.message_delta", {"messageId": "m"}) == "assistant.message|m"
    )
    out, err = (
        EVERRUNS.message_key("tool.output.delta", {"tool_call_id": "c", "stream": stream})
        for stream in ("stdout", "stderr")
    )
    assert (out, err) == ("tool.output|c|stdout", "tool.output|c|stderr")


@pytest.mark.parametrize(
    "data",
    [
        {},
        None,
        {"tool_call_id": "c"},
        {"tool_call_id": "c", "stream": "screen"},
        {"tool_call_id": "", "stream": "stdout"},
        {"tool_call_id": 7, "stream": "stdout"},
    ],
)
def test_a_delta_that_does_not_say_its_message_has_no_key(data: object) -> None:
    assert EVERRUNS.message_key("tool.output.delta", data) == ""


def test_ids_with_separators_make_different_keys() -> None:
    def key(connection: str, item: str) -> str:
        data = {"voice_connection_id": connection, "item_id": item}
        return EVERRUNS.message_key("voice.input_transcript.delta", data)

    assert len({key("a|b", "c"), key("a", "b|c"), key("a%7Cb", "c"), key("a", "b%7Cc")}) == 4


def test_long_ids_are_hashed_and_still_meet_their_closer() -> None:
    long, other = "m" * 300, "m" * 299 + "n"
    key = COPILOT.message_key("assistant.message_delta", {"messageId": long})
    assert len(key) < 80
    assert COPILOT.closes("assistant.message", {"messageId": long}) == (key,)
    assert COPILOT.closes("assistant.message", {"messageId": other}) != (key,)


@pytest.mark.parametrize(
    ("name", "event_type"),
    [
        *(("copilot", t) for t in ("session.idle", "abort", "session.shutdown")),
        ("copilot", "session.snapshot_rewind"),
        *(("everruns", f"turn.{end}") for end in ("completed", "failed", "cancelled", "sealed")),
        ("everruns", "session.idled"),
    ],
)
def test_an_end_closes_every_message(name: str, event_type: str) -> None:
    assert CATALOGS[name].closes(event_type, {}) == ("*",)


def test_a_resume_closes_every_message_unless_the_session_was_active() -> None:
    assert COPILOT.closes("session.resume", {"sessionWasActive": False}) == ("*",)
    assert COPILOT.closes("session.resume", {}) == ("*",)
    assert COPILOT.closes("session.resume", {"sessionWasActive": True}) == ()


def test_reason_completed_closes_the_thinking_of_its_context() -> None:
    key = EVERRUNS.message_key("reason.thinking.delta", {"turn_id": "t1"})
    assert EVERRUNS.closes("reason.completed", {}, {"turn_id": "t1"}) == (key,)
    assert EVERRUNS.closes("reason.completed", {}) == ()


def test_closed_messages_are_named_once_and_counted() -> None:
    calls = [{"toolCallId": f"c{n}"} for n in range(3000)]
    data = {"messageId": "m", "toolRequests": [*calls[:2], *calls]}
    closed = COPILOT.closes("assistant.message", data)
    assert closed[:3] == ("assistant.message|m", "assistant.tool_call|c0", "assistant.tool_call|c1")
    assert len(set(closed)) == len(closed) <= MAX_ITEMS + 1


@pytest.mark.parametrize(
    ("name", "event_type", "data", "expected"),
    [
        ("copilot", "session.title_changed", {"title": "T"}, "session.title_changed"),
        ("copilot", "session.mcp_server_status_changed", {"serverName": "gh"}, "…|gh"),
        ("copilot", "session.canvas.opened", {"instanceId": "i"}, "…|i"),
        ("copilot", "factory.run_updated", {"runId": "r", "revision": 1}, "…|r"),
        ("copilot", "factory.run_updated", {"runId": 3}, ""),
        ("copilot", "assistant.message", {}, ""),
        ("copilot", "x.unknown", {}, ""),
        ("everruns", "session.title.updated", {"title": "T"}, "session.title.updated"),
        ("everruns", "budget.paused", {"budget_id": "b"}, "…|b"),
        ("everruns", "turn.started", {}, ""),
    ],
)
def test_last_values_are_told_apart(
    name: str, event_type: str, data: dict[str, Any], expected: str
) -> None:
    assert CATALOGS[name].last_key(event_type, data) == expected.replace("…", event_type)


def test_intents_stand_side_by_side_for_each_agent() -> None:
    assert COPILOT.last_key("assistant.intent", {"intent": "x"}) == "assistant.intent"
    assert COPILOT.last_key("assistant.intent", {}, "explore") == "assistant.intent|explore"


def test_status_follows_turns_and_ends() -> None:
    active = {"user.message", "assistant.turn_start"}
    idle = {"session.idle", "abort", "session.shutdown"}
    for name in COPILOT.types:
        expected = "active" if name in active else "idle" if name in idle else ""
        assert COPILOT.status_after(name) == expected
    assert EVERRUNS.status_after("turn.started") == "active"
    assert EVERRUNS.status_after("session.activated") == "active"
    assert EVERRUNS.status_after("session.idled") == "idle"
    assert EVERRUNS.status_after("turn.completed") == ""


def test_title_comes_from_the_title_event_alone() -> None:
    assert COPILOT.title_of("session.title_changed", {"title": "T"}) == "T"
    assert EVERRUNS.title_of("session.title.updated", {"title": ""}) == ""
    assert COPILOT.title_of("session.title_changed", {"title": None}) is None
    assert COPILOT.title_of("session.info", {"title": "T"}) is None


def test_rewind_names_its_event_if_it_can_be_one() -> None:
    assert COPILOT.rewind_to("session.snapshot_rewind", {"upToEventId": "e-1"}) == "e-1"
    assert COPILOT.rewind_to("session.snapshot_rewind", {"upToEventId": "e 1"}) == ""
    assert COPILOT.rewind_to("session.info", {"upToEventId": "e-1"}) == ""
    assert EVERRUNS.rewind_to("session.snapshot_rewind", {"upToEventId": "e-1"}) == ""


def test_secrets_are_members_of_the_schema() -> None:
    assert COPILOT.secrets("mcp.oauth_required") == (
        "staticClientConfig.clientSecret",
        "httpResponse",
    )
    assert COPILOT.secrets("session.info") == ()
    definitions = COPILOT.json_schema()["definitions"]
    assert "httpResponse" in definitions["McpOauthRequiredData"]["properties"]
    assert "clientSecret" in definitions["McpOauthRequiredStaticClientConfig"]["properties"]


def test_turns_begin_with_a_type_of_the_catalog() -> None:
    for catalog in CATALOGS.values():
        assert catalog.turn_start_type in catalog.types


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.text("|%x", min_size=250, max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)

_MEMBERS = (
    *("messageId", "reasoningId", "toolCallId", "toolRequests", "message", "id", "message_id"),
    *("turn_id", "tool_call_id", "stream", "voice_connection_id", "item_id", "response_id"),
    *("title", "upToEventId", "serverName", "instanceId", "runId", "budget_id"),
    "sessionWasActive",
)

shaped = st.recursive(
    json_values | st.just([{"toolCallId": "c"}]),
    lambda inner: st.dictionaries(st.sampled_from(_MEMBERS), inner, max_size=6),
    max_leaves=12,
)


@given(
    name=st.sampled_from(NAMES),
    data=st.data(),
    payload=shaped,
    agent=json_values,
    context=shaped,
    flag=st.none() | st.booleans(),
)
def test_no_rule_raises_on_any_json(
    name: str, data: st.DataObject, payload: object, agent: object, context: object, flag: bool
) -> None:
    catalog = CATALOGS[name]
    event_type = data.draw(st.sampled_from(sorted(catalog.types)) | st.text())
    bound = 2 * (MAX_KEY_BYTES + 1) + 64
    assert isinstance(catalog.is_ephemeral(event_type, flag), bool)
    keys = (
        catalog.last_key(event_type, payload, agent),
        catalog.message_key(event_type, payload),
        *catalog.closes(event_type, payload, context),
    )
    assert all(len(key.encode()) <= bound for key in keys if key != event_type)
    assert isinstance(catalog.title_of(event_type, payload), str | None)
    assert isinstance(catalog.rewind_to(event_type, payload), str)
    assert catalog.effects(event_type, payload, agent_id=agent, context=context) == (
        *keys[:2],
        keys[2:],
        catalog.rewind_to(event_type, payload),
        catalog.status_after(event_type),
        catalog.title_of(event_type, payload),
        catalog.steerable_after(event_type, payload),
    )
    catalog.secrets(event_type)
    catalog.delta_rule(event_type)
    if isinstance(payload, dict):
        assert detect(cast("dict[str, object]", payload)) in (*NAMES, None)


@pytest.mark.parametrize("name", NAMES)
def test_effects_are_all_that_the_rules_tell_one_by_one(name: str) -> None:
    catalog = CATALOGS[name]
    for event in events(name):
        kind, data = event["type"], event["data"]
        agent, context = event.get("agentId"), event.get("context")
        assert catalog.effects(kind, data, agent_id=agent, context=context) == Effects(
            catalog.last_key(kind, data, agent),
            catalog.message_key(kind, data),
            catalog.closes(kind, data, context),
            catalog.rewind_to(kind, data),
            catalog.status_after(kind),
            catalog.title_of(kind, data),
            catalog.steerable_after(kind, data),
        )


@pytest.mark.parametrize("name", NAMES)
def test_no_durable_example_belongs_to_a_message(name: str) -> None:
    for event in events(name):
        if CATALOGS[name].message_key(event["type"], event["data"]):
            assert CATALOGS[name].is_ephemeral(event["type"], None)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("session.remote_steerable_changed", {"remoteSteerable": False}, False),
        ("session.remote_steerable_changed", {"remoteSteerable": True}, True),
        ("session.start", {"remoteSteerable": False}, False),
        ("session.start", {}, None),
        ("session.start", {"remoteSteerable": "no"}, None),
        ("session.remote_steerable_changed", None, None),
        ("session.info", {"remoteSteerable": False}, None),
    ],
)
def test_two_types_say_whether_a_session_takes_commands(name: str, data: Any, said: object) -> None:
    assert COPILOT.steerable_after(name, data) is said
    assert EVERRUNS.steerable_after(name, data) is None
