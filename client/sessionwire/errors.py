"""What can go wrong between a client and the hub, one tree.

* HubError
  * ConnectionFailed: no answer from the hub, or none that could be retried any longer
  * WebSocketRefused: something on the way lets no WebSocket through
  * ProtocolError: the peer does not speak the hub's protocol
    * EventTooLarge: one event of a stream is above the client's bound
  * ReplayGap: events of a followed session are not coming
    * SessionReset: the session's numbers begin anew
  * PromptEnded: a prompt ended without an answer
  * CommandFailed: a command came to nothing
    * CommandRejected: the host refused it
    * CommandExpired: no host read it in time
  * RequestRejected: the hub answered with an error
    * InvalidRequest: 400, 413, 422 and other 4xx: sending it again changes nothing
      * InvalidAnswer: the answer does not fit its prompt
    * Unauthorized: 401
    * Forbidden: 403
    * NotFound: 404
      * UnknownSession: also for a session outside the key's patterns
    * Conflict: 409
      * PromptAlreadyAnswered, PromptClaimed: somebody else was first
      * HostConflict: the session has another host
      * LeaseLost: another host has taken the session over
    * Gone: 410
      * SessionDeleted: the session was deleted, less than a day ago
    * RateLimited: 429
    * Unavailable: 5xx

A lower layer's exception is turned into one of these once, where it is met, and stays its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

__all__ = [
    "CommandExpired",
    "CommandFailed",
    "CommandRejected",
    "Conflict",
    "ConnectionFailed",
    "EventTooLarge",
    "Failure",
    "Forbidden",
    "Gone",
    "HostConflict",
    "HubError",
    "InvalidAnswer",
    "InvalidRequest",
    "LeaseLost",
    "NotFound",
    "PromptAlreadyAnswered",
    "PromptClaimed",
    "PromptEnded",
    "ProtocolError",
    "RateLimited",
    "ReplayGap",
    "RequestRejected",
    "SessionDeleted",
    "SessionReset",
    "Unauthorized",
    "Unavailable",
    "UnknownSession",
    "WebSocketRefused",
    "rejection",
]

Failure: TypeAlias = Literal["unreachable", "dropped", "idle", "misconfigured"]
"""How a connection failed: none came about, it broke, it fell silent, or none ever can."""


class HubError(Exception):
    """Anything that the hub, or the way to it, did not do."""


class ConnectionFailed(HubError):
    """The hub cannot be reached.

    Attributes:
        url: the URL that was tried.
        reason: what the connection said.
        failure: how it failed; all but `misconfigured` may heal.
    """

    def __init__(self, url: str, reason: str, failure: Failure = "unreachable") -> None:
        super().__init__(url, reason, failure)
        self.url = url
        self.reason = reason
        self.failure = failure

    def __str__(self) -> str:
        return f"cannot reach {self.url}: {self.reason}"


class WebSocketRefused(HubError):
    """Something between here and the hub, or the hub, opens no WebSocket.

    Attributes:
        url: the URL that was tried.
        status: HTTP status of the answer, None where it was none.
        reason: what was wrong with it.
    """

    def __init__(self, url: str, status: int | None, reason: str) -> None:
        super().__init__(url, status, reason)
        self.url = url
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"no WebSocket at {self.url}: {self.reason}"


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


class ReplayGap(HubError):
    """Events between the cursor that was asked for and what follows are not coming.

    Iterating on goes on after the gap.

    Attributes:
        reason: `trimmed`, `epoch_changed`, `future_cursor`, `rewound` or `unknown_id`; `reset`.
        after_sequence: number of the last durable event before the gap, None if not known.
        resumed_sequence: the first one after it is beyond this number, None if not known.
        cursor: the place from which delivery goes on.
    """

    def __init__(
        self,
        reason: str,
        after_sequence: int | None = None,
        resumed_sequence: int | None = None,
        *,
        cursor: str = "",
    ) -> None:
        super().__init__(reason, after_sequence, resumed_sequence, cursor)
        self.reason = reason
        self.after_sequence = after_sequence
        self.resumed_sequence = resumed_sequence
        self.cursor = cursor

    def __str__(self) -> str:
        return f"events are missing: {self.reason}"


class SessionReset(ReplayGap):
    """The session's numbers begin anew: forget what was shown, delivery starts at the oldest."""

    def __init__(self, cursor: str) -> None:
        super().__init__("reset", cursor=cursor)

    def __str__(self) -> str:
        return "the session begins anew"


