"""The cursor: a place just after an event of a session (protocol.md §2).

Owns the one spelling of cursors, `<epoch>.<sequence>.<offset>.<check>`, and the check itself.
Knows nothing of Redis and decides nothing about gaps: that is the hub's replay.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

__all__ = ["NO_CHECK", "Cursor", "CursorError", "check_of", "new_epoch"]

NO_CHECK = "0"
"""The check of sequence 0, where there is no durable event yet."""

MAX_NUMBER = 2**53 - 1
"""Sequences and offsets stay exact in Lua and JavaScript, whose numbers are doubles."""

_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = tuple(a + b for a in _DIGITS for b in _DIGITS)

_SHAPE = re.compile(r"([a-z2-7]{8})\.(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})\.([a-z2-7]{5}|0)")


class CursorError(ValueError):
    """The text is not a cursor; it says nothing about whether a session has that place."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place just after an event.

    Attributes:
        epoch: 8 characters `[a-z2-7]`, the life of the session's numbers.
        sequence: number of the last durable event at or before this place, 0 for none.
        offset: number of the last event of either kind at or before this place, 0 for none.
        check: 5 characters from `check_of` of the durable event at `sequence`, or `NO_CHECK`.
    """

    epoch: str
    sequence: int
    offset: int
    check: str

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read a cursor.

        Raises:
            CursorError: `text` is not `<epoch>.<sequence>.<offset>.<check>` with numbers up to
                2**53 - 1, an offset not below the sequence and a check where the sequence is not 0.
        """
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise CursorError(f"not a cursor: {text[:80]!r}")
        epoch, sequence, offset, check = match[1], int(match[2]), int(match[3]), match[4]
        if max(sequence, offset) > MAX_NUMBER or offset < sequence:
            raise CursorError(f"numbers out of range in cursor: {text!r}")
        if (sequence == 0) != (check == NO_CHECK):
            raise CursorError(f"check and sequence disagree in cursor: {text!r}")
        return cls(epoch, sequence, offset, check)

    def __str__(self) -> str:
        return f"{self.epoch}.{self.sequence}.{self.offset}.{self.check}"


def check_of(event_id: str) -> str:
    """Hash the id of a durable event to the 5 characters `[a-z2-7]` that a cursor carries."""
    # Spelled by hand: this runs for every event, and `base64.b32encode` costs more than the hash.
    bits = int.from_bytes(hashlib.blake2b(event_id.encode(), digest_size=5).digest()) >> 15
    return _PAIRS[bits >> 15] + _PAIRS[bits >> 5 & 1023] + _DIGITS[bits & 31]


def new_epoch(random: bytes) -> str:
    """Spell 5 random bytes as an epoch, 8 characters `[a-z2-7]`."""
    return base64.b32encode(random[:5]).decode().lower()
