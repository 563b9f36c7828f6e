"""Decisions about reconnecting, with chance and time passed in."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import pytest

from sessionwire._reconnect import (
    MAX_DELAY_S,
    Outcome,
    Reconnection,
    classify_error,
    classify_status,
    retry_after_s,
)


def highest(low: float, high: float) -> float:
    del low
    return high


def lowest(low: float, high: float) -> float:
    del high
    return low


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, Outcome.RETRY) for status in (408, 425, 429, 500, 502, 503, 504)),
        *((status, Outcome.FATAL) for status in (301, 400, 401, 403, 404, 409, 410, 413, 422)),
        (200, Outcome.OPEN),
        (204, Outcome.END),
    ],
)
def test_a_status_says_whether_to_come_back(status: int, outcome: Outcome) -> None:
    assert classify_status(status) is outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (httpx2.ConnectError("refused"), Outcome.RETRY),
        (httpx2.ReadTimeout("silent"), Outcome.RETRY),
        (httpx2.RemoteProtocolError("cut"), Outcome.RETRY),
        (httpx2.UnsupportedProtocol("ftp"), Outcome.FATAL),
        (httpx2.InvalidURL("no"), Outcome.FATAL),
        (ValueError("bug"), Outcome.FATAL),
    ],
)
def test_an_error_says_whether_to_come_back(error: Exception, outcome: Outcome) -> None:
    assert classify_error(error) is outcome


def test_the_backoff_doubles_up_to_its_bound() -> None:
    reconnection = Reconnection(uniform=highest)
    assert [reconnection.delay_s() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert max(reconnection.delay_s() for _ in range(2_000)) == MAX_DELAY_S


def test_the_jitter_is_full() -> None:
    reconnection = Reconnection(uniform=lowest)
    assert [reconnection.delay_s() for _ in range(5)] == [0, 0, 0, 0, 0]


def test_connected_starts_the_backoff_anew() -> None:
    reconnection = Reconnection(uniform=highest)
    for _ in range(5):
        reconnection.delay_s()
    reconnection.connected()
    assert (reconnection.failures, reconnection.delay_s()) == (0, 1)


def test_retry_of_the_stream_is_the_first_ceiling() -> None:
    reconnection = Reconnection(uniform=highest)
    reconnection.retry_hint(2_500)
    reconnection.retry_hint(None)
    assert [reconnection.delay_s() for _ in range(3)] == [2.5, 5, 10]


@pytest.mark.parametrize(("retry_ms", "expected"), [(0, 0.1), (10**15, MAX_DELAY_S)])
def test_retry_of_the_stream_is_believed_within_bounds(retry_ms: int, expected: float) -> None:
    reconnection = Reconnection(uniform=highest)
    reconnection.retry_hint(retry_ms)
    assert reconnection.delay_s() == expected


def test_a_planned_closing_waits_what_the_hub_said_and_is_no_failure() -> None:
    reconnection = Reconnection(uniform=highest)
    reconnection.planned(1_700)
    assert (reconnection.delay_s(), reconnection.failures) == (1.7, 0)
    assert (reconnection.delay_s(), reconnection.failures) == (1, 1)


def test_a_planned_closing_is_forgotten_once_connected() -> None:
    reconnection = Reconnection(uniform=highest)
    reconnection.planned(1_700)
    reconnection.connected()
    assert reconnection.delay_s() == 1


def test_retry_after_is_a_floor_below_the_jitter() -> None:
    assert Reconnection(uniform=lowest).delay_s(20) == 20
    assert Reconnection(uniform=highest).delay_s(20) == 21


NOW = datetime(2026, 8, 21, 9, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", 7),
        (" 0 ", 0),
        ("999999", 300),
        ("Fri, 21 Aug 2026 09:00:30 GMT", 30),
        ("Fri, 21 Aug 2026 08:00:00 GMT", 0),
        ("Fri, 21 Aug 2026 09:00:30 -0000", 30),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_either_form(value: str | None, expected: float | None) -> None:
    assert retry_after_s(value, now=NOW) == expected
