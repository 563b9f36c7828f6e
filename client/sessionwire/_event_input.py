"""Events on their way to the hub: whatever a program has, as JSON with an id of its own.

Text that is JSON already is sent as it is written. Without an id of the producer's own no retry
would be safe, so one is made where there is none (protocol.md §3.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from sessionwire._event import Event
from sessionwire._event_ids import with_id

if TYPE_CHECKING:
    from sessionwire_schemas.envelope import SessionEvent

__all__ = ["Outgoing", "Publishable", "outgoing"]

Publishable: TypeAlias = "Mapping[str, Any] | str | bytes | Event | SessionEvent"
"""An event: its members, its JSON, one that was followed elsewhere, or a typed one."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event that is ready to be sent.

    Attributes:
        id: its id.
        body: its JSON.
        members: the same, parsed.
    """

    id: str
    body: bytes
    members: Mapping[str, Any]


def outgoing(event: Publishable, catalog: str = "") -> Outgoing:
    """Make an event ready.

    Args:
        event: the event.
        catalog: that of its session, for one that does not show its own and has no id.

    Raises:
        ValueError: it is not the JSON of an object, or cannot be spelled as JSON.
        TypeError: it holds what JSON does not have.
    """
    text = _text(event)
    parsed: Any = json.loads(text)
    if not isinstance(parsed, dict):
        raise ValueError(f"an event is a JSON object, not {text[:80]!r}")
    members = cast("dict[str, Any]", parsed)
    body = with_id(text, members, catalog)
    given = members.get("id")
    if "id" not in members:
        members["id"] = given = json.loads(body)["id"]
    return Outgoing(given if isinstance(given, str) else "", body.encode(), members)


def _text(event: Publishable) -> str:
    if isinstance(event, str):
        return event
    if isinstance(event, bytes):
        return event.decode()
    if isinstance(event, Event):
        return event.body
    if isinstance(event, Mapping):
        return json.dumps(dict(event), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return event.dump_json().decode()
