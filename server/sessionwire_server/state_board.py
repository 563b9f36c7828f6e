"""Reads what viewers are told of prompts and presence: once a change (protocol.md §6.5).

News only mark a channel; this task reads what is marked, a few channels at a time, and the channel
shows it to whoever watches. What changes while it is read is read again, so the last state shown is
the last one there was. Nobody who is slow or many makes it read more.
"""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import Final, Protocol

import anyio

from sessionwire_server.audience import State
from sessionwire_server.channel import Channel
from sessionwire_server.errors import HubError
from sessionwire_server.fan_out import FanOut
from sessionwire_server.presence import Presence
from sessionwire_server.prompt_kept import OpenPrompts
from sessionwire_server.prompt_states import prompts_data
from sessionwire_server.redis_link import StoreUnavailable
from sessionwire_server.state_frames import StateName

__all__ = ["PresenceReader", "PromptReader", "StateBoard"]

logger = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Channels read at a time."""

REST: Final = 9.0
"""How many times as long as reading a channel took it is left alone: many prompts that change often
may take a tenth of the process's time and no more."""

MAX_REST_S: Final = 1.0

LOOK_S: Final = 1.0
"""How often it is looked whether time alone has changed something."""

REDIS_PAUSE_S: Final = (0.2, 1.0)
"""How long an absent Redis is left alone, jittered."""


class PromptReader(Protocol):
    """Reads the open prompts of a session; `PromptStore` does."""

    async def open(self, sid: str) -> OpenPrompts: ...


class PresenceReader(Protocol):
    """Reads who watches a session; `Attendance` does."""

    async def of(self, sid: str) -> Presence: ...
    def rewrite(self, sid: str) -> None: ...


class StateBoard:
    """The states of all watched channels of this process."""

    def __init__(
        self,
        prompts: PromptReader,
        presence: PresenceReader,
        fan_out: FanOut,
        *,
        rest: float = REST,
    ) -> None:
        self._prompts = prompts
        self._presence = presence
        self._settings = fan_out.settings
        self._rest = rest
        self._waiting: dict[Channel, None] = {}
        self._rests_until: dict[Channel, float] = {}
        self._changing: dict[Channel, float] = {}
        """Channels whose prompts are shown differently from a loop time on: a claim lapses."""
        self._woken = anyio.Event()
        self._is_reachable = True
        fan_out.outdated = self._want
        fan_out.doubted = presence.rewrite

    def _want(self, channel: Channel) -> None:
        self._waiting[channel] = None
        self._woken.set()

    async def run(self) -> None:
        """Read what is marked for ever: a task of the hub."""
        limit = anyio.Semaphore(AT_ONCE)
        while True:
            with anyio.move_on_after(self._pause_s(anyio.current_time())):
                await self._woken.wait()
            self._woken, self._is_reachable = anyio.Event(), True
            self._look_at_the_clock(anyio.current_time())
            waiting = [one for one in self._waiting if one not in self._rests_until]
            async with anyio.create_task_group() as tasks:
                for channel in waiting:
                    del self._waiting[channel]
                    await limit.acquire()
                    tasks.start_soon(self._read, channel, limit)
            if not self._is_reachable:
                await anyio.sleep(random.uniform(*REDIS_PAUSE_S))

    def _pause_s(self, now: float) -> float:
        """How long there is nothing to do unless somebody wakes us."""
        rested = (self._rests_until.get(channel, now) for channel in self._waiting)
        return min((at - now for at in rested), default=LOOK_S)

    def _look_at_the_clock(self, now: float) -> None:
        for channel in [channel for channel, at in self._rests_until.items() if at <= now]:
            del self._rests_until[channel]
        for channel in [channel for channel, at in self._changing.items() if at <= now]:
            del self._changing[channel]
            channel.outdate(("prompts",))

    async def _read(self, channel: Channel, limit: anyio.Semaphore) -> None:
        names, began = channel.states.take_stale(), anyio.current_time()
        try:
            await self._renew(channel, names)
        except StoreUnavailable:
            channel.outdate(names)
            self._is_reachable = False
        except HubError as error:
            # It was deleted, which ends its viewers; or lost, and comes back in a new epoch.
            logger.debug("the state of session %s was not read: %s", channel.sid, error.code)
        except Exception:
            # One session's fault must not keep the others from their states.
            logger.exception("the state of session %s cannot be shown", channel.sid)
        finally:
            limit.release()
            now = anyio.current_time()
            if rest_s := min((now - began) * self._rest, MAX_REST_S):
                self._rests_until[channel] = now + rest_s

    async def _renew(self, channel: Channel, names: set[StateName]) -> None:
        states = channel.states
        life, presence, before = states.life, states.presence, states.presence
        if presence is None or "presence" in names:
            presence = await self._presence.of(channel.sid)
        flipped = before is None or bool(before.can_answer) != bool(presence.can_answer)
        found = None
        if "prompts" in names or (flipped and states.open_prompts):
            found = await self._prompts.open(channel.sid)
        if states.life != life or not states.watchers:
            return
        # Somebody may have learned newer ones meanwhile.
        if found is not None and found.version >= states.prompts_version:
            self._show_prompts(channel, found, presence)
        channel.show_presence(presence)

    def learn(self, channel: Channel, found: OpenPrompts, life: int) -> None:
        """Show prompts that somebody read for a viewer of his own, where they are newer.

        Else that viewer, who was given them, would be told the older state that is shown.

        Args:
            channel: the session's.
            found: what was read.
            life: that of the channel's states before it was read.
        """
        states = channel.states
        newer = found.version > states.prompts_version
        if newer and states.life == life and states.presence is not None:
            self._show_prompts(channel, found, states.presence)

    def _show_prompts(self, channel: Channel, found: OpenPrompts, presence: Presence) -> None:
        self._note(channel, found)
        channel.show(self._spelled(channel.sid, found, presence))

    def _note(self, channel: Channel, found: OpenPrompts) -> None:
        channel.states.prompts_version = found.version
        channel.states.open_prompts = len(found.kept)
        holders = (kept.prompt.holder(found.now_ms) for kept in found.kept)
        left_ms = [holder.until_ms - found.now_ms for holder in holders if holder is not None]
        if left_ms:
            self._changing[channel] = anyio.current_time() + min(left_ms) / 1000
        else:
            self._changing.pop(channel, None)

    def _spelled(self, sid: str, found: OpenPrompts, presence: Presence) -> State:
        spell = partial(
            prompts_data,
            sid,
            found,
            unattended=presence.can_answer == 0,
            max_bytes=self._settings.page_bytes,
        )
        data = spell(redacted=False)
        return State("prompts", data, spell(redacted=True) if self._settings.redact else data)
