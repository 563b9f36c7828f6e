"""Opens a stream: from what the client asked for to the place where its delivery begins.

Fetches from the store what `replay.py` needs to decide, in as few reads as the kind of start
allows: a cursor takes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessionwire_schemas.cursor import NO_CHECK, Cursor, check_of
from sessionwire_server.entries import Outlook, Position
from sessionwire_server.replay import (
    UNKNOWN_CHECK,
    Gap,
    Start,
    StartAfter,
    StartAt,
    StartBy,
    judge,
    judge_position,
    last_visible,
    oldest,
    version_7_ms,
)
from sessionwire_server.store import EventStore

__all__ = ["Opening", "open_at"]

CLOCK_SLACK_MS = 5_000
"""A producer's clock may run this far ahead of ours before an event could be missed."""
FUTURE_SLACK_MS = 60_000


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a stream begins. `resumed` tells that the client's own place was found and holds."""

    outlook: Outlook
    position: Position
    check: str
    gap: Gap | None
    resumed: bool

    @property
    def cursor(self) -> Cursor:
        """The place as a cursor."""
        return Cursor(self.outlook.epoch, self.position.sequence, self.position.offset, self.check)


async def open_at(store: EventStore, sid: str, start: Start, now_ms: int) -> Opening:
    """Find where delivery begins.

    Args:
        now_ms: Unix milliseconds, the upper bound for times read from ids.

    Raises:
        HubError: 404 `session_not_found`, 410 `session_deleted`, 503 `redis_unavailable`.
    """
    if isinstance(start, StartAt):
        outlook = await store.look(sid, start.cursor.sequence)
        position, gap = judge(start.cursor, outlook)
        if gap is None:
            return Opening(outlook, position, start.cursor.check, None, resumed=True)
    else:
        outlook = await store.look(sid)
        if isinstance(start, StartAfter):
            position, gap = await _after_id(store, sid, start.event_id, outlook, now_ms)
        else:
            position, gap = await _by(store, sid, start, outlook)
    resumed = gap is None and not (isinstance(start, StartBy) and start.sequence is None)
    return await _opening(store, sid, outlook, position, gap, resumed)


async def _opening(
    store: EventStore,
    sid: str,
    outlook: Outlook,
    position: Position,
    gap: Gap | None,
    resumed: bool,
) -> Opening:
    if position.sequence == 0:
        check = NO_CHECK
    elif position.sequence == outlook.head.sequence:
        check = outlook.head.check
    else:
        at = await store.look(sid, position.sequence)
        check = UNKNOWN_CHECK if at.id_at is None else check_of(at.id_at)
    return Opening(outlook, position, check, gap, resumed)


async def _after_id(
    store: EventStore, sid: str, event_id: str, outlook: Outlook, now_ms: int
) -> tuple[Position, Gap | None]:
    position = await store.locate(sid, event_id)
    if position is not None:
        return judge_position(position, outlook)
    made_ms = version_7_ms(event_id)
    if made_ms is not None and outlook.created_ms <= made_ms <= now_ms + FUTURE_SLACK_MS:
        position = await store.locate_time(sid, made_ms - CLOCK_SLACK_MS)
        return judge_position(position, outlook)
    start = oldest(outlook)
    return start, Gap("unknown_id", 0, start.sequence)


async def _by(
    store: EventStore, sid: str, start: StartBy, outlook: Outlook
) -> tuple[Position, Gap | None]:
    head = outlook.head
    if start.now:
        return Position(head.sequence, head.offset), None
    if start.last is not None:
        sequence = last_visible(start.last, outlook)
        position = await store.position_at(sid, sequence)
        return position or oldest(outlook), None
    if start.sequence is None:
        return oldest(outlook), None
    if start.sequence > head.sequence:
        return judge_position(Position(start.sequence, head.offset), outlook)
    position = await store.position_at(sid, start.sequence)
    return judge_position(position or Position(start.sequence, start.sequence), outlook)
