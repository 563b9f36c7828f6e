"""The prompts of a session as one read found them. Pure; the reading half is `prompt_read.lua`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from sessionwire_schemas.catalog import CATALOGS, Catalog
from sessionwire_schemas.prompt import Completion
from sessionwire_server import log_reader
from sessionwire_server.entries import StoredEvent
from sessionwire_server.keys import SessionKeys
from sessionwire_server.prompt_kept import Kept
from sessionwire_server.prompt_record import Record, read_all
from sessionwire_server.redis_link import Reply, Word

__all__ = ["PromptState", "Scope", "Wanted", "read_state"]

Scope: TypeAlias = Literal["all", "due", "named"]

MAX_DUE: Final = 256
"""What ends in one step."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read.

    Attributes:
        scope: all open prompts, those of which something is due, or those named alone.
        names: request ids whose records are wanted, open or closed.
        openers: the openers of the open prompts as well.
        secrets: what was cut out of the named ones as well.
        targets: ids of events that rewinds name.
        ids: ids of events that may be known.
    """

    scope: Scope = "named"
    names: Sequence[str] = ()
    openers: bool = False
    secrets: bool = False
    targets: Sequence[str] = ()
    ids: Sequence[str] = ()

    def words(self) -> list[Word]:
        """Spell the script's arguments."""
        words: list[Word] = [self.scope, int(self.openers), int(self.secrets), MAX_DUE]
        for one in (self.names, self.targets, self.ids):
            words += (len(one), *one)
        return words

    @staticmethod
    def keys(keys: SessionKeys) -> tuple[str, ...]:
        """Name the script's keys."""
        return (
            keys.meta,
            keys.prompts,
            keys.openers,
            keys.secrets,
            keys.closed,
            keys.due,
            keys.log,
            keys.ids,
            keys.eids,
        )


@dataclass(frozen=True, slots=True)
class PromptState:
    """What a read found.

    Attributes:
        epoch: the session's, "" for one that does not exist.
        version: number of the last change of a prompt.
        now_ms: Redis' time.
        catalog: the session's, None while it has none.
        completion: who closes an answered prompt.
        sequence, offset: the session's head.
        counted: open prompts as meta counts them.
        stored: open prompts that have a record.
        open, closed: records, by request id.
        openers: by offset.
        secrets: what was cut out of openers, by request id.
        due: what of the session is due: `p:<request id>` a deadline, `u:<request id>` an answer
            that had to be fetched, `gone` the host.
        targets: offsets of the events that rewinds name, those that are kept.
        asked: ids of events that may have been stored.
        known: those of them that are.
    """

    epoch: str
    version: int
    now_ms: int
    catalog: Catalog | None
    completion: Completion
    sequence: int
    offset: int
    counted: int
    stored: int
    open: Mapping[str, Record]
    closed: Mapping[str, Record]
    openers: Mapping[int, StoredEvent]
    secrets: Mapping[str, Mapping[str, Any]]
    due: tuple[str, ...]
    targets: Mapping[str, int]
    asked: frozenset[str]
    known: frozenset[str]

    @property
    def is_whole(self) -> bool:
        """Whether every prompt that is counted has its record."""
        return self.counted == self.stored

    def kept(self, request_id: str) -> Kept | None:
        """Give a prompt with its opener, None where there is none."""
        record = self.open.get(request_id)
        if record is None:
            record = self.closed.get(request_id)
            return None if record is None else Kept(record.prompt, None)
        return Kept(record.prompt, self.openers.get(record.prompt.place.offset))

    def oldest_first(self) -> Iterable[Record]:
        """Give the open prompts in the order in which they were opened."""
        return sorted(self.open.values(), key=lambda one: (one.prompt.place.offset, one.order))


def nothing(now_ms: int) -> PromptState:
    """Give the state of a session that does not exist yet."""
    none = frozenset[str]()
    return PromptState("", 0, now_ms, None, "hub", 0, 0, 0, 0, {}, {}, {}, {}, (), {}, none, none)


def read_state(wanted: Wanted, reply: Sequence[Reply]) -> PromptState:
    """Read what the script answered, but for a session that was deleted."""
    if len(reply) == 1:
        return nothing(int(reply[0]))
    epoch, version, now, catalog, completion, sequence, offset, counted, stored = reply[:9]
    opened, closed, openers, secrets, due, targets, known = reply[9:]
    is_open = read_all(opened)
    events = map(log_reader.last_value, openers[1::2])
    return PromptState(
        epoch=log_reader.text(epoch),
        version=version,
        now_ms=now,
        catalog=CATALOGS.get(log_reader.text(catalog)),
        completion="host" if completion == b"host" else "hub",
        sequence=sequence,
        offset=offset,
        counted=counted,
        stored=stored,
        open=is_open,
        # One that is both was about to be closed when a script failed: it still is open.
        closed={name: one for name, one in read_all(closed).items() if name not in is_open},
        openers={event.offset: event for event in events},
        secrets=dict(_secrets(secrets)),
        due=tuple(map(log_reader.text, due)),
        targets={name: at for name, at in zip(wanted.targets, targets, strict=True) if at},
        asked=frozenset(wanted.ids),
        known=frozenset(name for name, is_known in zip(wanted.ids, known, strict=True) if is_known),
    )


def _secrets(flat: Sequence[Reply]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        yield log_reader.text(name), cast("Mapping[str, Any]", json.loads(value))
