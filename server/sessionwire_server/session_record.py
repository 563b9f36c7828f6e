"""A session as `GET /v1/sessions/{sid}` shows it, and what one is created with. Pure, no I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from sessionwire_schemas.cursor import NO_CHECK, Cursor
from sessionwire_schemas.prompt import Completion
from sessionwire_server.entries import Head
from sessionwire_server.redis_link import Reply

__all__ = ["SessionFields", "SessionRecord", "agree", "record"]

WAITING: Final = "waitingfortoolresults"


@dataclass(frozen=True, slots=True)
class SessionFields:
    """What a session is created with.

    Attributes:
        catalog: `copilot`, `everruns` or empty: then its first event tells.
        title: its title, None for none.
        given: JSON object of all members that the request gave, as they were written.
        completion: who closes an answered prompt, `hub` or `host`; empty for `hub`.
    """

    catalog: str = ""
    title: str | None = None
    given: bytes = b"{}"
    completion: str = ""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session. Times are Unix milliseconds of Redis' clock.

    Attributes:
        title: the newest title, empty for none.
        status: `waitingfortoolresults` while a prompt is open; else `started`, `active` or `idle`.
        updated_ms: when its last event was received, or it was created.
        given: JSON object of the members given at creation; `{}` for a session that its first event
            made.
        steerable: whether it takes commands; true until an event says otherwise.
        host_since_ms: when its host attached, None while it has none.
        open_prompts: how many prompts are open.
        completion: who closes an answered prompt.
        pinned: whether somebody has pinned it.
    """

    id: str
    catalog: str
    title: str
    status: str
    created_ms: int
    updated_ms: int
    epoch: str
    head: Head
    given: bytes
    steerable: bool = True
    host_since_ms: int | None = None
    open_prompts: int = 0
    completion: Completion = "hub"
    pinned: bool = False

    @property
    def cursor(self) -> Cursor:
        """The place after its newest event."""
        return Cursor(self.epoch, self.head.sequence, self.head.offset, self.head.check)

    def members(self) -> dict[str, Any]:
        """Decode `given`."""
        return cast("dict[str, Any]", json.loads(self.given))


def record(sid: str, flat: Mapping[bytes, bytes] | Sequence[Reply]) -> SessionRecord | None:
    """Read a session's meta hash; None if it does not exist or is a tombstone."""
    meta = flat if isinstance(flat, Mapping) else dict(zip(flat[::2], flat[1::2], strict=True))
    if b"epoch" not in meta or b"deleted" in meta:
        return None

    def spelled(name: bytes, default: str = "") -> str:
        value = meta.get(name)
        return default if value is None else value.decode()

    open_prompts = int(meta.get(b"open_prompts", 0))
    status = WAITING if open_prompts > 0 else spelled(b"status", "started")
    head = Head(
        int(meta.get(b"sequence", 0)), int(meta.get(b"offset", 0)), spelled(b"check", NO_CHECK)
    )
    return SessionRecord(
        id=sid,
        catalog=spelled(b"catalog"),
        title=spelled(b"title"),
        status=status,
        created_ms=int(meta.get(b"created_ms", 0)),
        updated_ms=int(meta.get(b"updated_ms", 0)),
        epoch=spelled(b"epoch"),
        head=head,
        given=meta.get(b"given") or b"{}",
        steerable=meta.get(b"steerable") != b"0",
        pinned=b"pinned" in meta,
        host_since_ms=int(meta[b"host_since"]) if b"host_since" in meta else None,
        open_prompts=open_prompts,
        completion="host" if meta.get(b"completion") == b"host" else "hub",
    )


def agree(session: SessionRecord, fields: SessionFields) -> bool:
    """Tell whether a second creation asks for nothing that the session is not.

    Each member given must be equal to the one of the first creation; the catalog may also be the
    one that the first event brought, the id needs no comparing.
    """
    before = session.members()
    wanted = cast("dict[str, Any]", json.loads(fields.given))
    for name, value in wanted.items():
        if name == "id" or (name in before and before[name] == value):
            continue
        if name == "catalog" and value == session.catalog:
            continue
        return False
    return True
