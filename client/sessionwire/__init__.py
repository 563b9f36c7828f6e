"""sessionwire: the client half of the event bus for AI agent sessions.

`follow` a session and get every event once and in order, across any interruption (protocol.md §6);
be its `host` and get every command that somebody sends it (§9).
"""

from __future__ import annotations

from sessionwire._follow import Follow, Start, Wanted, follow
from sessionwire._host import Command, Host, host
from sessionwire._items import (
    CaughtUp,
    Connected,
    Disconnected,
    Event,
    Gap,
    Item,
    Presence,
    Prompts,
    Reset,
    Snapshot,
)
from sessionwire.errors import ConnectionFailed, HubError, ProtocolError, RequestRejected

__version__ = "0.1.0"

__all__ = [
    "CaughtUp",
    "Command",
    "Connected",
    "ConnectionFailed",
    "Disconnected",
    "Event",
    "Follow",
    "Gap",
    "Host",
    "HubError",
    "Item",
    "Presence",
    "Prompts",
    "ProtocolError",
    "RequestRejected",
    "Reset",
    "Snapshot",
    "Start",
    "Wanted",
    "__version__",
    "follow",
    "host",
]
