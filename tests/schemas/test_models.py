"""Typed events: what is read comes out again, known or not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sessionwire_schemas import _copilot as copilot
from sessionwire_schemas import _everruns as everruns
from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS
from sessionwire_schemas.envelope import OpenModel, UnknownEvent, UnknownKind, UnknownType
from tests.schemas.corpus import NAMES, events, nested_models, places

DELTA: dict[str, Any] = {
    "id": "98123fde-012f-4ff3-8b50-881449dac91a",
    "timestamp": "2026-08-21T09:31:03.123Z",
    "parentId": None,
    "ephemeral": True,
    "type": "assistant.message_delta",
    "data": {"messageId": "m1", "deltaContent": "Hel"},
}


def written(value: object) -> str:
    """Spell JSON with its members in their order, so that order and number types count."""
    return json.dumps(value, ensure_ascii=False)


def backwards(value: Any) -> Any:
    """Turn round the members of every object."""
    if isinstance(value, dict):
        members = cast("Mapping[str, Any]", value)
        return {key: backwards(members[key]) for key in reversed(list(members))}
    if isinstance(value, list):
        return [backwards(item) for item in cast("Sequence[Any]", value)]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_read_into_its_class_and_dumped_unchanged(name: str) -> None:
    catalog = CATALOGS[name]
    for event in events(name):
        parsed = catalog.parse(written(event).encode())
        assert type(parsed) is catalog.types[event["type"]].model
        assert written(parsed.dump()) == written(event)
        assert json.loads(parsed.dump_json()) == event


@pytest.mark.parametrize("name", NAMES)
def test_members_come_out_in_the_order_they_came_in(name: str) -> None:
    for event in events(name):
        turned = backwards(event)
        assert written(CATALOGS[name].parse(turned).dump()) == written(turned)


@pytest.mark.parametrize("name", NAMES)
def test_no_object_of_an_example_falls_back_to_unknown(name: str) -> None:
    for event in events(name):
        parsed = CATALOGS[name].parse(event)
        for model, _ in nested_models(parsed, event):
            assert not isinstance(model, UnknownEvent | UnknownKind | UnknownType), event["type"]


@pytest.mark.parametrize("name", NAMES)
def test_members_that_no_model_has_are_kept_everywhere(name: str) -> None:
    extra: dict[str, Any] = {
        "x-new": [1, {"a": None}],
        "parent_id": 1.50,
        "self": {},
        "model_config": True,
    }
    for event in events(name):
        changed = copy.deepcopy(event)
        for _, source in list(nested_models(CATALOGS[name].parse(changed), changed)):
            source.update({key: value for key, value in extra.items() if key not in source})
        parsed = CATALOGS[name].parse(written(changed))
        assert written(parsed.dump()) == written(changed)


def nulled(name: str) -> Iterator[dict[str, Any]]:
    """Yield examples with one optional member set to null, each member of each class once."""
    seen: set[tuple[type[OpenModel], str]] = set()
    for event in events(name):
        parsed = CATALOGS[name].parse(event)
        for place, (model, _) in enumerate(nested_models(parsed, event)):
            for key, field in type(model).model_fields.items():
                if field.is_required() or (type(model), key) in seen:
                    continue
                seen.add((type(model), key))
                changed = copy.deepcopy(event)
                sources = [s for _, s in nested_models(CATALOGS[name].parse(changed), changed)]
                sources[place][field.alias or key] = None
                yield changed


@pytest.mark.parametrize("name", NAMES)
def test_null_stays_apart_from_absent(name: str) -> None:
    count = 0
    for event in nulled(name):
        assert written(CATALOGS[name].parse(event).dump()) == written(event)
        count += 1
    assert count > {"copilot": 400, "everruns": 150}[name]


def test_absent_members_read_as_none_and_are_not_dumped() -> None:
    parsed = COPILOT.parse(DELTA)
    assert isinstance(parsed, copilot.AssistantMessageDeltaEvent)
    assert parsed.agent_id is None
    assert parsed.data.parent_tool_call_id is None
    assert parsed.data.delta_content == "Hel"
    assert written(parsed.dump()) == written(DELTA)


@pytest.mark.parametrize("name", NAMES)
def test_every_union_takes_kinds_that_nobody_knows(name: str) -> None:
    module = {"copilot": copilot, "everruns": everruns}[name]
    definitions = CATALOGS[name].json_schema()["definitions"]
    unions = [key for key, schema in definitions.items() if "anyOf" in schema]
    assert len(unions) == {"copilot": 10, "everruns": 4}[name]
    value = {"type": "from-the-future", "kind": "from-the-future", "depth": 3.0, "none": None}
    for union in unions:
        parsed = TypeAdapter[Any](getattr(module, union)).validate_python(value)
        assert isinstance(parsed, UnknownKind | UnknownType)
        assert parsed.dump() == value


@pytest.mark.parametrize("member", ["type", "kind"])
@pytest.mark.parametrize("name", NAMES)
def test_nested_kinds_that_nobody_knows_pass_through(name: str, member: str) -> None:
    """Any object's tag may be one from the future, wherever it stands."""
    count = 0
    for event in events(name):
        for changed, target in places(event, member):
            target[member] = "from-the-future"
            assert written(CATALOGS[name].parse(changed).dump()) == written(changed)
            count += 1
    assert count > 1


