"""Names of sessions, types and events."""

from __future__ import annotations

import pytest

from sessionwire_schemas.names import (
    EVENT_ID_PATTERN,
    RESERVED_TYPES,
    SESSION_ID_PATTERN,
    TYPE_PATTERN,
)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 128, "session_" + "0" * 32])
def test_session_ids_that_fit(name: str) -> None:
    assert SESSION_ID_PATTERN.fullmatch(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 129, "a\n", "é"])
def test_session_ids_that_do_not(name: str) -> None:
    assert not SESSION_ID_PATTERN.fullmatch(name)


@pytest.mark.parametrize("name", ["abort", "x.a:b-c_d.9", "9", "a" * 128])
def test_types_that_fit(name: str) -> None:
    assert TYPE_PATTERN.fullmatch(name)


@pytest.mark.parametrize("name", ["", ".a", "_a", "a b", "a" * 129, "a\n", "a/b", "é"])
def test_types_that_do_not(name: str) -> None:
    assert not TYPE_PATTERN.fullmatch(name)


@pytest.mark.parametrize("name", ["!", "~", "a" * 128])
def test_event_ids_that_fit(name: str) -> None:
    assert EVENT_ID_PATTERN.fullmatch(name)


@pytest.mark.parametrize("name", ["", " ", "a b", "a" * 129, "a\n", "\x7f", "é"])
def test_event_ids_that_do_not(name: str) -> None:
    assert not EVENT_ID_PATTERN.fullmatch(name)


def test_frame_names_are_reserved() -> None:
    words = "connected disconnecting prompts snapshot gap caught_up cursor presence reset command"
    assert frozenset(f"{words} open error message".split()) == RESERVED_TYPES
