"""Every name the hub uses in Redis; no other module spells one.

A session's keys and its live channel carry the hash tag `{sid}`, so they share a slot and one
script may touch them all. What stands outside a slot (`SESSIONS`, `FEED`, …) is a hint, never the
truth. See the table in `docs/design.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ASKING",
    "BUDGETS",
    "DEADLINES",
    "FEED",
    "SESSIONS",
    "SWEEP",
    "SessionKeys",
    "live_channel",
    "probe_channel",
]

ASKING: Final = "sw:open"
"""ZSET of one score: sessions that may have open prompts, so that they can be found."""

BUDGETS: Final = "sw:budgets"
"""ZSET of one score: sessions that may have budgets, so that they can be listed."""

DEADLINES: Final = "sw:deadlines"
"""ZSET: session id, score = Unix milliseconds at which something of it is due."""

SESSIONS: Final = "sw:sessions"
"""ZSET: session id, score = Unix milliseconds of its last change."""

FEED: Final = "sw:feed"
"""Plain channel: `u <sid>` and `d <sid>`, hints for session lists."""

SIGNING_SECRET: Final = "sw:signing-secret"
"""STRING: what tickets and sign-in cookies are signed with, by every hub on this Redis."""

SWEEP: Final = "sw:sweep"
"""STRING with a TTL: held by the hub that sweeps."""


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of one session, in the order in which scripts take them."""

    meta: str
    log: str
    tail: str
    ids: str
    eids: str
    deltas: str
    last: str
    prompts: str
    closed: str
    commands: str
    receipts: str
    presence: str
    due: str
    finished: str
    openers: str
    asking: str
    secrets: str
    closed_at: str
    budgets: str
    live: str

    @classmethod
    def of(cls, sid: str) -> SessionKeys:
        """Spell the keys of session `sid`."""
        return cls(*(f"sw:{{{sid}}}:{noun}" for noun in cls.__slots__))

    def all(self) -> tuple[str, ...]:
        """Every key, `meta` first: what a script must name to end a session's state."""
        return (
            self.meta,
            self.log,
            self.tail,
            self.ids,
            self.eids,
            self.deltas,
            self.last,
            self.prompts,
            self.closed,
            self.commands,
            self.receipts,
            self.presence,
            self.due,
            self.finished,
            self.openers,
            self.asking,
            self.secrets,
            self.closed_at,
            self.budgets,
        )

    def steering(self) -> tuple[str, ...]:
        """Name the keys of the commands, in the order in which their scripts take them."""
        return (self.meta, self.commands, self.receipts, self.due, self.finished)


def live_channel(sid: str) -> str:
    """Name the shard channel that carries everything that happens in session `sid`."""
    return f"sw:{{{sid}}}:live"


def probe_channel(hub_id: str) -> str:
    """Name the shard channel through which a hub proves that it hears itself."""
    return f"sw:{{probe-{hub_id}}}:probe"
