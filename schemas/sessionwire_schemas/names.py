"""Which names are well formed (protocol.md §3).

Owns the patterns of session ids, event types and event ids, and the event types that the hub keeps
for its own frames. Use the patterns with `fullmatch`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "EVENT_ID_PATTERN",
    "MAX_REQUEST_ID_BYTES",
    "RESERVED_TYPES",
    "SESSION_ID_PATTERN",
    "TYPE_PATTERN",
]

SESSION_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A session id, case-sensitive. `sse` fits the pattern and is taken by a route."""

TYPE_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
"""An event type of any catalog, known or not."""

EVENT_ID_PATTERN: Final = re.compile(r"[!-~]{1,128}")
"""An event id: printable ASCII without space."""

MAX_REQUEST_ID_BYTES: Final = 256
"""The longest request id of a prompt, in bytes of UTF-8."""

RESERVED_TYPES: Final = frozenset(
    {
        "caught_up",
        "command",
        "connected",
        "cursor",
        "disconnecting",
        "error",
        "gap",
        "message",
        "open",
        "presence",
        "prompts",
        "reset",
        "snapshot",
    }
)
"""Names of the hub's own frames and of EventSource's own events; no event may use them."""
