"""The setting `redact`: protocol §3, first point."""

from __future__ import annotations

import json

from sessionwire_server.audience import Filter, Spelling, Taste
from sessionwire_server.entries import StoredEvent
from sessionwire_server.redaction import INTERNAL_TYPES, redact, redacted_taste, shown


def stored(type_: str, body: bytes) -> StoredEvent:
    return StoredEvent(1, 1, "aaaaa", True, "e1", type_, body)


def test_the_internal_types_are_those_of_the_catalog() -> None:
    assert {"assistant.turn_retry", "model.call_start", "session.memory_changed"} == INTERNAL_TYPES


def test_an_event_without_private_members_is_the_same_bytes() -> None:
    body = b'{"id":"e1", "type":"user.message","data":{"content":"a signature","n":1.50}}'
    assert redact(body) is body


def test_opaque_reasoning_is_taken_out_and_the_rest_keeps_its_spelling() -> None:
    body = b'{"id":"e1","data":{"n":1.50,"reasoningOpaque":"AAA","content":"\\u00e9"},"x":null}'
    assert redact(body) == b'{"id":"e1","data":{"n":1.50,"content":"\\u00e9"},"x":null}'


def test_signatures_of_reasoning_parts_are_taken_out_however_deep() -> None:
    part = {"type": "reasoning", "provider": "p", "signature": "S", "encrypted": "E"}
    tool = {"type": "tool_call", "id": "c", "name": "sign", "arguments": {"signature": "kept"}}
    data = {"messages": [{"content": [part, tool]}]}
    body = json.dumps({"id": "e1", "data": data}).encode()
    content = json.loads(redact(body) or b"")["data"]["messages"][0]["content"]
    assert content == [{"type": "reasoning", "provider": "p"}, tool]


def test_names_spelled_anew_are_still_one_line_for_every_reader() -> None:
    body = b'{"data":{"\\u2028":[{"\\u0085":1}],"encryptedContent":"x"}}'
    line = (redact(body) or b"").decode()
    assert len(line.splitlines()) == 1
    assert json.loads(line) == {"data": {"\u2028": [{"\u0085": 1}]}}


def test_what_is_nested_too_deeply_to_look_through_is_held_back() -> None:
    deep = b"[" * 950 + b'{"type":"reasoning","signature":"S"}' + b"]" * 950
    event = stored("x.deep", b'{"id":"e1","data":{"deep":%b},"agentId":null}' % deep)
    seen = shown(event)
    # How much of the stack is left here depends on what runs the test.
    assert seen is None or json.loads(seen.body) == {"id": "e1", "data": {}, "agentId": None}


def test_what_is_nested_too_deeply_to_be_read_is_not_shown_at_all() -> None:
    event = stored("x.deep", b'{"data":{"signature":%b}}' % (b"[" * 5_000 + b"]" * 5_000))
    assert shown(event) is None
    spelling = redacted_taste(Taste()).spelling
    assert spelling.encode(event, "abcdefgh") == spelling.heartbeat
    assert b'"events":[]' in spelling.snapshot([event.body])


def test_internal_events_are_not_shown() -> None:
    assert shown(stored("model.call_start", b'{"data":{}}')) is None
    event = stored("user.message", b'{"data":{}}')
    assert shown(event) is event


def test_a_redacted_taste_keeps_the_filters_it_had() -> None:
    taste = redacted_taste(Taste(Filter(frozenset({"user.message"}), frozenset({"abort"}))))
    assert taste.filter.types == frozenset({"user.message"})
    assert taste.filter.exclude == {"abort"} | INTERNAL_TYPES
    event = stored("user.message", b'{"data":{"encryptedContent":"x"}}')
    assert b"encryptedContent" in Spelling().encode(event, "abcdefgh")
    assert b"encryptedContent" not in taste.spelling.encode(event, "abcdefgh")
    assert b"encryptedContent" not in taste.spelling.snapshot([event.body])
