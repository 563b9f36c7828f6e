"""Which transport comes next."""

from __future__ import annotations

from sessionwire._choice import Choice
from sessionwire._transport import TransportName
from sessionwire.errors import ConnectionFailed, WebSocketRefused

AWAY = ConnectionFailed("http://h", "away")
REFUSED = WebSocketRefused("ws://h", 404, "no")


def test_auto_tries_both_in_turn_until_one_speaks() -> None:
    choice = Choice("auto")
    tried: list[str] = []
    for _ in range(4):
        tried.append(choice.current)
        assert not choice.not_opened(AWAY), "being away is a failure like any"
    assert tried == ["websocket", "sse", "websocket", "sse"]


def test_auto_does_not_ask_again_for_what_was_refused_as_such() -> None:
    choice = Choice("auto")
    assert choice.not_opened(REFUSED), "another way is tried at once"
    assert choice.current == "sse"
    assert not choice.not_opened(AWAY)
    assert choice.current == "sse"


def test_a_transport_that_was_asked_for_stays() -> None:
    names: tuple[TransportName, ...] = ("sse", "websocket")
    for name in names:
        choice = Choice(name)
        assert not choice.not_opened(REFUSED)
        assert choice.current == name
