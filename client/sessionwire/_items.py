"""What a followed session hands out: one class for each kind of frame (protocol.md §6).

Owns the reading of frames, nothing of connections. Event bodies stay the text that was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sessionwire._event import Event
from sessionwire._sse import ServerSentEvent
from sessionwire.errors import ProtocolError

__all__ = [
    "CaughtUp",
    "Closing",
    "Connected",
    "Disconnected",
    "Event",
    "Gap",
    "Item",
    "Presence",
    "Prompts",
    "Reset",
    "Snapshot",
    "read_closing",
    "read_frame",
]


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection stands. `cursor` is where its delivery starts, `head` the newest place."""

    cursor: str
    head: str
    epoch: str
    resumed: bool
    gap: Mapping[str, Any] | None
    pending_prompts: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection ended, or none came about; the next attempt follows by itself.

    Attributes:
        reason: the hub's word for a planned end (`shutdown`, `connection_cycle` …), otherwise
            `dropped`, `idle`, `unreachable` or `refused`.
        detail: a sentence for people, empty for a planned end.
        wait_s: seconds until the next attempt.
    """

    reason: str
    detail: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class Gap:
    """Events between the cursor asked for and what follows are not coming: `trimmed`,
    `epoch_changed`, `future_cursor`, `rewound` or `unknown_id`."""

    reason: str
    after_sequence: int | None
    resumed_sequence: int | None


@dataclass(frozen=True, slots=True)
class Reset:
    """The session's numbers begin anew: forget what was shown, delivery starts at the oldest."""

    cursor: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest of each last-value type that replay does not bring; once, before `CaughtUp`."""

    events: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Replay has reached live; once a connection."""

    cursor: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that are open now."""

    prompts: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Presence:
    """Who watches the session, as the hub tells it."""

    members: Mapping[str, Any]


Item = Connected | Disconnected | Event | Gap | Reset | Snapshot | CaughtUp | Prompts | Presence


@dataclass(frozen=True, slots=True)
class Closing:
    """The hub announces the end of this connection."""

    reason: str
    retry_ms: int


_SILENT = frozenset({"cursor", "disconnecting", "command", "open", "error", "message"})
"""Reserved names that are no item: the first two are bookkeeping, the others not for viewers."""


def read_frame(frame: ServerSentEvent) -> Item | None:
    """Turn a frame into an item; None for the hub's own frames that are none.

    Raises:
        ProtocolError: one of the hub's own frames is not what protocol.md says.
    """
    cursor = frame.last_event_id
    match frame.type:
        case "connected":
            return _connected(_object(frame), cursor)
        case "gap":
            return _gap(_object(frame))
        case "reset":
            return Reset(cursor)
        case "snapshot":
            return Snapshot(_objects(frame, "events"))
        case "caught_up":
            return CaughtUp(_text(_object(frame), "cursor", cursor))
        case "prompts":
            return Prompts(_objects(frame, "data"))
        case "presence":
            return Presence(_object(frame))
        case type_ if type_ in _SILENT:
            return None
        case type_:
            return Event(type_, cursor, frame.data, frame.members)


def read_closing(frame: ServerSentEvent) -> Closing | None:
    """Read a `disconnecting` frame; None for any other.

    Raises:
        ProtocolError: its data is no JSON object.
    """
    if frame.type != "disconnecting":
        return None
    members = _object(frame)
    return Closing(_text(members, "reason", "unknown"), _number(members, "retry_ms") or 0)


def _object(frame: ServerSentEvent) -> dict[str, Any]:
    if frame.members is not None:
        return frame.members
    what, text = frame.type, frame.data
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise ProtocolError(f"{what!r} frame does not carry JSON: {text[:80]!r}") from exc
    if not isinstance(value, dict):
        raise ProtocolError(f"{what!r} frame does not carry a JSON object: {text[:80]!r}")
    return cast("dict[str, Any]", value)


def _objects(frame: ServerSentEvent, member: str) -> tuple[Mapping[str, Any], ...]:
    values = _object(frame).get(member)
    if not isinstance(values, list):
        raise ProtocolError(f"{frame.type!r} frame lacks the list {member!r}")
    return tuple(cast("list[dict[str, Any]]", values))


def _text(members: Mapping[str, Any], name: str, default: str = "") -> str:
    value = members.get(name)
    return value if isinstance(value, str) else default


def _number(members: Mapping[str, Any], name: str) -> int | None:
    value = members.get(name)
    return value if isinstance(value, int) else None


def _connected(members: Mapping[str, Any], cursor: str) -> Connected:
    gap = members.get("gap")
    return Connected(
        cursor=_text(members, "cursor", cursor),
        head=_text(members, "head"),
        epoch=_text(members, "epoch"),
        resumed=bool(members.get("resumed")),
        gap=cast("dict[str, Any]", gap) if isinstance(gap, dict) else None,
        pending_prompts=_number(members, "pending_prompts") or 0,
    )


def _gap(members: Mapping[str, Any]) -> Gap:
    return Gap(
        reason=_text(members, "reason", "unknown"),
        after_sequence=_number(members, "after_sequence"),
        resumed_sequence=_number(members, "resumed_sequence"),
    )
