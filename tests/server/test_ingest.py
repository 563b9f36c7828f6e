"""From bodies to entries: bytes kept, envelopes completed, faults placed (protocol.md §3)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_schemas.catalog import CatalogName, Effects
from sessionwire_schemas.cursor import check_of
from sessionwire_server.entries import Entry
from sessionwire_server.errors import HubError
from sessionwire_server.ingest import Batch, Ingest
from sessionwire_server.metrics import Metrics
from sessionwire_server.settings import Settings
from tests.server.conftest import error_of
from tests.server.test_raw_json import VALUES

SID = "session_00000000000000000000000000000001"
UUID = "11111111-1111-4111-8111-111111111111"
COPILOT: dict[str, Any] = {
    "id": UUID,
    "timestamp": "2026-01-01T00:00:00.123Z",
    "parentId": None,
    "type": "session.info",
    "data": {"infoType": "note", "message": "x"},
}
EVERRUNS: dict[str, Any] = {
    "id": "event_00000000000070008000000000000001",
    "type": "turn.started",
    "ts": "2026-01-01T00:00:00.123Z",
    "session_id": SID,
    "context": {"turn_id": "turn_1", "exec_id": "exec_1", "trace_id": "t"},
    "data": {"turn_id": "turn_1", "input_message_id": "message_1"},
}


def ingest(**given: Any) -> Ingest:
    return Ingest(Settings(**given), Metrics())


def prepare(body: Any, catalog: str | None = None, **given: Any) -> Batch:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ingest(**given).prepare(raw, SID, cast("CatalogName | None", catalog))


def filled(entry: Entry, hole: bytes = b"7") -> bytes:
    """The body as the store writes it."""
    return entry.head + (hole if entry.hole else b"") + entry.tail


def refused(body: Any, catalog: str | None = None, **given: Any) -> HubError:
    with pytest.raises(HubError) as caught:
        prepare(body, catalog, **given)
    return caught.value


MEMBERS = st.dictionaries(
    st.text().filter(
        lambda name: name not in {*COPILOT, *EVERRUNS, "ephemeral", "agentId", "sequence", "tags"}
    ),
    VALUES,
    max_size=4,
)


@given(MEMBERS, st.dictionaries(st.text(), VALUES, max_size=4), st.sampled_from([None, 1]))
def test_a_whole_copilot_event_is_stored_as_it_was_written(
    more: dict[str, Any], data: dict[str, Any], indent: int | None
) -> None:
    text = json.dumps({**COPILOT, "type": "x.new", **more, "data": data}, indent=indent)
    (entry,) = prepare(text.encode(), "copilot").entries
    assert (entry.hole, entry.tail) == ("", b"")
    assert entry.head.decode() == text.replace("\n", " ")


@given(MEMBERS, st.dictionaries(st.text(), VALUES, max_size=4))
def test_a_durable_everruns_event_gets_its_sequence_at_the_end(
    more: dict[str, Any], data: dict[str, Any]
) -> None:
    event = {**EVERRUNS, "type": "x.new", **more, "data": data}
    (entry,) = prepare(event, "everruns").entries
    assert entry.hole == "sequence"
    told = json.loads(filled(entry))
    assert told == {**event, "sequence": 7}
    assert list(told) == [*event, "sequence"]


@pytest.mark.parametrize("event", [COPILOT, EVERRUNS], ids=["copilot", "everruns"])
def test_members_left_out_are_minted_in_front(event: dict[str, Any]) -> None:
    bare = {"type": event["type"], "data": event["data"], "x": 1.50}
    ingested = ingest()
    body = json.dumps([bare, bare]).encode()
    batch = ingested.prepare(body, SID, None)
    assert batch.catalog == ("copilot" if event is COPILOT else "everruns")
    first, second = batch.entries
    assert first.minted
    assert first.id != second.id
    hole = b"null" if first.hole == "parent" else b"7"
    told = json.loads(filled(first, hole))
    assert set(told) == {*event, "x", *(["sequence"] if event is EVERRUNS else [])}
    assert {name: told[name] for name in bare} == bare
    assert told["id"] == first.id
    time_name = "timestamp" if event is COPILOT else "ts"
    assert told[time_name].endswith("Z")
    assert first.at_ms > 1_767_225_600_000
    if event is EVERRUNS:
        assert (told["session_id"], told["context"]) == (SID, {})
        assert first.id < second.id
    else:
        assert told["parentId"] is None


def test_null_stays_apart_from_absent() -> None:
    (entry,) = prepare({**COPILOT, "x": None}).entries
    assert json.loads(filled(entry))["parentId"] is None
    assert entry.hole == ""
    assert b'"x": null' in entry.head


def test_a_producers_own_sequence_is_replaced() -> None:
    given = {"sequence": 41, **EVERRUNS, "metadata": {"sequence": 5, "n": 1.50}}
    (entry,) = prepare(given).entries
    assert json.loads(filled(entry)) == {**given, "sequence": 7}
    assert filled(entry).count(b'"sequence"') == 2
    assert b"1.5" in filled(entry)
    ephemeral = {**given, "type": "output.message.delta", "data": {"message_id": "m", "delta": "x"}}
    (entry,) = prepare(ephemeral).entries
    assert not entry.durable
    assert "sequence" not in json.loads(filled(entry))


def test_what_the_store_needs_is_read_from_the_event() -> None:
    tags = ["a", "b"]
    data = {"tool_call_id": "c", "tool_name": "bash", "success": True, "status": "success"}
    event = {**EVERRUNS, "type": "tool.completed", "data": data, "tags": tags}
    (entry,) = prepare(event).entries
    assert entry.check == check_of(EVERRUNS["id"])
    assert entry.at_ms == 1_767_225_600_123
    assert json.loads(entry.members) == {
        "turn_id": "turn_1",
        "exec_id": "exec_1",
        "trace_id": "t",
        "tags": tags,
        "tool_name": "bash",
    }
    delta = {**COPILOT, "type": "assistant.message_delta", "ephemeral": True}
    delta["data"] = {"messageId": "m", "deltaContent": "x"}
    (entry,) = prepare(delta).entries
    assert (entry.durable, entry.effects.message_key) == (False, "assistant.message|m")
    assert entry.members == b""
    (entry,) = prepare({**COPILOT, "type": "user.message", "data": {"content": "x"}}).entries
    assert entry.effects.status == "active"
    title = {**COPILOT, "type": "session.title_changed", "data": {"title": "New"}}
    (entry,) = prepare(title).entries
    assert entry.effects == Effects(last_key="session.title_changed", title="New")
    assert not entry.durable
    (entry,) = prepare({**title, "data": {"title": "x" * 2**20}}).entries
    assert entry.effects.title == "x" * 2_000, "every list of sessions carries it"
    assert len(entry.head + entry.tail) > 2**20


def test_an_event_may_be_ephemeral_by_its_own_flag() -> None:
    (entry,) = prepare({**COPILOT, "ephemeral": True}).entries
    assert not entry.durable
    rewind = {**COPILOT, "type": "session.snapshot_rewind", "ephemeral": True}
    rewind["data"] = {"upToEventId": UUID, "eventsRemoved": 1}
    (entry,) = prepare(rewind).entries
    assert (entry.durable, entry.effects.rewind_to) == (True, UUID)


def test_secrets_are_cut_out_also_where_a_repeated_name_hides_them() -> None:
    data = '{"requestId": "r", "serverName": "s", "serverUrl": "u", "httpResponse": {"k": "s3cret"}'
    config = '"staticClientConfig": {"clientId": "c", "clientSecret": "s3cret", "n": 1.50}'
    event = (
        f'{{"type": "mcp.oauth_required", "data": {{"httpResponse": "s3cret"}}, '
        f'"data": {data}, {config}}}}}'
    )
    (entry,) = prepare(event.encode(), "copilot").entries
    body = filled(entry, b"null")
    assert b"s3cret" not in body
    kept = json.loads(body)["data"]
    assert kept["staticClientConfig"] == {"clientId": "c", "n": 1.5}
    assert b"1.50" in body


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"type": "bad type"}, "invalid_type", "/type"),
        ({"type": ""}, "invalid_type", "/type"),
        ({"type": 7}, "invalid_type", "/type"),
        ({"type": "x" * 129}, "invalid_type", "/type"),
        ({"type": "connected"}, "reserved_type", "/type"),
        ({"type": "error"}, "reserved_type", "/type"),
        ({"id": ""}, "invalid_event", "/id"),
        ({"id": None}, "invalid_event", "/id"),
        ({"id": "a b"}, "invalid_event", "/id"),
        ({"id": "é"}, "invalid_event", "/id"),
        ({"id": "x" * 129}, "invalid_event", "/id"),
        ({"data": None}, "invalid_event", "/data"),
        ({"data": []}, "invalid_event", "/data"),
        ({"ephemeral": 1}, "invalid_event", "/ephemeral"),
        ({"ephemeral": None}, "invalid_event", "/ephemeral"),
    ],
    ids=str,
)
@pytest.mark.parametrize("validation", ["lenient", "strict", "off"])
@pytest.mark.parametrize("event", [COPILOT, EVERRUNS], ids=["copilot", "everruns"])
def test_a_wrong_envelope_is_refused_in_every_mode(
    event: dict[str, Any], validation: str, change: dict[str, Any], code: str, pointer: str
) -> None:
    body = [event, {**event, "id": "other", **change}]
    catalog = "copilot" if event is COPILOT else "everruns"
    error = refused(body, catalog, validation=validation)
    assert (error.status, error.code) == (422, code)
    assert (error.extra["index"], error.extra["pointer"]) == (1, pointer)


@pytest.mark.parametrize(
    ("event", "change", "code", "pointer"),
    [
        (COPILOT, {"parentId": 7}, "invalid_event", "/parentId"),
        (COPILOT, {"timestamp": 7}, "invalid_event", "/timestamp"),
        (COPILOT, {"agentId": 7}, "invalid_event", "/agentId"),
        (EVERRUNS, {"ts": None}, "invalid_event", "/ts"),
        (EVERRUNS, {"context": None}, "invalid_event", "/context"),
        (EVERRUNS, {"context": {"turn_id": 7}}, "invalid_event", "/context/turn_id"),
        (EVERRUNS, {"tags": "a"}, "invalid_event", "/tags"),
        (EVERRUNS, {"tags": [1]}, "invalid_event", "/tags"),
        (EVERRUNS, {"session_id": "session_2"}, "session_mismatch", "/session_id"),
        (EVERRUNS, {"session_id": None}, "session_mismatch", "/session_id"),
        (
            COPILOT,
            {"type": "session.snapshot_rewind", "data": {"upToEventId": 7}},
            "invalid_event",
            "/data/upToEventId",
        ),
        (
            COPILOT,
            {"type": "permission.requested", "data": {}},
            "invalid_event",
            "/data/requestId",
        ),
        (
            COPILOT,
            {"type": "user_input.completed", "data": {"requestId": "é" * 129}},
            "invalid_event",
            "/data/requestId",
        ),
        (
            EVERRUNS,
            {"type": "tool.call_requested", "data": {"tool_calls": [{"id": "a"}, {}]}},
            "invalid_event",
            "/data/tool_calls",
        ),
    ],
    ids=str,
)
def test_members_that_the_hub_builds_on_are_checked(
    event: dict[str, Any], change: dict[str, Any], code: str, pointer: str
) -> None:
    error = refused({**event, **change})
    assert (error.status, error.code, error.extra["pointer"]) == (422, code, pointer)


def test_tags_and_context_may_be_null_inside() -> None:
    event = {**EVERRUNS, "tags": None, "context": {"turn_id": None, "exec_id": "e"}}
    (entry,) = prepare(event).entries
    assert json.loads(entry.members) == {"exec_id": "e"}


def test_events_of_the_other_catalog_are_refused() -> None:
    for event, catalog in ((COPILOT, "everruns"), (EVERRUNS, "copilot")):
        error = refused(event, catalog)
        assert (error.status, error.code) == (409, "catalog_mismatch")
    assert refused([COPILOT, EVERRUNS]).extra["index"] == 1
    error = refused({"type": "x.unknown", "data": {}})
    assert (error.status, error.code) == (422, "catalog_unknown")
    assert prepare({"type": "x.unknown", "data": {}}, "copilot").catalog == "copilot"


@pytest.mark.parametrize("body", [7, "x", None, True, [7], [[COPILOT]]], ids=str)
def test_what_is_no_object_is_no_event(body: Any) -> None:
    error = refused(body, "copilot")
    assert (error.status, error.code) == (422, "invalid_event")


def test_sizes_are_bounded() -> None:
    limits: dict[str, Any] = {
        "max_event_bytes": 1024,
        "max_batch_bytes": 4096,
        "max_batch_events": 3,
    }
    small = {"type": "session.info", "data": {"message": "x"}}
    large = {"type": "session.info", "data": {"message": "x" * 1100}}
    error = refused([small, large], **limits)
    assert (error.status, error.code, error.extra["index"]) == (413, "event_too_large", 1)
    error = refused([small] * 4, **limits)
    assert (error.status, error.code) == (413, "too_many_events")
    error = refused([{"type": "session.info", "data": {"message": "x" * 900}}] * 5, **limits)
    assert (error.status, error.code) == (413, "batch_too_large")
    assert len(prepare([small] * 3, **limits).entries) == 3
    error = refused([])
    assert (error.status, error.code) == (422, "empty_batch")


WRONG_DATA = {"infoType": "note", "message": 7}


def test_lenient_takes_and_counts_what_does_not_fit_the_schema() -> None:
    ingested = ingest()
    body = json.dumps([{**COPILOT, "data": WRONG_DATA}, {**COPILOT, "type": "x.new"}, COPILOT])
    assert len(ingested.prepare(body.encode(), SID, None).entries) == 3
    metrics = ingested.validation.metrics
    assert metrics.schema_mismatch == {"copilot": 1}


def test_strict_refuses_it_and_says_where() -> None:
    error = refused([COPILOT, {**COPILOT, "data": WRONG_DATA}], validation="strict")
    assert (error.status, error.code) == (422, "schema_mismatch")
    assert (error.extra["index"], error.extra["pointer"]) == (1, "/data/message")
    error = refused({**COPILOT, "type": "x.new"}, "copilot", validation="strict")
    assert (error.code, error.extra["pointer"]) == ("schema_mismatch", "/type")
    error = refused({**COPILOT, "id": "no-uuid"}, validation="strict")
    assert (error.code, error.extra["pointer"]) == ("schema_mismatch", "/id")
    bare = {"type": COPILOT["type"], "data": COPILOT["data"]}
    assert len(prepare([COPILOT, bare], validation="strict").entries) == 2


def test_off_looks_at_nothing_but_the_envelope() -> None:
    assert len(prepare({**EVERRUNS, "tags": 7, "data": {}}, validation="off").entries) == 1


@pytest.mark.parametrize("raw", [b'{"n": 1e999}', b'{"n": %s}' % (b"9" * 5000)])
def test_numbers_beyond_a_double_are_stored_as_they_are(raw: bytes) -> None:
    body = b'{"type": "session.info", "data": %s}' % raw
    (entry,) = prepare(body).entries
    assert filled(entry, b"null").endswith(b'"data": %s}' % raw)


@given(st.sampled_from(["lenient", "strict", "off"]), st.data())
def test_any_mutation_of_an_event_is_taken_or_refused_with_a_4xx(
    validation: str, data: st.DataObject
) -> None:
    event = dict(data.draw(st.sampled_from([COPILOT, EVERRUNS])))
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([*COPILOT, *EVERRUNS, "ephemeral", "agentId", "tags"]))
        if data.draw(st.booleans()):
            event[name] = data.draw(VALUES)
        else:
            event.pop(name, None)
    catalog = data.draw(st.sampled_from([None, "copilot", "everruns"]))
    batches: list[Batch] = []
    error = error_of(lambda: batches.append(prepare(event, catalog, validation=validation)))
    if error is not None:
        assert 400 <= error.status < 500
        assert error.code
        return
    (entry,) = batches[0].entries
    told = json.loads(filled(entry, b"null" if entry.hole == "parent" else b"7"))
    expected = {name: value for name, value in event.items() if name != "sequence"}
    assert {name: told[name] for name in expected} == expected
