"""Rebuilds what stands outside the sessions' slots: the hints by which sessions are found.

Those hints (`keys.SESSIONS`, `DEADLINES`, `ASKING`) are written beside the sessions, not with them,
so a Redis that was restored or lost its last second may lack some: such a session works, but is in
no list, its prompts are in none of `GET /v1/prompts`, and nothing of it expires by itself. This
walks all sessions and adds what is missing. It takes nothing away and moves no hint back, so it is
safe while hubs run; read steps are bounded, and a second run finds nothing to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from sessionwire_schemas.names import SESSION_ID_PATTERN
from sessionwire_server.keys import ASKING, DEADLINES, SESSIONS, SessionKeys
from sessionwire_server.redis_link import Command, RedisLink, Reply

__all__ = ["Repaired", "repair"]

COUNT: Final = 500
"""Keys that Redis looks at in one step; it serves others between two of them."""

PAGE: Final = 100
"""Sessions read in one write."""

_META: Final = SessionKeys.of("*").meta
_SID: Final = re.compile(
    re.escape(_META).replace(re.escape("*"), f"({SESSION_ID_PATTERN.pattern})")
)


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was found and mended.

    Attributes:
        sessions: sessions that are there.
        listed: how many of them were missing in the list.
        due: how many had a deadline that nothing would have come to, or come to late.
        asking: how many had open prompts that could not be found.
    """

    sessions: int = 0
    listed: int = 0
    due: int = 0
    asking: int = 0

    def __add__(self, other: Repaired) -> Repaired:
        return Repaired(
            self.sessions + other.sessions,
            self.listed + other.listed,
            self.due + other.due,
            self.asking + other.asking,
        )


async def repair(link: RedisLink) -> Repaired:
    """Add the hints that are missing.

    Returns: the counts; a session that is made or deleted meanwhile may be in them or not.

    Raises:
        HubError: Redis is away; what was done until then stays.
    """
    total = Repaired()
    async with aclosing(_sessions(link)) as pages:
        async for sids in pages:
            for start in range(0, len(sids), PAGE):
                total += await _mend(link, sids[start : start + PAGE])
    return total


async def _sessions(link: RedisLink) -> AsyncGenerator[list[str]]:
    """Give the ids of all sessions; one may come twice while Redis rehashes."""
    cursor = "0"
    while True:
        words = ("SCAN", cursor, "MATCH", _META, "COUNT", COUNT, "TYPE", "hash")
        ((found, keys),) = await link.pipeline([words], scan=True)
        matches = (_SID.fullmatch(bytes(key).decode(errors="replace")) for key in keys)
        sids = [match[1] for match in matches if match]
        if sids:
            yield sids
        cursor = bytes(found).decode()
        if cursor == "0":
            return


async def _mend(link: RedisLink, sids: Sequence[str]) -> Repaired:
    reads: list[Command] = []
    for sid in sids:
        keys = SessionKeys.of(sid)
        reads.append(("HMGET", keys.meta, "epoch", "deleted", "updated_ms"))
        reads.append(("ZRANGE", keys.due, 0, 0, "WITHSCORES"))
        reads.append(("EXISTS", keys.prompts))
    replies = await link.pipeline(reads, scan=True)
    hints = list[tuple[str, Command]]()
    sessions = 0
    for number, sid in enumerate(sids):
        found = _hints(sid, *replies[3 * number : 3 * number + 3])
        sessions += bool(found)
        hints += found
    added = await link.pipeline([command for _, command in hints], scan=True) if hints else []
    counts = Counter[str]()
    for (noun, _), count in zip(hints, added, strict=True):
        counts[noun] += int(count)
    return Repaired(sessions, counts["listed"], counts["due"], counts["asking"])


def _hints(sid: str, meta: Reply, due: Reply, asks: Reply) -> list[tuple[str, Command]]:
    """Return what adds the hints of a session, unless they are there; nothing if it is gone."""
    epoch, deleted, updated_ms = meta
    if epoch is None or deleted is not None:
        return []
    # NX: a hub's own entry is at least as new as what was read here.
    hints: list[tuple[str, Command]] = [
        ("listed", ("ZADD", SESSIONS, "NX", int(updated_ms or 0), sid))
    ]
    if due:
        # LT: never later than what a hub has noted. CH: counts one that was there, but too late.
        _, at_ms = due[0]
        hints.append(("due", ("ZADD", DEADLINES, "LT", "CH", f"{float(at_ms):.0f}", sid)))
    if asks:
        hints.append(("asking", ("ZADD", ASKING, "NX", 0, sid)))
    return hints
