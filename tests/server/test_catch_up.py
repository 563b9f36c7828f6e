"""Catching a late joiner up on open messages: protocol §6.4, replay rule 2."""

from __future__ import annotations

import json

from sessionwire_schemas.catalog import COPILOT, EVERRUNS
from sessionwire_server.catch_up import join_deltas, plan
from sessionwire_server.entries import OpenMessage, StoredEvent


def event(
    offset: int, type_: str, data: dict[str, object], *, durable: bool = False
) -> StoredEvent:
    body = json.dumps({"id": f"e{offset}", "type": type_, "data": data}).encode()
    return StoredEvent(offset, 1, "0", durable, f"e{offset}", type_, body)


def delta(offset: int, text: str, message: str = "m1") -> StoredEvent:
    return event(offset, "assistant.message_delta", {"messageId": message, "deltaContent": text})


def test_an_open_message_is_one_event_at_its_last_delta() -> None:
    deltas = (delta(3, "Hel"), delta(5, "lo "), delta(8, "wörld"))
    durable = event(6, "tool.execution_start", {}, durable=True)
    caught = plan(COPILOT, 8, [OpenMessage("m", deltas)], after=0)
    shown = caught.apply([deltas[0], deltas[1], durable, deltas[2], delta(9, "!")])
    assert [e.offset for e in shown] == [6, 8, 9]
    assert json.loads(shown[1].body)["data"]["deltaContent"] == "Hello wörld"
    assert json.loads(shown[1].body)["id"] == "e8"


def test_ephemeral_events_of_no_open_message_are_left_out_up_to_the_plan() -> None:
    caught = plan(COPILOT, 4, [], after=0)
    assert caught.apply([delta(3, "gone"), event(4, "session.idle", {})]) == []
    assert [e.offset for e in caught.apply([delta(5, "live")])] == [5]


def test_everruns_keeps_the_accumulated_text_of_the_last_delta() -> None:
    deltas = tuple(
        event(
            n,
            "output.message.delta",
            {"message_id": "m", "turn_id": "t", "delta": text, "accumulated": whole},
        )
        for n, text, whole in ((1, "ab", "ab"), (2, "cd", "abcd"))
    )
    (shown,) = plan(EVERRUNS, 2, [OpenMessage("m", deltas)], after=0).apply(deltas[1:])
    data = json.loads(shown.body)["data"]
    assert (data["delta"], data["accumulated"]) == ("abcd", "abcd")


def test_members_of_earlier_deltas_are_kept() -> None:
    bodies = [
        b'{"id":"a","type":"t","data":{"toolCallId":"c","toolName":"bash","inputDelta":"{"}}',
        b'{"id":"b","type":"t","data":{"toolCallId":"c","inputDelta":"}"}}',
    ]
    joined = json.loads(join_deltas(bodies, "inputDelta"))
    assert joined["id"] == "b"
    assert joined["data"] == {"toolCallId": "c", "toolName": "bash", "inputDelta": "{}"}


def test_joined_text_is_still_one_line_for_every_reader() -> None:
    texts = ("a\u2028b", "c\u0085", "d\u2029\n\r\x1c")
    deltas = tuple(delta(at, text) for at, text in enumerate(texts, 1))
    (shown,) = plan(COPILOT, 3, [OpenMessage("m", deltas)], after=0).apply(deltas[2:])
    assert len(shown.body.decode().splitlines()) == 1
    assert json.loads(shown.body)["data"]["deltaContent"] == "".join(texts)


def test_a_delta_that_does_not_fit_its_catalog_is_passed_on_as_it_is() -> None:
    odd = event(2, "assistant.message_delta", {"messageId": "m1", "deltaContent": 7})
    caught = plan(COPILOT, 2, [OpenMessage("m", (delta(1, "a"), odd))], after=0)
    assert caught.apply([odd]) == [odd]
