"""The words of `lua/publish.lua`: requests in, verdicts out. Pure, no I/O.

What a request asks for is in `PublishRequest`; what the script answered becomes the verdicts, or
the error that the client gets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from sessionwire_schemas.catalog import NO_EFFECTS, Effects
from sessionwire_server.commands import command_refusal
from sessionwire_server.entries import Entry, Position, Verdict
from sessionwire_server.errors import HubError
from sessionwire_server.prompt_terms import Decided, Mark, Terms
from sessionwire_server.redis_link import Reply, Word
from sessionwire_server.settings import Settings

__all__ = [
    "MAX_NAME_BYTES",
    "PublishRequest",
    "SessionDeleted",
    "arguments",
    "catalog_mismatch",
    "is_stale",
    "refusal",
    "session_deleted",
    "session_not_found",
    "verdicts",
]

MAX_NAME_BYTES = 512
"""Longest name under which an event is remembered. A message whose id makes a longer one gets no
catch-up, a value none in `last`: names are the producer's and must not fill Redis."""

UNKNOWN_CHECK = "aaaaa"
"""Stands in a cursor whose durable event is trimmed: such a cursor is judged by its numbers."""


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """One request to publish, stored whole or not at all."""

    catalog: str
    create: bool
    entries: Sequence[Entry]
    terms: Terms | None = None
    """On what terms it is stored; None where it has nothing to do with prompts."""
    size: int = field(init=False)
    """Bytes of its bodies."""

    def __post_init__(self) -> None:
        size = sum(len(entry.head) + len(entry.tail) for entry in self.entries)
        object.__setattr__(self, "size", size)


_SAFE: Final = "|:._-*"
_PLAIN: Final = re.compile(r"[A-Za-z0-9|:._*-]*")


def _name(name: str) -> str:
    """Spell a message key or last key without spaces, or as nothing where it is too long."""
    # Quoting what needs none takes six times as long as seeing that it needs none.
    word = name if _PLAIN.fullmatch(name) else quote(name, safe=_SAFE)
    return word if len(word) <= MAX_NAME_BYTES else ""


_STEERABLE: Final = {None: "-", True: "1", False: "0"}


_NO_EFFECT_WORDS: Final = ("",) * 6


def _entry_words(entry: Entry, mark: str = Mark.ANY) -> tuple[Word, ...]:
    kind = "d" if entry.durable else "p"
    hole = entry.hole[:1] or "-"
    minted = "m" if entry.minted else "-"
    effects = entry.effects
    return (
        f"{kind}{hole}{minted}{_STEERABLE[effects.steerable]}{mark}",
        entry.id,
        entry.type,
        entry.check,
        entry.head,
        entry.tail,
        entry.at_ms,
        entry.members,
        *(_NO_EFFECT_WORDS if effects is NO_EFFECTS else _effect_words(effects)),
    )


def _effect_words(effects: Effects) -> tuple[Word, ...]:
    return (
        _name(effects.last_key),
        _name(effects.message_key),
        " ".join(map(_name, effects.closes)),
        effects.rewind_to,
        effects.status,
        "" if effects.title is None else f"={effects.title}",
    )


def arguments(
    channel: str, epoch: str, settings: Settings, requests: Sequence[PublishRequest]
) -> list[Word]:
    """Spell the arguments of one call; `epoch` is taken if the session has none yet."""
    words: list[Word] = [
        channel,
        epoch,
        settings.tail_max,
        settings.tail_ttl_s,
        settings.tail_inline_bytes,
        settings.live_message_bytes,
        settings.log_max_events,
        int(settings.log_max_age_s * 1000),
        len(requests),
    ]
    for request in requests:
        terms = () if request.terms is None else request.terms.words()
        words += (request.catalog, int(request.create), len(request.entries), len(terms))
        if isinstance(request.terms, Decided):
            for entry, mark in zip(request.entries, request.terms.marks, strict=True):
                words += _entry_words(entry, mark)
        else:
            for entry in request.entries:
                words += _entry_words(entry)
        words += terms
    return words


def is_stale(reply: Sequence[Reply]) -> bool:
    """Tell whether a request was not stored because its terms did not hold."""
    return bool(reply[0] == b"stale")


class SessionDeleted(HubError):
    """A read of a session that was deleted lately: it is not found, and will not come back."""

    def __init__(self, sid: str) -> None:
        super().__init__(404, "session_not_found", f"session {sid!r} was deleted")


def session_not_found(sid: str) -> HubError:
    """Make the error for a session that does not exist."""
    return HubError(404, "session_not_found", f"there is no session {sid!r}")


def session_deleted(sid: str) -> HubError:
    """Make the error for a change of a session that was deleted lately."""
    return HubError(410, "session_deleted", f"session {sid!r} was deleted")


def catalog_mismatch(sid: str, name: str) -> HubError:
    """Make the error for events of another catalog than the session's, which is `name`."""
    detail = f"session {sid!r} is of the catalog {name!r}"
    return HubError(409, "catalog_mismatch", detail, catalog=name)


def refusal(sid: str, reply: Sequence[Reply]) -> HubError | None:
    """Tell why the script refused a request, None if it took it."""
    match reply[0]:
        case b"":
            return None
        case b"deleted":
            return session_deleted(sid)
        case b"catalog":
            return catalog_mismatch(sid, str(reply[1], "ascii"))
        case b"reused":
            return command_refusal("reused", str(reply[1], "ascii"))
        case b"not_steerable":
            return command_refusal("not_steerable")
        case b"full":
            return command_refusal("full", str(reply[1]))
        case _:
            return session_not_found(sid)


def verdicts(epoch: str, entries: Sequence[Entry], reply: Sequence[Reply]) -> list[Verdict]:
    """Read the verdicts on a request that was taken, one an entry, in order."""
    _, sequence, offset, check, *duplicates = reply
    check = str(check, "ascii")
    known = {int(words[0]): words[1:] for words in duplicates}
    found: list[Verdict] = []
    for index, entry in enumerate(entries, 1):
        if index in known:
            found.append(_duplicate(epoch, entry.id, known[index]))
            continue
        offset += 1
        if entry.durable:
            sequence, check = sequence + 1, entry.check
        number = sequence if entry.durable else None
        position = Position(sequence, offset)
        found.append(Verdict(entry.id, epoch, position, check, number, duplicate=False))
    return found


def _duplicate(epoch: str, event_id: str, words: Sequence[Reply]) -> Verdict:
    durable, sequence, offset, check = words
    position = Position(int(sequence), int(offset))
    number = position.sequence if durable else None
    text = str(check, "ascii") or UNKNOWN_CHECK
    return Verdict(event_id, epoch, position, text, number, duplicate=True)
