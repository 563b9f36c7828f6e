"""The message that a publish sends over the session's live channel, and its siblings. Pure.

A batch is one line about the batch, one line of six words an event, and the bodies end to end. The
words hold no spaces by their own grammar, so splitting is parsing. The writing half is
`lua/publish.lua`. News of commands, prompts and the host carry no body: whoever wants it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from sessionwire_server.entries import StoredEvent

__all__ = [
    "CommandChange",
    "CommandNews",
    "EpochMessage",
    "HostNews",
    "LiveBatch",
    "LiveMessage",
    "News",
    "PresenceNews",
    "PromptChange",
    "PromptNews",
    "decode",
]

_WORDS = 6


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Events as they happened: offsets run from `first_offset` without holes.

    `events` is None where the bodies were too large for the channel; whoever wants them pulls.
    `sequence` and `check` are those after the last event.
    """

    epoch: str
    first_offset: int
    last_offset: int
    sequence: int
    check: str
    events: tuple[StoredEvent, ...] | None


@dataclass(frozen=True, slots=True)
class EpochMessage:
    """The session's numbers ended: it was `deleted`, or it goes on in a new `epoch`."""

    epoch: str
    deleted: bool


class CommandChange(NamedTuple):
    """Command number `n` is in another state now."""

    n: int
    status: str
    id: str


@dataclass(frozen=True, slots=True)
class CommandNews:
    """Commands came or changed."""

    changes: tuple[CommandChange, ...]


@dataclass(frozen=True, slots=True)
class HostNews:
    """A host attached under a `lease`, or the holder of that lease is gone."""

    lease: int
    connected: bool


class PromptChange(NamedTuple):
    """A prompt is in another state now, as it is shown: `claimed` is one."""

    request_id: str
    state: str


@dataclass(frozen=True, slots=True)
class PromptNews:
    """Prompts were opened or changed.

    Attributes:
        epoch: life of the session's numbers.
        version: the number of this change; the next one has a higher number.
        open: how many prompts are open after it.
        changes: which prompts changed; empty where that would be too much for the channel: then
            any may have.
    """

    epoch: str
    version: int
    open: int
    changes: tuple[PromptChange, ...]

    def concerns(self, request_id: str) -> bool:
        """Tell whether this prompt may have changed."""
        return not self.changes or any(one.request_id == request_id for one in self.changes)


@dataclass(frozen=True, slots=True)
class PresenceNews:
    """Viewers came or went: how many there are now over all hubs, and how many may answer."""

    viewers: int
    can_answer: int


News: TypeAlias = CommandNews | HostNews | PromptNews | PresenceNews
LiveMessage: TypeAlias = LiveBatch | EpochMessage | News


def decode(data: bytes) -> LiveMessage:
    """Read a message of a live channel.

    Raises:
        ValueError: the bytes are of no known kind; the reader treats it as a lost message.
    """
    head, _, rest = data.partition(b"\n")
    words = head.decode().split(" ")
    if words[0] == "e":
        return _batch(words, rest)
    if words[0] in ("x", "r"):
        return EpochMessage(words[1], deleted=words[0] == "x")
    if words[0] == "c":
        return CommandNews(tuple(map(_change, rest.decode().splitlines())))
    if words[0] == "h":
        _, _, lease, connected = words
        return HostNews(int(lease), connected == "1")
    if words[0] == "p":
        _, epoch, version, count = words
        changes = tuple(map(_prompt_change, rest.decode().splitlines()))
        return PromptNews(epoch, int(version), int(count), changes)
    if words[0] == "v":
        _, _, viewers, can_answer = words
        return PresenceNews(int(viewers), int(can_answer))
    raise ValueError(f"unknown live message {head[:80]!r}")


def _change(line: str) -> CommandChange:
    n, status, command_id = line.split(" ")
    return CommandChange(int(n), status, command_id)


def _prompt_change(line: str) -> PromptChange:
    request_id, state = line.split(" ")
    return PromptChange(unquote(request_id), state)


def _batch(head: list[str], rest: bytes) -> LiveBatch:
    _, epoch, first, before, check, received, count, inline = head
    line, _, bodies = rest.partition(b"\n")
    words = line.decode().split(" ")
    n = int(count)
    if len(words) != n * _WORDS:
        raise ValueError(f"live message of {n} events has {len(words)} words")
    offset, sequence, received_ms, at = int(first), int(before), int(received), 0
    events: list[StoredEvent] = []
    for i in range(0, len(words), _WORDS):
        kind, length, event_id, event_type, own_check, key = words[i : i + _WORDS]
        durable = kind == "d"
        if durable:
            sequence += 1
            check = own_check
        end = at + int(length)
        events.append(
            StoredEvent(
                offset=offset,
                sequence=sequence,
                check=check,
                durable=durable,
                id=event_id,
                type=event_type,
                body=bodies[at:end],
                message_key="" if key == "-" else unquote(key),
                received_ms=received_ms,
            )
        )
        offset, at = offset + 1, end
    if inline == "1" and at != len(bodies):
        raise ValueError(f"live message holds {len(bodies)} bytes of bodies, not {at}")
    return LiveBatch(
        epoch, int(first), offset - 1, sequence, check, tuple(events) if inline == "1" else None
    )
