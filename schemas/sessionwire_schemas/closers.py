"""The completed events that the hub makes where nobody answered: their data and their ids.

Each kind ends with its own refusal where its event can say one (protocol.md §8). Ids follow from
session, prompt and reason, so that any number of hubs make one event, and whoever folds the stream
knows the hub's events from the host's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from sessionwire_schemas.catalog import Catalog, CatalogName
from sessionwire_schemas.outcomes import canonical
from sessionwire_schemas.prompt_rules import STATE_AFTER, EndReason, PromptKind

__all__ = ["CLOSING_REASONS", "CloseReason", "Closer", "closer_id", "closer_type", "ending_closer"]

CloseReason: TypeAlias = EndReason | Literal["answered"]
"""Why the hub closes a prompt with an event of its own."""

_SILENT: Final = frozenset[CloseReason](("deleted", "rewind"))

CLOSING_REASONS: Final[tuple[CloseReason, ...]] = (
    "answered",
    *(reason for reason in STATE_AFTER if reason not in _SILENT),
)
"""The reasons that come with an event. A deleted session takes none, and a rewind is its own."""

_TYPES: Final[Mapping[PromptKind, str]] = MappingProxyType(
    {
        "auto_mode_switch": "auto_mode_switch.completed",
        "command": "command.completed",
        "elicitation": "elicitation.completed",
        "exit_plan_mode": "exit_plan_mode.completed",
        "external_tool": "external_tool.completed",
        "mcp_headers": "mcp.headers_refresh_completed",
        "mcp_oauth": "mcp.oauth_completed",
        "permission": "permission.completed",
        "sampling": "sampling.completed",
        "session_limits_exhausted": "session_limits_exhausted.completed",
        "user_input": "user_input.completed",
    }
)

_WORDS: Final[Mapping[EndReason, str]] = MappingProxyType(
    {
        "abort": "the turn was aborted",
        "deadline": "nobody answered in time",
        "host_gone": "the host is gone",
        "resume": "the session was resumed without its pending work",
        "shutdown": "the session was shut down",
        "turn_end": "the turn is over",
        "unread": "the host did not fetch the answer in time",
        "user_message": "the user sent a new message",
    }
)


@dataclass(frozen=True, slots=True)
class Closer:
    """A completed event that the hub is to publish, without its envelope.

    Attributes:
        type: the event's type.
        data: its data.
    """

    type: str
    data: Mapping[str, Any]


def closer_type(catalog: CatalogName, kind: PromptKind) -> str:
    """Return the type of the event that closes a prompt of this kind."""
    return "tool.completed" if catalog == "everruns" else _TYPES[kind]


def closer_id(catalog: CatalogName, session_id: str, request_id: str, reason: CloseReason) -> str:
    """Return the id of the event with which the hub closes a prompt.

    Returns: a UUID of version 8 (it hashes its arguments and has no time), as the catalog spells
        the ids of events.
    """
    text = "\0".join((session_id, reason, request_id))
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    bits = int.from_bytes(digest)
    bits = bits & ~(0xF << 76) | 0x8 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    found = UUID(int=bits)
    return f"event_{found.hex}" if catalog == "everruns" else str(found)


def ending_closer(
    catalog: Catalog,
    kind: PromptKind,
    request_id: str,
    reason: EndReason,
    *,
    tool_call_id: str = "",
) -> Closer | None:
    """Return the event that tells everybody that a prompt is over without an answer.

    Args:
        catalog: the session's.
        kind: the prompt's kind.
        request_id: its id.
        reason: why it ended.
        tool_call_id: the call that waited for it, where the opener named one.

    Returns: None where no event is due.
    """
    if reason in _SILENT:
        return None
    if catalog.name == "everruns":
        return Closer("tool.completed", _tool_completed(kind, request_id, reason))
    data: dict[str, Any] = {"requestId": request_id}
    if kind == "permission":
        if tool_call_id:
            data["toolCallId"] = tool_call_id
        data["result"] = _refusal(reason)
    else:
        data |= _copilot_members(kind, expired=STATE_AFTER[reason] == "expired")
    return Closer(_TYPES[kind], data)


def _refusal(reason: EndReason) -> dict[str, Any]:
    if STATE_AFTER[reason] == "expired":
        return {"kind": "denied-no-approval-rule-and-could-not-request-from-user"}
    return {"kind": "cancelled", "reason": reason}


def _copilot_members(kind: PromptKind, *, expired: bool) -> dict[str, Any]:
    """Return the refusal of a kind, as members of its completed data; empty where it has none."""
    match kind:
        case "elicitation":
            return {"action": "cancel"}
        case "exit_plan_mode":
            return {"approved": False} if expired else {}
        case "auto_mode_switch":
            return {"response": "no"}
        case "session_limits_exhausted":
            return {"response": {"action": "cancel"}}
        case "mcp_oauth":
            return {"outcome": "cancelled"}
        case "mcp_headers":
            return {"outcome": "timeout" if expired else "none"}
        case _:
            return {}


def _tool_completed(kind: PromptKind, request_id: str, reason: EndReason) -> dict[str, Any]:
    expired = STATE_AFTER[reason] == "expired"
    data: dict[str, Any] = {
        "tool_call_id": request_id,
        # Empty, as in every completion that does not come from the agent's own server.
        "tool_name": "",
        "success": False,
        "status": "timeout" if expired else "cancelled",
        "error": _WORDS[reason],
    }
    if kind == "approval":
        text = canonical({"outcome": "expired" if expired else "not_approved"})
        data["result"] = [{"type": "text", "text": text}]
    return data
