"""Ids and times that the hub makes (protocol.md §3)."""

from __future__ import annotations

import uuid

import pytest

from sessionwire_server.minting import EverrunsIds, copilot_id, milliseconds, rfc3339


def test_copilot_ids_are_version_4() -> None:
    made = [copilot_id() for _ in range(100)]
    assert len(set(made)) == 100
    for text in made:
        assert str(uuid.UUID(text)) == text
        assert (uuid.UUID(text).version, uuid.UUID(text).variant) == (4, uuid.RFC_4122)


def test_everruns_ids_are_version_7_and_in_order_also_when_the_clock_goes_back() -> None:
    ids = EverrunsIds()
    times = [1_767_225_600_000, 1_767_225_600_000, 1_767_225_600_001, 1_767_225_500_000] * 50
    made = [ids.mint(ms) for ms in times]
    assert made == sorted(set(made))
    for text in made:
        assert text.startswith("event_")
        value = uuid.UUID(text.removeprefix("event_"))
        assert (value.version, value.variant) == (7, uuid.RFC_4122)
    assert int(made[0][6:18], 16) == times[0]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T00:00:00.123456Z", 1_767_225_600_123),
        ("2026-01-01t01:00:00.5+01:00", 1_767_225_600_500),
        ("1969-12-31T23:59:59.999Z", -1),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("9999-12-31T23:59:59-10:00", None),
        ("0001-01-01T00:00:00+10:00", None),
        ("2026-01-01", None),
        ("2026-01-01T00:00:00", None),
        ("2026-W01-1T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("yesterday, about noon", None),
        ("", None),
    ],
)
def test_times_are_read_as_rfc_3339(text: str, ms: int | None) -> None:
    assert milliseconds(text) == ms


def test_own_times_have_milliseconds_and_z() -> None:
    assert rfc3339(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"
    assert milliseconds(rfc3339(1_767_225_600_120)) == 1_767_225_600_120