@pytest.mark.parametrize(
    ("event_type", "data", "path"),
    [
        (
            "permission.requested",
            {"requestId": "r", "permissionRequest": {"kind": "teleport", "place": {"x": 1.0}}},
            "permission_request",
        ),
        (
            "permission.completed",
            {"requestId": "r", "result": {"kind": "maybe", "odds": 2}},
            "result",
        ),
        ("system.notification", {"content": "c", "kind": {"type": "moonrise", "at": 3}}, "kind"),
    ],
)
def test_an_unknown_kind_is_an_open_object(
    event_type: str, data: dict[str, Any], path: str
) -> None:
    event = {**DELTA, "type": event_type, "data": data}
    parsed = COPILOT.parse(event)
    nested = getattr(parsed.data, path)
    assert isinstance(nested, UnknownKind | UnknownType)
    assert nested.model_extra
    assert written(parsed.dump()) == written(event)


def test_words_that_nobody_knows_are_kept() -> None:
    event = {**DELTA, "type": "abort", "data": {"reason": "meteor_strike"}}
    parsed = COPILOT.parse(event)
    assert isinstance(parsed, copilot.AbortEvent)
    assert parsed.data.reason == "meteor_strike"


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("assetId", {"type": "image", "assetId": "a", "mimeType": "m", "byteLength": 1}, "Asset"),
        (
            "omittedReason",
            {"type": "image", "mimeType": "m", "byteLength": 1, "omittedReason": "too_large"},
            "Omitted",
        ),
        ("data", {"type": "image", "data": "aGk=", "mimeType": "m"}, "Persisted"),
        ("nothing", {"type": "hologram", "depth": 3}, "Unknown"),
    ],
)
def test_binary_results_are_told_by_their_members(
    member: str, value: dict[str, Any], expected: str
) -> None:
    result = {"content": "", "binaryResultsForLlm": [value]}
    data = {"toolCallId": "c", "success": True, "result": result}
    event = {**DELTA, "type": "tool.execution_complete", "data": data}
    parsed = COPILOT.parse(event)
    assert isinstance(parsed, copilot.ToolExecutionCompleteEvent)
    assert parsed.data.result is not None
    (binary,) = parsed.data.result.binary_results_for_llm or []
    assert expected in type(binary).__name__, member
    assert written(parsed.dump()) == written(event)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ({"uri": "u", "text": "t"}, copilot.EmbeddedTextResourceContents),
        ({"uri": "u", "blob": "aGk="}, copilot.EmbeddedBlobResourceContents),
        ({"uri": "u", "stream": "s"}, UnknownType),
    ],
)
def test_embedded_resources_are_told_by_their_members(
    resource: dict[str, Any], expected: type[OpenModel]
) -> None:
    adapter: TypeAdapter[OpenModel] = TypeAdapter(
        copilot.ToolExecutionCompleteContentResourceDetails
    )
    assert type(adapter.validate_python(resource)) is expected
    assert adapter.validate_python(resource).dump() == resource


@pytest.mark.parametrize(
    ("name", "unknown"), [("copilot", "UnknownCopilotEvent"), ("everruns", "UnknownEverrunsEvent")]
)
def test_an_event_of_an_unknown_type_passes_with_its_data(name: str, unknown: str) -> None:
    event = {**next(events(name)), "type": "x.brand.new", "data": [1, {"b": None}]}
    parsed = CATALOGS[name].parse(event)
    assert type(parsed).__name__ == unknown
    assert isinstance(parsed, UnknownEvent)
    assert (parsed.type, parsed.data) == ("x.brand.new", [1, {"b": None}])
    assert written(parsed.dump()) == written(event)


@pytest.mark.parametrize("number", [3, 3.0, 2**70, -1])
def test_whole_numbers_keep_their_spelling(number: float) -> None:
    event = {**DELTA, "type": "session.context_cleared", "data": {"messagesCleared": number}}
    assert written(COPILOT.parse(event).dump()) == written(event)


@pytest.mark.parametrize("number", [3, 3.0, 0.1, 1e300])
def test_fractions_keep_their_spelling(number: float) -> None:
    data = {"usedAiCredits": number, "maxAiCredits": number, "requestId": "r"}
    event = {**DELTA, "type": "session_limits_exhausted.requested", "data": data}
    assert written(COPILOT.parse(event).dump()) == written(event)


