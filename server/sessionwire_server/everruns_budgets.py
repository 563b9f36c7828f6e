"""The budgets of sessions, in Redis (protocol.md §4.8).

Owns that a budget is read, changed and written with nothing in between: else it is read again. What
the host says of a budget stands in its events, whose newest are at hand as last values.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from sessionwire_server import log_reader, scripts
from sessionwire_server.errors import HubError
from sessionwire_server.everruns_bodies import CreateBudget
from sessionwire_server.everruns_budget import Budget, budget_session, heard, told_of, with_heard
from sessionwire_server.keys import BUDGETS, SessionKeys
from sessionwire_server.minting import now_ms
from sessionwire_server.publish_call import session_deleted, session_not_found
from sessionwire_server.redis_link import RedisLink, Reply
from sessionwire_server.store import EventStore

__all__ = ["Budgets", "budget_not_found"]

MOST: Final = 64
"""Budgets of one session."""

LISTED: Final = 1_000
"""Sessions that a list over all of them looks at."""

ATTEMPTS: Final = 32

_DECODER: Final = msgspec.json.Decoder(Budget)


def budget_not_found(budget_id: str) -> HubError:
    """Make the error for a budget that does not exist."""
    return HubError(404, "budget_not_found", f"there is no budget {budget_id[:200]!r}")


class Budgets:
    """Reads and changes budgets.

    Every method raises `StoreUnavailable` while Redis is away, and 404 `session_not_found` where
    there is no session; one that changes something 410 `session_deleted` where there was one.
    """

    def __init__(self, link: RedisLink, store: EventStore) -> None:
        self._link = link
        self._store = store

    async def of(self, sid: str) -> list[Budget]:
        """Read a session's budgets, the oldest first, also those that its host alone tells of."""
        await self._store.session(sid)
        events = heard(await self._store.lasts(sid))
        values: list[bytes] = await self._link.command("HVALS", SessionKeys.of(sid).budgets)
        stored = {budget.id: budget for budget in map(_DECODER.decode, values)}
        found = [with_heard(budget, events.get(budget.id)) for budget in stored.values()]
        found += [told_of(event) for name, event in events.items() if name not in stored]
        return sorted(found, key=lambda budget: (budget.created_ms, budget.id))

    async def get(self, budget_id: str) -> Budget:
        """Read one that was made here.

        Raises:
            HubError: 404 `budget_not_found`.
        """
        return (await self._read(budget_id))[1]

    async def _read(self, budget_id: str) -> tuple[bytes, Budget]:
        sid = budget_session(budget_id)
        value = await self._link.command("HGET", SessionKeys.of(sid).budgets, budget_id)
        if value is None:
            raise budget_not_found(budget_id)
        events = heard(await self._store.lasts(sid))
        return value, with_heard(_DECODER.decode(value), events.get(budget_id))

    async def create(self, asked: CreateBudget) -> Budget:
        """Make one, for a session.

        Raises:
            HubError: 429 `budgets_full`.
        """
        sid = asked.subject_id
        session = await self._store.session(sid)
        suffix = secrets.token_hex(8)
        budget = Budget.new(sid, suffix, asked, session.head.offset, now_ms())
        # What helps to find it is there before it is.
        await self._link.command("ZADD", BUDGETS, 0, sid)
        await self._write(budget.id, b"", budget)
        return budget

    async def change(self, budget_id: str, change: Callable[[Budget], Budget]) -> Budget:
        """Read, change and write one until nothing has come between.

        Raises:
            HubError: 404 `budget_not_found`, 503 `busy`.
        """
        for _ in range(ATTEMPTS):
            before, budget = await self._read(budget_id)
            after = change(budget)
            if await self._write(budget_id, before, after):
                return after
        raise HubError(503, "busy", "the budget changes too fast", headers={"Retry-After": "1"})

    async def delete(self, budget_id: str) -> None:
        """Drop one.

        Raises:
            HubError: 404 `budget_not_found`.
        """
        for _ in range(ATTEMPTS):
            before, _budget = await self._read(budget_id)
            if await self._write(budget_id, before, None):
                return

    async def _write(self, budget_id: str, before: bytes, after: Budget | None) -> bool:
        sid = budget_session(budget_id)
        keys = SessionKeys.of(sid)
        spelled = b"" if after is None else msgspec.json.encode(after)
        reply: list[Reply] = await self._link.run(
            scripts.load("budget_write"),
            (keys.meta, keys.budgets),
            (budget_id, before, spelled, MOST),
        )
        if not reply:
            raise session_not_found(sid)
        match reply[0]:
            case b"deleted":
                raise session_deleted(sid)
            case b"full":
                headers = {"Retry-After": "60"}
                detail = f"the session has {MOST} budgets, as many as may be"
                raise HubError(429, "budgets_full", detail, headers=headers)
            case word:
                return bool(word == b"done")

    async def sessions(self) -> list[str]:
        """Name the sessions that may have budgets, by id, at most 1,000."""
        reply: list[bytes] = await self._link.command(
            "ZRANGE", BUDGETS, "-", "+", "BYLEX", "LIMIT", 0, LISTED
        )
        return [log_reader.text(name) for name in reply]

    async def forget(self, sid: str) -> None:
        """Take a session off that list; it turned out to have none."""
        await self._link.command("ZREM", BUDGETS, sid)