class PromptEnded(HubError):
    """A prompt ended without an answer.

    Attributes:
        request_id: the prompt's id.
        state: `expired`, `cancelled`, `orphaned`, `withdrawn` or `rewound`; `completed` where the
            host itself closed it.
        prompt: its record as the hub shows it, empty if that is not known.
    """

    def __init__(
        self, request_id: str, state: str, prompt: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(request_id, state)
        self.request_id = request_id
        self.state = state
        self.prompt: dict[str, Any] = dict(prompt or {})

    def __str__(self) -> str:
        return f"the prompt {self.request_id!r} ended: {self.state}"


class CommandFailed(HubError):
    """A command came to nothing.

    Attributes:
        command_id: its id.
        detail: the host's words, empty if there are none.
        receipt: what the hub says of it.
    """

    def __init__(self, command_id: str, receipt: Mapping[str, Any]) -> None:
        super().__init__(command_id, receipt.get("status"))
        self.command_id = command_id
        self.detail: str = str(receipt.get("detail") or "")
        self.receipt: dict[str, Any] = dict(receipt)

    def __str__(self) -> str:
        said = f": {self.detail}" if self.detail else ""
        return f"the command {self.command_id!r} is {self.receipt.get('status')}{said}"


class CommandRejected(CommandFailed):
    """The host refused it."""


class CommandExpired(CommandFailed):
    """No host read it in time, or the session was deleted."""


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
        self.extra: dict[str, Any] = dict(extra or {})
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.detail} ({self.status}{f' {self.code}' if self.code else ''})"


class InvalidRequest(RequestRejected):
    """The request itself is wrong."""


class InvalidAnswer(InvalidRequest):
    """An answer does not fit its prompt; `extra["faults"]` says where: `[{pointer, message}]`."""


class Unauthorized(RequestRejected):
    """The key is missing, unknown or expired."""


class Forbidden(RequestRejected):
    """The key lacks a scope."""


class NotFound(RequestRejected):
    """There is no such thing."""


class UnknownSession(NotFound):
    """There is no such session, or the key does not cover it."""


class Conflict(RequestRejected):
    """The hub's state says otherwise."""


class PromptAlreadyAnswered(Conflict):
    """Somebody else was first; `extra` has `answered_by`, `answered_at` and `answer`."""


class PromptClaimed(Conflict):
    """Somebody else is at it."""


class HostConflict(Conflict):
    """The session has another host; `extra["since"]` says since when."""


class LeaseLost(Conflict):
    """Another host has taken the session over."""


class Gone(RequestRejected):
    """It was there and has ended; `code` says how."""


class SessionDeleted(Gone):
    """The session was deleted."""


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

_BY_CODE: Mapping[tuple[int, str], type[RequestRejected]] = {
    (404, "command_not_found"): NotFound,
    (404, "method_not_found"): NotFound,
    (404, "not_found"): NotFound,
    (404, "prompt_not_found"): NotFound,
    (409, "host_conflict"): HostConflict,
    (409, "lease_lost"): LeaseLost,
    (409, "prompt_already_answered"): PromptAlreadyAnswered,
    (409, "prompt_claimed"): PromptClaimed,
    (410, "session_deleted"): SessionDeleted,
    (422, "invalid_answer"): InvalidAnswer,
}

_PROBLEM_MEMBERS = {"type", "title", "status", "detail", "code", "error"}


def rejection(
    status: int, problem: Mapping[str, Any], *, retry_after_s: float | None = None
) -> RequestRejected:
    """Build the error of an answer from its status and problem body, which may be empty."""
    phrase = next((known.phrase for known in HTTPStatus if known == status), "unexpected answer")
    code = str(problem.get("code") or "")
    by_status = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidRequest)
    kind = _BY_CODE.get((status, code), by_status)
    return kind(
        status,
        code,
        str(problem.get("detail") or phrase),
        extra={name: value for name, value in problem.items() if name not in _PROBLEM_MEMBERS},
        retry_after_s=retry_after_s,
    )
