"""On what terms a request is stored, as far as prompts go, and what is written with it. Pure.

The words of `lua/publish.lua` behind a request's events. A request that may end prompts goes first
on the term that there is nothing to end; one whose effects were decided goes on the term that
nothing has changed since what it was decided from was read. Where the term does not hold, nothing
of the request is stored, and whoever sent it reads and decides again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from sessionwire_schemas.prompt import Place
from sessionwire_server.redis_link import Word

__all__ = [
    "BATCH",
    "CommandWrite",
    "Decided",
    "Flag",
    "Mark",
    "PromptWrite",
    "Quiet",
    "Sent",
    "Terms",
    "place_in_batch",
]

BATCH: Final = 2**53
"""Offsets above it stand for events of the request itself, counted from 1: no session has them."""


Flag: TypeAlias = Literal["-", "g", "r"]


class Mark:
    """What is expected of an event whose effects were decided."""

    ANY: Final = "-"
    NEW: Final = "n"
    KNOWN: Final = "k"
    SUPPRESSED: Final = "s"
    """New, but a record says it already: stored nowhere."""
    HUB: Final = "h"
    """The hub's own closer, which does not move the chain."""


def place_in_batch(index: int) -> Place:
    """Give the place of the event `index` of the request, from 1, before it has one."""
    return Place(BATCH + index, BATCH + index)


def _place(place: Place | None) -> str:
    if place is None:
        return "- -"
    if place.offset > BATCH:
        return f"@{place.offset - BATCH}"
    return f"{place.offset} {place.sequence}"


@dataclass(frozen=True, slots=True)
class Quiet:
    """No prompt is open, and none of these was closed lately.

    Attributes:
        names: request ids.
        sent: commands that are taken with the request's events.
    """

    names: Sequence[str] = ()
    sent: Sequence[Sent] = ()

    def words(self) -> list[Word]:
        """Spell it."""
        return ["q", len(self.names), *self.names, *_sent_words(self.sent)]


@dataclass(frozen=True, slots=True)
class PromptWrite:
    """A record that is written.

    Attributes:
        request_id: the prompt.
        state: as it is shown, for the news.
        was_open, is_open: whether it was among the open ones before, and is after.
        place, closer_place: where opener and closer stand.
        order: which of its opener's prompts it is.
        record: the record's JSON.
        secrets: what was cut out of the opener, JSON; empty for nothing.
        closed_ms: when it was closed, 0 while it is open.
    """

    request_id: str
    state: str
    was_open: bool
    is_open: bool
    place: Place
    closer_place: Place | None
    order: int
    record: bytes
    secrets: bytes = b""
    closed_ms: int = 0

    def words(self) -> tuple[Word, ...]:
        """Spell it."""
        return (
            self.request_id,
            quote(self.request_id, safe=""),
            self.state,
            int(self.was_open),
            int(self.is_open),
            _place(self.place),
            _place(self.closer_place),
            self.order,
            self.record,
            self.secrets,
            self.closed_ms,
        )


@dataclass(frozen=True, slots=True)
class CommandWrite:
    """A command to the host that is taken with events; see `lua/_send.lua`.

    Attributes:
        expires_in_ms: when it ends if no host reads it, 0 for never.
    """

    id: str
    hash: str
    body: bytes
    about: bytes
    expires_in_ms: int

    def words(self) -> tuple[Word, ...]:
        """Spell it."""
        return (self.id, self.hash, self.body, self.about, self.expires_in_ms)


@dataclass(frozen=True, slots=True)
class Sent:
    """A command that is taken if an event of the request is new, and else was taken with it before.

    Attributes:
        index: which event, from 1.
        command: the command.
        most: commands that may wait already, 0 for any number.
    """

    index: int
    command: CommandWrite
    most: int

    def words(self) -> tuple[Word, ...]:
        """Spell it."""
        return (self.index, *self.command.words(), self.most)


def _sent_words(sent: Sequence[Sent]) -> list[Word]:
    words: list[Word] = [len(sent)]
    for one in sent:
        words += one.words()
    return words


@dataclass(frozen=True, slots=True)
class Decided:
    """Nothing has changed since the state was read from which all this follows.

    Attributes:
        epoch, version: what was read; "" for a session that did not exist.
        marks: one of `Mark` for each event of the request.
        suppressed: for each event that is not stored, its index from 1 and the place of the event
            that says the same.
        before_ms: Redis' time at which it is too late, 0 for never.
        flag: `g`: and the host still is due as gone; `r`: but for records that are lost, and that
            this mends.
        writes: records.
        due: deadlines by member, None for one that is over.
        commands: commands.
        sent: commands that are taken with the request's events.
    """

    epoch: str
    version: int
    marks: str = ""
    suppressed: Sequence[tuple[int, Place]] = ()
    before_ms: int = 0
    flag: Flag = "-"
    writes: Sequence[PromptWrite] = ()
    due: Sequence[tuple[str, int | None]] = ()
    commands: Sequence[CommandWrite] = ()
    sent: Sequence[Sent] = ()

    def words(self) -> list[Word]:
        """Spell it."""
        words: list[Word] = ["d", self.epoch, self.version, self.before_ms, self.flag]
        words.append(len(self.suppressed))
        for index, place in self.suppressed:
            words += (index, _place(place))
        words.append(len(self.writes))
        for write in self.writes:
            words += write.words()
        words.append(len(self.due))
        for member, at_ms in self.due:
            words += (member, "" if at_ms is None else at_ms)
        words.append(len(self.commands))
        for command in self.commands:
            words += command.words()
        return words + _sent_words(self.sent)


Terms: TypeAlias = Quiet | Decided
