"""Event ids of the producer's own, without which no retry is safe (protocol.md §3)."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping

from sessionwire_schemas.catalog import detect

__all__ = ["copilot_id", "everruns_id", "with_id"]


def copilot_id() -> str:
    """Make a version-4 UUID."""
    return str(uuid.uuid4())


def everruns_id() -> str:
    """Make `event_<version-7 UUID without dashes>` (RFC 9562 §5.7)."""
    random = int.from_bytes(os.urandom(10))
    high, low = random >> 68, random & (2**62 - 1)
    number = time.time_ns() // 1_000_000 << 80 | 0x7 << 76 | high << 64 | 0x2 << 62 | low
    return f"event_{number:032x}"


def with_id(body: str, members: Mapping[str, object], catalog: str = "") -> str:
    """Give an event an id of the producer's own where it has none.

    Args:
        body: the event's JSON; everything in it stays as it is written.
        members: the same, parsed.
        catalog: that of the session, for an event that does not show its own.
    """
    if "id" in members:
        return body
    made = everruns_id() if (detect(members) or catalog) == "everruns" else copilot_id()
    opening, rest = body.lstrip()[0], body.lstrip()[1:]
    return f'{opening}"id":{json.dumps(made)}{"," if members else ""}{rest}'
