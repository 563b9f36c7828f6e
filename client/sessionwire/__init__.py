"""sessionwire: the client half of the event bus for AI agent sessions.

A `Client` knows a hub, a `Session` is one of its sessions: `follow` it and get every event once and
in order across any interruption (protocol.md §6), `publish` to it, be its `host` (§9), answer its
`prompts` (§8), `send` to its agent. `sessionwire.sync` has the same for programs without an event
loop, `sessionwire.errors` what can go wrong, `sessionwire.testing` a hub for tests.
"""

from __future__ import annotations

from sessionwire._asking import Answer
from sessionwire._client import Client
from sessionwire._event import Event, LooseData
from sessionwire._event_stream import EventStream
from sessionwire._follow import Follow, Start, Wanted, follow
from sessionwire._handlers import PASS
from sessionwire._host import Command, Host, host
from sessionwire._items import (
    CaughtUp,
    Connected,
    Disconnected,
    Gap,
    Item,
    Presence,
    Prompts,
    Reset,
    Snapshot,
)
from sessionwire._prompt import Prompt
from sessionwire._published import Published
from sessionwire._publisher import Publisher, Sent
from sessionwire._receipt import Receipt
from sessionwire._session import Session
from sessionwire._session_host import SessionHost
from sessionwire.errors import (
    ConnectionFailed,
    HubError,
    PromptEnded,
    ProtocolError,
    ReplayGap,
    RequestRejected,
    SessionReset,
)

__version__ = "0.1.0"

__all__ = [
    "PASS",
    "Answer",
    "CaughtUp",
    "Client",
    "Command",
    "Connected",
    "ConnectionFailed",
    "Disconnected",
    "Event",
    "EventStream",
    "Follow",
    "Gap",
    "Host",
    "HubError",
    "Item",
    "LooseData",
    "Presence",
    "Prompt",
    "PromptEnded",
    "Prompts",
    "ProtocolError",
    "Published",
    "Publisher",
    "Receipt",
    "ReplayGap",
    "RequestRejected",
    "Reset",
    "Sent",
    "Session",
    "SessionHost",
    "SessionReset",
    "Snapshot",
    "Start",
    "Wanted",
    "__version__",
    "follow",
    "host",
]
