"""Answers to permission prompts: decisions, and the results that they become (protocol.md §8).

Clients decide in one vocabulary and events report in another; a result sent as a decision is
refused, for runtimes fail on it. An approval for longer than once names what it covers: it must be
of the kind that was asked about, and about the same server, tool or extension.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import Field

from sessionwire_schemas.answer_faults import (
    AnswerError,
    AnswerModel,
    Fault,
    refuse,
    tagged,
)
from sessionwire_schemas.fields import Boolean
from sessionwire_schemas.paths import member, members
from sessionwire_schemas.prompts import Asked

__all__ = [
    "APPROVALS",
    "DECISIONS",
    "Approval",
    "ApproveForLocation",
    "ApproveForSession",
    "ApproveOnce",
    "ApprovePermanently",
    "PermissionAnswer",
    "Reject",
    "UserNotAvailable",
    "permission_result",
    "read_permission",
]


class CommandsApproval(AnswerModel):
    """These commands."""

    kind: Literal["commands"]
    commandIdentifiers: list[str]


class ReadApproval(AnswerModel):
    """Reading files."""

    kind: Literal["read"]


class WriteApproval(AnswerModel):
    """Writing files."""

    kind: Literal["write"]


class McpApproval(AnswerModel):
    """A tool of an MCP server; null for all of its tools."""

    kind: Literal["mcp"]
    serverName: str
    toolName: str | None

    def members(self) -> dict[str, object]:
        """Return every member: here, null says something."""
        return self.model_dump()


class MemoryApproval(AnswerModel):
    """Keeping facts."""

    kind: Literal["memory"]


class CustomToolApproval(AnswerModel):
    """A client's own tool."""

    kind: Literal["custom-tool"]
    toolName: str


class ExtensionManagementApproval(AnswerModel):
    """Managing extensions."""

    kind: Literal["extension-management"]
    operation: str | None = None


class FactoryApproval(AnswerModel):
    """Running a factory."""

    kind: Literal["factory"]
    approvalKey: str | None = None


class ExtensionPermissionAccessApproval(AnswerModel):
    """What an extension may do."""

    kind: Literal["extension-permission-access"]
    extensionName: str


Approval: TypeAlias = (
    CommandsApproval
    | ReadApproval
    | WriteApproval
    | McpApproval
    | MemoryApproval
    | CustomToolApproval
    | ExtensionManagementApproval
    | FactoryApproval
    | ExtensionPermissionAccessApproval
)
"""What an approval beyond once covers."""

APPROVALS: Final[Mapping[str, type[AnswerModel]]] = {
    "commands": CommandsApproval,
    "custom-tool": CustomToolApproval,
    "extension-management": ExtensionManagementApproval,
    "extension-permission-access": ExtensionPermissionAccessApproval,
    "factory": FactoryApproval,
    "mcp": McpApproval,
    "memory": MemoryApproval,
    "read": ReadApproval,
    "write": WriteApproval,
}
"""The approvals by kind, all that a completed event can carry."""


class ApproveOnce(AnswerModel):
    """Yes, this once."""

    kind: Literal["approve-once"]
    approvedInteractively: Boolean | None = None


class ApproveForSession(AnswerModel):
    """Yes, as long as the session lasts: what `approval` covers, or a URL's domain."""

    kind: Literal["approve-for-session"]
    approval: dict[str, Any] | None = None
    domain: Annotated[str, Field(min_length=1)] | None = None


class ApproveForLocation(AnswerModel):
    """Yes, in this project, whatever the session."""

    kind: Literal["approve-for-location"]
    approval: dict[str, Any]
    locationKey: str


class ApprovePermanently(AnswerModel):
    """Yes, always, to a URL's domain."""

    kind: Literal["approve-permanently"]
    domain: Annotated[str, Field(min_length=1)]


class Reject(AnswerModel):
    """No, with a word for the agent."""

    kind: Literal["reject"]
    feedback: str | None = None


class UserNotAvailable(AnswerModel):
    """Nobody is there to decide."""

    kind: Literal["user-not-available"]


PermissionAnswer: TypeAlias = (
    ApproveOnce
    | ApproveForSession
    | ApproveForLocation
    | ApprovePermanently
    | Reject
    | UserNotAvailable
)

DECISIONS: Final[Mapping[str, type[PermissionAnswer]]] = {
    "approve-once": ApproveOnce,
    "approve-for-session": ApproveForSession,
    "approve-for-location": ApproveForLocation,
    "approve-permanently": ApprovePermanently,
    "reject": Reject,
    "user-not-available": UserNotAvailable,
}
"""The decisions by kind."""

_APPROVAL_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "commands": ("commands",),
    "custom-tool": ("custom-tool",),
    "extension-management": ("extension-management",),
    "extension-permission-access": ("extension-permission-access",),
    "factory": ("factory",),
    "mcp": ("mcp",),
    "memory": ("memory",),
    # Which of the two is wanted stands in the request behind it.
    "path": ("read", "write"),
    "read": ("read",),
    "shell": ("commands",),
    "write": ("write",),
}
"""The kinds of approval that fit a kind of request. A URL has its domain, a hook is asked anew."""

