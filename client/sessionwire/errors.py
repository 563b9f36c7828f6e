"""What can go wrong between a client and the hub, one tree.

* HubError
  * ConnectionFailed: no answer from the hub, or none that could be retried any longer
  * ProtocolError: the peer does not speak the hub's protocol
    * EventTooLarge: one event of a stream is above the client's bound
  * RequestRejected: the hub answered with an error
    * InvalidRequest: 400, 413, 422 and other 4xx: sending it again changes nothing
    * Unauthorized: 401
    * Forbidden: 403
    * UnknownSession: 404, also for a session outside the key's patterns
    * Conflict: 409
    * Gone: 410
    * RateLimited: 429
    * Unavailable: 5xx

A lower layer's exception is turned into one of these once, where it is met, and stays its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

__all__ = [
    "Conflict",
    "ConnectionFailed",
    "EventTooLarge",
    "Forbidden",
    "Gone",
    "HubError",
    "InvalidRequest",
    "ProtocolError",
    "RateLimited",
    "RequestRejected",
    "Unauthorized",
    "Unavailable",
    "UnknownSession",
    "rejection",
]


class HubError(Exception):
    """Anything that the hub, or the way to it, did not do."""


class ConnectionFailed(HubError):
    """The hub cannot be reached.

    Attributes:
        url: the URL that was tried.
        reason: what the connection said.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot reach {self.url}: {self.reason}"


class ProtocolError(HubError):
    """The answer is not what the hub's protocol says."""


class EventTooLarge(ProtocolError):
    """One event of a stream is larger than the client takes.

    Attributes:
        limit_bytes: the bound that was crossed.
    """

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"an event of the stream is larger than {self.limit_bytes} bytes"


class RequestRejected(HubError):
    """The hub answered with an error.

    Attributes:
        status: HTTP status.
        code: the hub's stable word for it; empty where something else answered.
        detail: a sentence for people.
        extra: the other members of the problem body (`index`, `line`, `pointer` …).
        retry_after_s: what `Retry-After` asked for, None without it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        extra: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.extra = dict(extra or {})
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.detail} ({self.status}{f' {self.code}' if self.code else ''})"


class InvalidRequest(RequestRejected):
    """The request itself is wrong."""


class Unauthorized(RequestRejected):
    """The key is missing, unknown or expired."""


class Forbidden(RequestRejected):
    """The key lacks a scope."""


class UnknownSession(RequestRejected):
    """There is no such session, or the key does not cover it."""


class Conflict(RequestRejected):
    """The hub's state says otherwise."""


class Gone(RequestRejected):
    """It was there and has ended."""


class RateLimited(RequestRejected):
    """Too many requests or connections."""


class Unavailable(RequestRejected):
    """The hub, its Redis or a proxy before it cannot answer now."""


_BY_STATUS: Mapping[int, type[RequestRejected]] = {
    401: Unauthorized,
    403: Forbidden,
    404: UnknownSession,
    409: Conflict,
    410: Gone,
    429: RateLimited,
}

_PROBLEM_MEMBERS = {"type", "title", "status", "detail", "code", "error"}


def rejection(
    status: int, problem: Mapping[str, Any], *, retry_after_s: float | None = None
) -> RequestRejected:
    """Build the error of an answer from its status and problem body, which may be empty."""
    phrase = next((known.phrase for known in HTTPStatus if known == status), "unexpected answer")
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidRequest)
    return kind(
        status,
        str(problem.get("code") or ""),
        str(problem.get("detail") or phrase),
        extra={name: value for name, value in problem.items() if name not in _PROBLEM_MEMBERS},
        retry_after_s=retry_after_s,
    )
