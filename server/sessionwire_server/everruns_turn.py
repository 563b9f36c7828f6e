"""What the log of an everruns session says about its latest turn (protocol.md §4.8).

Looks back over a bounded number of durable events, for the newest one that begins or ends work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from sessionwire_server.entries import StoredEvent
from sessionwire_server.log_scan import LogScan

__all__ = ["LOOK_BACK", "Turn", "latest_turn"]

LOOK_BACK: Final = 2_000
"""Durable events looked at; a turn that has written more since it began is taken to be running as
long as its session is active."""

_BEGINS: Final = frozenset({"input.message", "turn.started", "session.activated"})
_ENDS: Final[Mapping[str, str]] = {
    "turn.completed": "completed",
    "turn.failed": "failed",
    "turn.cancelled": "cancelled",
    "turn.sealed": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """The newest event that begins or ends a turn.

    Attributes:
        event_id: that event.
        turn_id: its turn, "" for a message that no turn has taken up yet.
        outcome: `completed`, `failed` or `cancelled`; "" while it is not over.
    """

    event_id: str
    turn_id: str
    outcome: str


async def latest_turn(scan: LogScan, until: int, look_back: int = LOOK_BACK) -> Turn | None:
    """Find the latest turn; None where the log tells of none.

    Args:
        scan: the session's log.
        until: sequence of its newest event.
        look_back: durable events looked at.

    Raises:
        HubError: as `LogScan.events`.
    """
    after = max(0, until - look_back)
    async for event in scan.events(after=after, until=until, newest_first=True):
        if event.type in _BEGINS:
            return Turn(event.id, _turn_id(event), "")
        if event.type in _ENDS:
            return Turn(event.id, _turn_id(event), _ENDS[event.type])
    return None


def _turn_id(event: StoredEvent) -> str:
    data = cast("dict[str, Any]", msgspec.json.decode(event.body)).get("data")
    found = cast("dict[str, Any]", data).get("turn_id") if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""
