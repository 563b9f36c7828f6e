"""Where a stream begins, from a cursor and one look at the session (protocol.md §6.3). Pure.

Every decision about gaps is made here, without Redis, clock or await: `opening.py` fetches what is
asked for, `viewer.py` delivers from the position that comes out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sessionwire_schemas.cursor import NO_CHECK, Cursor, CursorError, check_of
from sessionwire_server.entries import Outlook, Position, RewoundRange

__all__ = [
    "UNKNOWN_CHECK",
    "Gap",
    "GapReason",
    "Start",
    "StartAfter",
    "StartAt",
    "StartBy",
    "judge",
    "judge_position",
    "last_visible",
    "oldest",
    "parse_start",
    "version_7_ms",
]

GapReason = Literal["trimmed", "epoch_changed", "future_cursor", "rewound", "unknown_id"]

UNKNOWN_CHECK = "aaaaa"
"""Stands for the check of an event that is trimmed: such a cursor is judged by its numbers."""

_EVENT_ID = re.compile(r"[!-~]{1,128}")
_UUID_7 = re.compile(r"(?:event_)?([0-9a-f]{8})-?([0-9a-f]{4})-?7[0-9a-f]{3}-?[89ab]", re.I)


class StartAt(NamedTuple):
    """Begin at a cursor."""

    cursor: Cursor


class StartAfter(NamedTuple):
    """Begin after the event with this id."""

    event_id: str


@dataclass(frozen=True, slots=True)
class StartBy:
    """Begin without a cursor: after a sequence, at the `start`, `now`, or before the last `n`."""

    sequence: int | None = None
    now: bool = False
    last: int | None = None


Start = StartAt | StartAfter | StartBy


@dataclass(frozen=True, slots=True)
class Gap:
    """Why delivery cannot begin where it was asked to."""

    reason: GapReason
    after_sequence: int
    """The sequence that the client has, 0 where that is not known."""
    resumed_sequence: int
    """The sequence after which delivery begins."""

    def members(self) -> dict[str, str | int]:
        """Spell it for `connected.gap` and the `gap` frame."""
        return {
            "reason": self.reason,
            "after_sequence": self.after_sequence,
            "resumed_sequence": self.resumed_sequence,
        }


def parse_start(text: str) -> StartAt | StartAfter:
    """Read what a client gives as its place: a cursor, or the id of an event.

    Raises:
        CursorError: it is neither, or looks like a cursor and is none.
    """
    if text.count(".") == 3:
        return StartAt(Cursor.parse(text))
    if _EVENT_ID.fullmatch(text) is None:
        raise CursorError(f"neither a cursor nor an event id: {text[:80]!r}")
    return StartAfter(text)


def oldest(outlook: Outlook) -> Position:
    """Give the place before the oldest durable event kept.

    Its offset is a floor, for the event before is gone: an offset is never below its sequence.
    """
    before = outlook.first_sequence - 1
    return Position(before, before)


def judge(cursor: Cursor, outlook: Outlook) -> tuple[Position, Gap | None]:
    """Decide where a cursor leads.

    Args:
        cursor: what the client has.
        outlook: the session, looked at with `cursor.sequence`.
    """
    if cursor.epoch != outlook.epoch or not _fits(cursor, outlook):
        return _gap("epoch_changed", 0, oldest(outlook))
    return judge_position(Position(cursor.sequence, cursor.offset), outlook)


def _fits(cursor: Cursor, outlook: Outlook) -> bool:
    """Whether the cursor's check is that of the event in the log; unknown if trimmed or ahead."""
    if outlook.id_at is None or outlook.offset_at is None or cursor.check == NO_CHECK:
        return True
    return cursor.check == check_of(outlook.id_at) and cursor.offset >= outlook.offset_at


def judge_position(position: Position, outlook: Outlook) -> tuple[Position, Gap | None]:
    """Decide where a place of this epoch leads: into the future, a rewound range, a trimmed one."""
    head = outlook.head
    if position.sequence > head.sequence or position.offset > head.offset:
        return _gap("future_cursor", position.sequence, oldest(outlook))
    for hidden in outlook.rewound:
        if hidden.first <= position.sequence <= hidden.last:
            return _gap("rewound", position.sequence, Position(hidden.last, hidden.offset - 1))
    if position.sequence < outlook.first_sequence - 1:
        return _gap("trimmed", position.sequence, oldest(outlook))
    return position, None


def _gap(reason: GapReason, after: int, position: Position) -> tuple[Position, Gap]:
    return position, Gap(reason, after, position.sequence)


def last_visible(n: int, outlook: Outlook) -> int:
    """Find the sequence after which the last `n` durable events that are not rewound begin."""
    sequence, left = outlook.head.sequence, n
    for hidden in _newest_first(outlook.rewound):
        shown = sequence - hidden.last
        if shown >= left:
            break
        left -= max(shown, 0)
        sequence = min(sequence, hidden.first - 1)
    return max(sequence - left, outlook.first_sequence - 1, 0)


def _newest_first(ranges: Sequence[RewoundRange]) -> list[RewoundRange]:
    return sorted(ranges, key=lambda hidden: hidden.last, reverse=True)


def version_7_ms(event_id: str) -> int | None:
    """Read the Unix milliseconds of an id that is a version-7 UUID (RFC 9562 §5.7), else None."""
    match = _UUID_7.match(event_id)
    if match is None or len(event_id.removeprefix("event_").replace("-", "")) != 32:
        return None
    return int(match[1] + match[2], 16)
