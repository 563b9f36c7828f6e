"""A session as people read it."""

from __future__ import annotations

import json
from typing import Any

from sessionwire._items import CaughtUp, Disconnected, Event, Gap, Item, Reset
from sessionwire._transcript import Transcript


def text_of(*items: Item) -> str:
    written: list[str] = []
    transcript = Transcript(lambda text, _style: written.append(text))
    for item in items:
        transcript.show(item)
    transcript.end()
    return "".join(written)


def event(type_: str, data: dict[str, Any], **envelope: Any) -> Event:
    return Event(type_, "c", json.dumps({"type": type_, "data": data, **envelope}))


def delta(text: str, message: str = "m", **envelope: Any) -> Event:
    data = {"messageId": message, "deltaContent": text}
    return event("assistant.message_delta", data, **envelope)


def message(text: str, message: str = "m", **envelope: Any) -> Event:
    return event("assistant.message", {"messageId": message, "content": text}, **envelope)


def test_deltas_stand_on_one_line_and_their_message_is_not_repeated() -> None:
    assert text_of(delta("Hel"), delta("lo"), message("Hello")) == " agent  Hello\n"


def test_a_message_that_was_not_streamed_is_shown_whole() -> None:
    assert text_of(message("Hello")) == " agent  Hello\n"


def test_a_message_whose_beginning_was_missed_is_shown_whole() -> None:
    assert text_of(delta("lo"), message("Hello")) == " agent  lo\n agent  Hello\n"


def test_interleaved_messages_are_kept_apart() -> None:
    told = text_of(delta("a1", "a"), delta("b1", "b", agentId="x"), delta("a2", "a"))
    assert told == " agent  a1\n[x]  agent  b1\n agent  … a2\n"


def test_both_catalogs_are_read() -> None:
    content = [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]
    assert (
        text_of(event("input.message", {"message": {"content": content}})) == "  user  Hi there\n"
    )
    started = {"turn_id": "t", "message_id": "m"}
    streamed = event("output.message.delta", {**started, "delta": "He", "accumulated": "He"})
    assert text_of(streamed) == " agent  He\n"


def test_tools_are_told_with_what_they_do_and_how_it_went() -> None:
    start = {"toolCallId": "t", "toolName": "bash", "arguments": {"command": "ls"}}
    done = {"toolCallId": "t", "success": False, "result": {"content": "no such file\nmore"}}
    told = text_of(event("tool.execution_start", start), event("tool.execution_complete", done))
    assert told == '  tool  bash {"command": "ls"}\nfailed  no such file …\n'


def test_a_tool_that_was_not_allowed_says_so() -> None:
    done = {"toolCallId": "t", "success": False, "error": {"message": "Not allowed: not now"}}
    assert text_of(event("tool.execution_complete", done)) == "failed  Not allowed: not now\n"


def test_what_is_asked_is_told() -> None:
    told = text_of(
        event("permission.requested", {"permissionRequest": {"fullCommandText": "ls\nrm x"}}),
        event("user_input.requested", {"requestId": "r", "question": "Which?"}),
        event("exit_plan_mode.requested", {"requestId": "p", "summary": "A plan"}),
        event("elicitation.requested", {"requestId": "e", "message": "Where?"}),
    )
    asks = ["ls …", "Which?", "A plan", "Where?"]
    assert told.splitlines() == [f"  asks  {what}" for what in asks]
    answered = text_of(event("user_input.completed", {"requestId": "r", "answer": "Red"}))
    assert answered.startswith("answer  ")
    assert "Red" in answered


def test_noise_is_left_out_and_unknown_types_are_named() -> None:
    assert text_of(event("session.usage_info", {"tokenLimit": 1}), CaughtUp("c")) == ""
    assert text_of(event("x.own", {"a": 1})) == '        x.own {"a": 1}\n'


def test_interruptions_are_told_on_lines_of_their_own() -> None:
    told = text_of(delta("a"), Disconnected("shutdown", "", 1.25), Gap("trimmed", 1, 5), Reset("d"))
    assert told.splitlines() == [
        " agent  a",
        "-- shutdown, again in 1.2 s",
        "-- events are missing here: trimmed",
        "-- the session begins anew",
    ]


def test_control_characters_never_reach_the_terminal() -> None:
    """A tool's output may hold any bytes; a terminal would obey them."""
    evil = "\x1b]0;owned\x07\x9b31m\u202eabc\r"
    told = text_of(delta(evil), message(evil, "other"), event("x.own", {"a": evil}, agentId=evil))
    assert not set(told) & set("\x1b\x07\x9b\u202e\r")


def test_data_of_any_shape_is_shown() -> None:
    shapes: list[Any] = [None, [], "x", {"content": 7}, {"message": {"content": [7, {"text": 1}]}}]
    for data in shapes:
        for type_ in ("user.message", "assistant.message_delta", "tool.execution_complete"):
            text_of(Event(type_, "c", json.dumps({"type": type_, "data": data})))
