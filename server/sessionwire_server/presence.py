"""Who watches a session, over all hubs (protocol.md §6.5, §8.2).

Each hub writes its own share into the session's hash: when it changes, at most once a second a
session, and again before it lapses. A hub that dies takes its share along, since nobody renews it.
Counting is a number in this process; only the task `run` speaks to Redis of it, whatever comes and
goes meanwhile.
"""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any, Final

import anyio

from sessionwire_server import scripts
from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import Command, RedisLink, Reply
from sessionwire_server.settings import Settings

__all__ = ["NOBODY", "Attendance", "Presence"]

logger = logging.getLogger(__name__)

WRITE_S: Final = 1.0
"""A share is written at most this often a session."""

JOIN_S: Final = 0.05
"""What comes and goes within this is one change."""

RENEWALS: Final = 3
"""Times that a share is renewed within its time, so that two may fail."""

AT_ONCE: Final = 256
"""Shares written at a time."""

REDIS_PAUSE_S: Final = (0.2, 1.0)
"""How long an absent Redis is left alone, jittered."""

LEAVE_S: Final = 2.0
"""How long taking our shares back may take at the end; they lapse by themselves soon enough."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is there.

    Attributes:
        viewers: open streams of the session.
        can_answer: those of them whose token may answer its prompts. Whether a person stands
            behind it is not looked at.
        host_connected: whether its host is attached.
    """

    viewers: int
    can_answer: int
    host_connected: bool

    def members(self) -> dict[str, Any]:
        """Spell it for viewers."""
        return {**self.for_host(), "host": {"connected": self.host_connected}}

    def for_host(self) -> dict[str, Any]:
        """Spell it for the host, who knows that it is there."""
        return {"viewers": self.viewers, "can_answer": self.can_answer}


NOBODY: Final = Presence(0, 0, host_connected=False)


@dataclass(slots=True)
class _Share:
    """This hub's part of a session's presence."""

    viewers: int = 0
    able: int = 0
    onlookers: int = 0
    """Those who are not counted and want to be told all the same: a host."""
    written: tuple[int, int] | None = None

    @property
    def takes_part(self) -> bool:
        return self.viewers > 0 or self.onlookers > 0