@pytest.mark.parametrize("value", ["12", True, 2.5, None])
def test_nothing_is_turned_into_a_number(value: object) -> None:
    event = {**DELTA, "type": "session.context_cleared", "data": {"messagesCleared": value}}
    with pytest.raises(ValidationError):
        COPILOT.parse(event)


@pytest.mark.parametrize("value", [0, 1, "true"])
def test_nothing_is_turned_into_a_boolean(value: object) -> None:
    event = {**DELTA, "type": "session.idle", "data": {"aborted": value}}
    with pytest.raises(ValidationError):
        COPILOT.parse(event)


def test_times_stay_as_they_were_written() -> None:
    event = {**DELTA, "timestamp": "2026-08-21T11:31:03.1+02:00"}
    parsed = COPILOT.parse(event)
    assert isinstance(parsed, copilot.AssistantMessageDeltaEvent)
    assert parsed.timestamp == "2026-08-21T11:31:03.1+02:00"


def test_an_event_built_in_python_has_what_was_given_and_no_more() -> None:
    event = copilot.AssistantMessageDeltaEvent(
        id="e1",
        timestamp="2026-08-21T09:31:03.123Z",
        parentId=None,
        type="assistant.message_delta",
        data=copilot.AssistantMessageDeltaData(messageId="m1", deltaContent="Hel"),
    )
    assert written(event.dump()) == (
        '{"id": "e1", "timestamp": "2026-08-21T09:31:03.123Z", "parentId": null, '
        '"type": "assistant.message_delta", "data": {"messageId": "m1", "deltaContent": "Hel"}}'
    )


def test_an_event_with_a_member_called_source_is_dumped_unchanged() -> None:
    event = {**DELTA, "type": "session.idle", "data": {}, "_source": {"type": 1, "id": 2}}
    assert written(copilot.IdleEvent.model_validate(event).dump()) == written(event)


@pytest.mark.parametrize("member", ["id", "type", "data"])
def test_events_are_values(member: str) -> None:
    first, second = COPILOT.parse(DELTA), COPILOT.parse(written(DELTA))
    assert first == second
    with pytest.raises(ValidationError):
        setattr(first, member, "other")


@pytest.mark.parametrize(
    ("adapter", "event", "place"),
    [
        (
            TypeAdapter[Any](copilot.CopilotEvent),
            {**DELTA, "data": {"messageId": 1, "deltaContent": "x"}},
            ("assistant.message_delta", "data", "messageId"),
        ),
        (
            TypeAdapter[Any](everruns.EverrunsEvent),
            {
                **{"id": "e", "ts": "t", "session_id": "s", "context": {}},
                **{"type": "output.message.delta"},
                "data": {"turn_id": "t", "message_id": 1, "delta": "", "accumulated": ""},
            },
            ("output.message.delta", "data", "message_id"),
        ),
    ],
    ids=NAMES,
)
def test_a_bad_delta_is_judged_by_its_own_type_alone(
    adapter: TypeAdapter[Any], event: dict[str, Any], place: tuple[str, ...]
) -> None:
    """The union is tagged: one error at one place, not one for each of its branches."""
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(event)
    (error,) = caught.value.errors()
    assert error["loc"] == place


def test_the_error_of_a_bad_event_is_short() -> None:
    with pytest.raises(ValidationError) as caught:
        COPILOT.parse({**DELTA, "data": {"messageId": 1, "deltaContent": "x"}})
    assert len(str(caught.value)) < 400
    assert "AssistantMessageDeltaEvent" in str(caught.value)


def test_unions_take_every_example() -> None:
    for name, adapter in (
        ("copilot", TypeAdapter[Any](copilot.CopilotEvent)),
        ("everruns", TypeAdapter[Any](everruns.EverrunsEvent)),
    ):
        for event in events(name):
            parsed = adapter.validate_python(event)
            assert type(parsed) is CATALOGS[name].types[event["type"]].model


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'"x"', b"null", b"NaN", b'{"type":7}'])
def test_what_is_no_event_is_a_value_error(raw: bytes) -> None:
    for catalog in (COPILOT, EVERRUNS):
        with pytest.raises(ValueError, match=r".+"):
            catalog.parse(raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_any_json_is_kept_or_refused(data: st.DataObject, name: str) -> None:
    """An example with one value exchanged either does not fit or comes out unchanged."""
    event = data.draw(st.sampled_from(list(events(name))))
    changed = copy.deepcopy(event)
    target = data.draw(st.sampled_from([s for _, s in _objects(name, changed)]))
    member = data.draw(st.sampled_from(["x-new", *sorted(target)]) | st.text())
    target[member] = data.draw(json_values)
    try:
        parsed = CATALOGS[name].parse(changed)
    except ValidationError:
        return
    assert written(parsed.dump()) == written(changed)


def _objects(name: str, event: dict[str, Any]) -> Iterator[tuple[OpenModel, dict[str, Any]]]:
    return nested_models(CATALOGS[name].parse(event), event)
