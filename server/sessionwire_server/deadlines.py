"""What ends by itself: any hub finds out what is due and has it ended (protocol.md §9).

`sw:deadlines` is a hint and never the truth: the session's own slot decides by Redis' clock, so a
hint too many is harmless, and two hubs that follow the same one end the same things once. A hub
takes a due session by moving its hint ahead; should it die then, another finds it again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from sessionwire_server import scripts
from sessionwire_server.commands import RECEIPT_KEPT_MS, RECEIPTS_KEPT
from sessionwire_server.errors import HubError
from sessionwire_server.keys import DEADLINES, FEED, SessionKeys
from sessionwire_server.redis_link import RedisLink, Reply, StoreUnavailable, Word

__all__ = ["Deadlines"]

logger = logging.getLogger(__name__)

LOOK_S: Final = (0.4, 0.8)
"""How often a hub looks for what is due, jittered so that hubs take turns."""

SESSIONS: Final = 64
"""Sessions taken in one look."""

AHEAD_MS: Final = 10_000
"""How long a hub has for what it took."""

ENDED: Final = 100
"""What one call ends; more of the same session is due again at once."""


class Deadlines:
    """The deadlines of all sessions, as one hub notes and keeps them."""

    def __init__(self, link: RedisLink, orphan_after_s: float = 0) -> None:
        self._link = link
        self.orphan_ms = int(orphan_after_s * 1000)
        self._end_prompts: Callable[[str], Awaitable[None]] | None = None

    def also_end(self, end_prompts: Callable[[str], Awaitable[None]]) -> None:
        """Have the prompts of a session ended, where something of them is due."""
        self._end_prompts = end_prompts

    async def _run(self, script: str, keys: Sequence[str], *words: Word) -> Reply:
        return await self._link.run(scripts.load(script), keys, words)

    async def note(self, sid: str, in_ms: int) -> None:
        """Note that something will be due; before it is written down, lest a crash lose it."""
        await self._run("deadline_note", (DEADLINES,), sid, in_ms)

    async def end_due(self, sid: str) -> tuple[int, bool]:
        """End what of a session is due.

        Returns: its next deadline in Unix milliseconds, 0 for none; whether its host went.
        """
        next_ms, host_went, of_prompts = await self._end_due(sid)
        if of_prompts and self._end_prompts is not None:
            await self._end_prompts(sid)
            next_ms, went, _ = await self._end_due(sid)
            host_went = host_went or went
        return next_ms, host_went

    async def _end_due(self, sid: str) -> tuple[int, bool, bool]:
        keys = SessionKeys.of(sid)
        words = (keys.live, ENDED, RECEIPT_KEPT_MS, RECEIPTS_KEPT, self.orphan_ms)
        reply = await self._run("end_due", keys.steering(), *words)
        if not reply:
            return 0, False, False
        next_ms, host_went, of_prompts = reply
        return int(next_ms), bool(host_went), bool(of_prompts)

    async def look(self) -> int:
        """Take what is due and end it; how many sessions that were."""
        taken, *sids = await self._run("deadline_take", (DEADLINES,), SESSIONS, AHEAD_MS)
        for name in sids:
            await self._keep(name.decode(), taken)
        return len(sids)

    async def _keep(self, sid: str, taken: int) -> None:
        """End what is due of a session that was taken."""
        try:
            next_ms, host_went = await self.end_due(sid)
        except StoreUnavailable:
            raise
        except HubError as error:
            # Its hint was moved ahead, so it is looked at again; the others are not to wait.
            logger.warning("deadlines of session %s were not kept: %s", sid, error.code)
            return
        await self._run("deadline_settle", (DEADLINES,), sid, taken, next_ms)
        if host_went:
            await self._link.command("PUBLISH", FEED, f"u {sid}")

    async def run(self) -> None:
        """End what is due for ever: a task of the hub."""
        while True:
            try:
                found = await self.look()
            except HubError as error:
                found = 0
                logger.debug("deadlines could not be kept: %s", error.code)
            if found < SESSIONS:
                await anyio.sleep(random.uniform(*LOOK_S))
