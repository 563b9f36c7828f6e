"""What the hub writes into an event that its producer left out: ids and times (protocol.md §3)."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

__all__ = ["EverrunsIds", "copilot_id", "milliseconds", "now_ms", "rfc3339"]

_RANDOM_BITS = 74
"""What a version-7 UUID has beside its 48 bits of time, its version and its variant."""


def copilot_id() -> str:
    """Make a version-4 UUID."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class EverrunsIds:
    """Makes `event_<version-7 UUID without dashes>`, each greater than the one before."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._last_random = 0

    def mint(self, now_ms: int) -> str:
        """Make an id of a time in Unix milliseconds; the time of the last one, if that is later."""
        if now_ms > self._last_ms:
            self._last_ms = now_ms
            # The top bit stays free, so that counting up never spills into the time.
            self._last_random = int.from_bytes(os.urandom(10)) >> (80 - _RANDOM_BITS + 1)
        else:
            self._last_random += 1 + int.from_bytes(os.urandom(2))
        high, low = self._last_random >> 62, self._last_random & (2**62 - 1)
        number = self._last_ms << 80 | 0x7 << 76 | high << 64 | 0x2 << 62 | low
        return f"event_{number:032x}"


def rfc3339(ms: int) -> str:
    """Spell Unix milliseconds as the hub spells its own times: UTC, milliseconds, `Z`."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int | None:
    """Read an RFC 3339 time as Unix milliseconds, cut off; None if it is none."""
    # `fromisoformat` also takes dates alone, weeks and times without a zone.
    if len(text) < 20 or text[10] not in "Tt " or not text[5:7].isdigit():
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    elapsed = moment - _EPOCH
    if not _FIRST <= moment <= _LAST:
        # The hub spells times in UTC, where this one's year has not four digits.
        return None
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


def now_ms() -> int:
    """Return the time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