class Attendance:
    """The presence of sessions: this hub's shares, and the sums."""

    def __init__(self, link: RedisLink, settings: Settings, hub_id: str) -> None:
        self._link = link
        self._hub_id = hub_id
        self._keep_s = settings.presence_s
        self._shares: dict[str, _Share] = {}
        self._changed: dict[str, None] = {}
        self._written_at: OrderedDict[str, float] = OrderedDict()
        """When each share was written last, the one longest ago first."""
        self._woken = anyio.Event()

    @contextmanager
    def counted(self, sid: str, *, can_answer: bool) -> Generator[None]:
        """Count a viewer while the block runs."""
        share = self._share(sid)
        share.viewers += 1
        share.able += can_answer
        self._note(sid)
        try:
            yield
        finally:
            share.viewers -= 1
            share.able -= can_answer
            self._note(sid)

    @contextmanager
    def looking_on(self, sid: str) -> Generator[None]:
        """Take part without being counted while the block runs: silent hubs are noticed."""
        share = self._share(sid)
        share.onlookers += 1
        self._note(sid)
        try:
            yield
        finally:
            share.onlookers -= 1
            self._note(sid)

    def _share(self, sid: str) -> _Share:
        return self._shares.setdefault(sid, _Share())

    def _note(self, sid: str) -> None:
        share = self._shares[sid]
        if share.written is None and not share.takes_part:
            # Come and gone before it was written.
            del self._shares[sid]
            self._changed.pop(sid, None)
            return
        self._changed[sid] = None
        self._woken.set()

    def rewrite(self, sid: str) -> None:
        """Have our share written again: Redis may have lost it."""
        share = self._shares.get(sid)
        if share is not None:
            share.written = None
            self._note(sid)

    async def of(self, sid: str) -> Presence:
        """Read who watches a session; nobody where there is none.

        Raises:
            StoreUnavailable: Redis is away.
        """
        return (await self.of_all((sid,)))[0]

    async def of_all(self, sids: Sequence[str]) -> list[Presence]:
        """Read who watches each of some sessions, in one write."""
        commands: list[Command] = [("TIME",)]
        for sid in sids:
            keys = SessionKeys.of(sid)
            commands += [("HGET", keys.meta, "host_since"), ("HGETALL", keys.presence)]
        time, *replies = await self._link.pipeline(commands)
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        pairs = zip(sids, replies[::2], replies[1::2], strict=True)
        return [self._sum(sid, now_ms, since, shares) for sid, since, shares in pairs]

    def _sum(self, sid: str, now_ms: int, since: bytes | None, shares: Reply) -> Presence:
        """Add our share as it is now to the others' as they are written."""
        own = self._shares.get(sid)
        viewers, able = (0, 0) if own is None else (own.viewers, own.able)
        for hub, share in dict[bytes, bytes](shares).items():
            its_viewers, its_able, until_ms = map(int, share.split(b" "))
            if hub.decode() != self._hub_id and until_ms > now_ms:
                viewers, able = viewers + its_viewers, able + its_able
        return Presence(viewers, able, since is not None)

    async def run(self) -> None:
        """Write shares as they change and before they lapse, until cancelled: then take them back.

        A task of the hub.
        """
        try:
            while True:
                with anyio.move_on_after(self._pause_s()):
                    await self._woken.wait()
                await anyio.sleep(JOIN_S)
                self._woken = anyio.Event()
                await self._write(self._due(anyio.current_time()))
        finally:
            with anyio.move_on_after(LEAVE_S, shield=True):
                await self._take_back()

    def _pause_s(self) -> float:
        """How long nothing has to be written unless something changes."""
        return min(WRITE_S, self._keep_s / RENEWALS / 2)

    def _due(self, now: float) -> list[str]:
        """Tell what lapses soon, oldest first, and what has changed and may be written again."""
        renewal, soonest = now - self._keep_s / RENEWALS, now - WRITE_S
        lapsing = takewhile(lambda sid: self._written_at[sid] <= renewal, self._written_at)
        changed = (sid for sid in self._changed if self._written_at.get(sid, soonest) <= soonest)
        return list(dict.fromkeys(chain(lapsing, changed)))

    async def _write(self, sids: Sequence[str]) -> None:
        for at in range(0, len(sids), AT_ONCE):
            async with anyio.create_task_group() as tasks:
                for sid in sids[at : at + AT_ONCE]:
                    tasks.start_soon(self._write_one, sid)
            if not self._link.is_up:
                await anyio.sleep(random.uniform(*REDIS_PAUSE_S))
                return

    async def _write_one(self, sid: str) -> None:
        share = self._shares.get(sid)
        if share is None:
            self._written_at.pop(sid, None)
            return
        counted = (share.viewers, share.able)
        self._changed.pop(sid, None)
        try:
            await self._send(sid, *counted, takes_part=share.takes_part)
        except HubError as error:
            self._changed[sid] = None
            logger.debug("the presence of session %s was not written: %s", sid, error.code)
            return
        self._written_at[sid] = anyio.current_time()
        self._written_at.move_to_end(sid)
        share.written = counted
        if not share.takes_part and sid not in self._changed:
            self._shares.pop(sid, None)
            del self._written_at[sid]

    async def _send(self, sid: str, viewers: int, able: int, *, takes_part: bool) -> None:
        keys = SessionKeys.of(sid)
        keep_ms = max(1, int(self._keep_s * 1000))
        words = (keys.live, self._hub_id, viewers, able, int(takes_part), keep_ms)
        script = scripts.load("presence_write")
        await self._link.run(script, (keys.meta, keys.presence), words)

    async def _take_back(self) -> None:
        """Say that this hub is gone, session by session."""
        async with anyio.create_task_group() as tasks:
            for sid in [sid for sid, one in self._shares.items() if one.written is not None]:
                tasks.start_soon(self._leave, sid)

    async def _leave(self, sid: str) -> None:
        try:
            await self._send(sid, 0, 0, takes_part=False)
        except HubError as error:
            logger.debug("our presence in session %s stays until it lapses: %s", sid, error.code)
