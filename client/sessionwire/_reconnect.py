"""When to connect again, and after how long: decisions only, no awaits.

Failures of every transport are judged by `judge`; `Reconnection` turns them into delays. Planned
closings (`disconnecting`, protocol.md §6) wait what the hub said and spend nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final

import httpx2

from sessionwire.errors import (
    ConnectionFailed,
    Forbidden,
    HubError,
    ProtocolError,
    RateLimited,
    RequestRejected,
    SessionDeleted,
    Unauthorized,
)

__all__ = [
    "Outcome",
    "Reconnection",
    "classify_error",
    "classify_status",
    "error_of_close",
    "judge",
    "retry_after_s",
]

BASE_DELAY_S: Final = 1.0
"""The first backoff's ceiling until the stream sends `retry:`."""

MIN_DELAY_S: Final = 0.1
"""The least that a `retry:` or `retry_ms` is taken for, so that none makes a busy loop."""

MAX_DELAY_S: Final = 30.0
"""The ceiling of every later backoff, and the longest that a `retry:` is believed."""

MAX_RETRY_AFTER_S: Final = 300.0
"""A longer `Retry-After` is cut to this: the reader may have come back long before."""

_RETRIED: Final = frozenset({408, 425, 429})
"""Timeout, Too Early, Too Many Requests: the 4xx that say later, not never."""

_FATAL_ERRORS: Final = (
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
    httpx2.TooManyRedirects,
)


class Outcome(Enum):
    """What an attempt to open a stream came to."""

    OPEN = "open"
    RETRY = "retry"
    FATAL = "fatal"
    END = "end"
    """204: there is nothing to come, ever."""


def classify_status(status: int) -> Outcome:
    """Judge the status of the answer to a stream request."""
    if status == 200:
        return Outcome.OPEN
    if status == 204:
        return Outcome.END
    return Outcome.RETRY if status in _RETRIED or status >= 500 else Outcome.FATAL


def classify_error(error: Exception) -> Outcome:
    """Judge an exception of the HTTP client: the network heals, a wrong URL does not."""
    if isinstance(error, _FATAL_ERRORS):
        return Outcome.FATAL
    return Outcome.RETRY if isinstance(error, httpx2.TransportError) else Outcome.FATAL


def judge(error: HubError) -> Outcome:
    """Decide what an error of a stream means, whichever transport it came over.

    An answer is judged by its status. A connection that failed is tried again, unless it never can
    come about; what is not the hub's protocol today will not be tomorrow.
    """
    if isinstance(error, SessionDeleted):
        return Outcome.END
    if isinstance(error, RequestRejected):
        return classify_status(error.status)
    healing = isinstance(error, ConnectionFailed) and error.failure != "misconfigured"
    return Outcome.RETRY if healing else Outcome.FATAL


def error_of_close(code: int, reason: str, url: str) -> HubError:
    """Turn the close of a WebSocket into an error, which `judge` then judges (protocol.md §7.5).

    4000 to 4499 mean come back and 4500 to 4999 stop, whatever the number.
    """
    match code:
        case 4500 | 4503:
            return Unauthorized(401, "unauthorized", reason or "the token is not taken")
        case 4501:
            return Forbidden(403, "forbidden", reason or "the token may not read this")
        case 4504:
            return SessionDeleted(410, "session_deleted", "the session was deleted")
        case 1013:
            return RateLimited(429, "too_many_connections", reason or "too many connections")
        case 1007 | 1009:
            return ProtocolError(f"closed with {code}: {reason}")
        case code if 4500 <= code < 5000:
            return ProtocolError(f"closed with {code}: {reason}")
        case _:
            return ConnectionFailed(url, f"closed with {code}: {reason}".rstrip(": "), "dropped")


def retry_after_s(value: str | None, *, now: datetime | None = None) -> float | None:
    """Read a `Retry-After` header, either form (RFC 9110 §10.2.3).

    Returns: seconds from now, 0 to `MAX_RETRY_AFTER_S`; None without a header that makes sense.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    wait_s = (at - (now or datetime.now(UTC))).total_seconds()
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


def _bounded_s(retry_ms: int) -> float:
    return min(max(retry_ms / 1000, MIN_DELAY_S), MAX_DELAY_S)


class Reconnection:
    """The state between two connections: how many attempts failed, what the hub asked for."""

    def __init__(self, *, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self.failures = 0
        """Attempts and drops since the last `connected`."""
        self._uniform = uniform
        self._base_s = BASE_DELAY_S
        self._planned_s: float | None = None

    def connected(self) -> None:
        """Note that the stream spoke: the backoff starts anew."""
        self.failures = 0
        self._planned_s = None

    def retry_hint(self, retry_ms: int | None) -> None:
        """Take the stream's `retry:` as the first backoff's ceiling."""
        if retry_ms is not None:
            self._base_s = _bounded_s(retry_ms)

    def planned(self, retry_ms: int) -> None:
        """Note a `disconnecting`: the end that follows is no failure."""
        self._planned_s = _bounded_s(retry_ms)

    def delay_s(self, retry_after: float | None = None) -> float:
        """Decide how long to wait before the next attempt, and count this one.

        After a `disconnecting`: what it said (the hub has jittered it). Otherwise full jitter,
        between 0 and a ceiling that doubles with each failure; with `Retry-After` (seconds), that
        and the jitter, so that those told the same second do not come back in the same second.
        """
        planned_s, self._planned_s = self._planned_s, None
        if planned_s is not None:
            return planned_s
        # 2**10 is above the ratio of any two bounds; a long outage must not overflow the float.
        ceiling_s = min(self._base_s * 2 ** min(self.failures, 10), MAX_DELAY_S)
        self.failures += 1
        return (retry_after or 0.0) + self._uniform(0.0, ceiling_s)