_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "custom-tool": ("toolName",),
    "extension-management": ("operation",),
    "extension-permission-access": ("extensionName",),
    "factory": ("approvalKey",),
    "mcp": ("serverName", "toolName"),
}
"""Members of an approval that must say what the request says, unless it leaves them out."""


def read_permission(asked: Asked, answer: object) -> PermissionAnswer:
    """Read a decision and check it against what was asked.

    Raises:
        AnswerError: it does not fit.
    """
    decision = tagged(DECISIONS, answer, "kind")
    requests = _requests(asked)
    is_url = any(request.get("kind") == "url" for request in requests)
    match decision:
        case ApproveForSession():
            if any(request.get("canOfferSessionApproval") is False for request in requests):
                raise refuse("this prompt cannot be approved for the session", "/kind")
            if decision.domain is not None and not is_url:
                raise refuse("only a URL has a domain", "/domain")
            if decision.approval is not None:
                _check_approval(requests, decision.approval)
        case ApproveForLocation():
            if any(request.get("canPersistApproval") is False for request in requests):
                raise refuse("this prompt cannot be approved beyond the session", "/kind")
            _check_approval(requests, decision.approval)
        case ApprovePermanently() if not is_url:
            raise refuse("only a URL can be approved permanently", "/kind")
        case _:
            pass
    return decision


def permission_result(asked: Asked, decision: PermissionAnswer) -> dict[str, Any]:
    """Return the `result` of the completed event that a decision becomes.

    An approval for the session that does not say what it covers is for what was asked. Where
    nothing can be covered (a URL, a hook), and for a domain, the event's vocabulary has only
    `approved`; the host has the decision itself, in the command.
    """
    match decision:
        case ApproveForSession():
            approval = decision.approval
            covered = _asked_approval(asked) if approval is None else _written(approval)
            if covered is None or decision.domain is not None:
                return {"kind": "approved"}
            return {"kind": "approved-for-session", "approval": covered}
        case ApproveForLocation():
            return {
                "kind": "approved-for-location",
                "approval": _written(decision.approval),
                "locationKey": decision.locationKey,
            }
        case Reject():
            said = {} if decision.feedback is None else {"feedback": decision.feedback}
            return {"kind": "denied-interactively-by-user", **said}
        case UserNotAvailable():
            return {"kind": "denied-no-approval-rule-and-could-not-request-from-user"}
        case _:
            return {"kind": "approved"}


def _requests(asked: Asked) -> list[Mapping[str, object]]:
    """Return the request and the form of it that a user sees, as far as they are there."""
    found = [member(asked.data, name) for name in ("permissionRequest", "promptRequest")]
    return [cast("Mapping[str, object]", one) for one in found if isinstance(one, Mapping)]


def _approvals_of(request: Mapping[str, object]) -> tuple[str, ...]:
    kind = request.get("kind")
    return _APPROVAL_OF.get(kind, ()) if isinstance(kind, str) else ()


def _check_approval(requests: list[Mapping[str, object]], approval: dict[str, Any]) -> None:
    read = _written(approval)
    kind = cast("str", read["kind"])
    fitting = [request for request in requests if kind in _approvals_of(request)]
    if not fitting:
        raise refuse("is not what was asked for", "/approval/kind")
    for name in _SAME.get(kind, ()):
        value = read.get(name)
        asked = [request[name] for request in fitting if name in request]
        if value is not None and asked and value not in asked:
            raise refuse("is not what was asked for", f"/approval/{name}")


def _written(approval: dict[str, Any]) -> dict[str, Any]:
    """Read an approval; return its members."""
    try:
        return dict(tagged(APPROVALS, approval, "kind").members())
    except AnswerError as error:
        faults = [Fault(f"/approval{fault.pointer}", fault.message) for fault in error.faults]
    raise AnswerError(faults)


def _asked_approval(asked: Asked) -> dict[str, Any] | None:
    """Return the approval of just what was asked, None where there is no such thing."""
    requests = _requests(asked)
    for request in requests:
        kinds = _approvals_of(request)
        if len(kinds) != 1:
            continue
        covered: dict[str, Any] = {"kind": kinds[0]}
        if kinds[0] == "commands":
            covered["commandIdentifiers"] = _identifiers(requests)
        for name in _SAME.get(kinds[0], ()):
            if isinstance(request.get(name), str):
                covered[name] = request[name]
        # A request that lacks what its approval needs came in unchecked.
        fields = APPROVALS[kinds[0]].model_fields
        if all(name in covered for name, field in fields.items() if field.is_required()):
            return covered
    return None


def _identifiers(requests: list[Mapping[str, object]]) -> list[str]:
    found = [
        value
        for request in requests
        for path in ("commandIdentifiers[]", "commands[].identifier")
        for value in _strings(request, path)
    ]
    return list(dict.fromkeys(found))


def _strings(request: Mapping[str, object], path: str) -> list[str]:
    if path.endswith("[]"):
        listed = request.get(path.removesuffix("[]"))
        values = cast("list[object]", listed) if isinstance(listed, list) else []
    else:
        values = list(members(request, path))
    return [value for value in values if isinstance(value, str)]
