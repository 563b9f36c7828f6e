"""The values that pass between ingest, store and replay. No behaviour, no I/O.

`Entry` goes in (an event ready to be stored), `StoredEvent` comes out (an event with its place).
Those two are made for every event, so they are msgspec structs: a frozen dataclass of as many
members takes five times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from sessionwire_schemas.catalog import NO_EFFECTS, Effects
from sessionwire_schemas.prompts import NO_EFFECTS as NO_PROMPT_EFFECTS
from sessionwire_schemas.prompts import Effects as PromptEffects
from sessionwire_server.prompt_terms import CommandWrite

__all__ = [
    "Entry",
    "Head",
    "OpenMessage",
    "Outlook",
    "Page",
    "Position",
    "RewoundRange",
    "StoredEvent",
    "Verdict",
]


class Position(NamedTuple):
    """A place just after an event, within one epoch."""

    sequence: int
    offset: int


class Head(NamedTuple):
    """The newest place of a session; `check` is `NO_CHECK` while `sequence` is 0."""

    sequence: int
    offset: int
    check: str


class RewoundRange(NamedTuple):
    """Durable events `first` to `last` were rewound by the event at `last + 1`.

    `offset` is that of the rewind event: everything that happened from `first` on with an offset
    below it is hidden, ephemeral events too.
    """

    first: int
    last: int
    offset: int


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event, checked and ready to be stored.

    The body is `head + <hole> + tail`; the script fills the hole, since only it knows the number:
    `sequence` is the decimal sequence, `parent` the JSON of the last durable event's id or `null`.
    Without a hole the body is `head` alone.
    """

    id: str
    type: str
    durable: bool
    check: str
    """`check_of(id)`."""
    head: bytes
    hole: Literal["", "sequence", "parent"] = ""
    tail: bytes = b""
    minted: bool = False
    """The hub made the id, so it cannot be a duplicate."""
    at_ms: int = 0
    """The event's own time in Unix milliseconds; 0 where it cannot be read."""
    members: bytes = b""
    """JSON object of the members that list filters ask for
    (`turn_id exec_id trace_id tags tool_name`), only those present; empty for none."""
    effects: Effects = NO_EFFECTS
    """What it does to its session."""
    prompts: PromptEffects = NO_PROMPT_EFFECTS
    """What it does to the prompts of its session; the very object for most events, which do
    nothing to them."""
    secrets: bytes = b""
    """JSON object of what was cut out of `data`; empty for nothing."""
    command: CommandWrite | None = None
    """A command to the host that is taken together with it; only where it does something to
    prompts."""
    commands_max: int = 0
    """Commands that may wait already where it has one, 0 for any number."""


class Verdict(NamedTuple):
    """What became of one entry. `position` is the place just after it (the first one's, if it is a
    duplicate); `sequence` is None for an ephemeral event."""

    id: str
    epoch: str
    position: Position
    check: str
    sequence: int | None
    duplicate: bool


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """One event with its place. `check` completes its cursor: that of the durable event at
    `sequence`, itself if it is durable."""

    offset: int
    sequence: int
    check: str
    durable: bool
    id: str
    type: str
    body: bytes
    message_key: str = ""
    received_ms: int = 0
    at_ms: int = 0
    members: bytes = b""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a session looks like to somebody about to read it, from one script call."""

    epoch: str
    catalog: str
    head: Head
    first_sequence: int
    """Oldest durable event kept; `head.sequence + 1` when none is."""
    first_offset: int
    """Offset of the oldest event in the tail; `head.offset + 1` when it is empty."""
    created_ms: int
    rewound: tuple[RewoundRange, ...]
    id_at: str | None
    """Id of the durable event at the sequence asked for, None where it is not kept."""
    offset_at: int | None
    """Its offset."""
    open_prompts: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Events after a position, in order of offset.

    `position` is where the next read continues: if `more` is false it is `head`, whether or not the
    last numbers were ephemeral. `exact` tells that the tail covered it: every event is there, of
    both kinds; otherwise only the durable ones. `trimmed` tells that durable events between the
    position asked for and the first one here are no longer kept.
    """

    epoch: str
    head: Head
    events: tuple[StoredEvent, ...]
    position: Position
    more: bool
    exact: bool
    trimmed: bool


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """A message that is still being streamed, whose first delta the tail still holds."""

    key: str
    deltas: tuple[StoredEvent, ...]
