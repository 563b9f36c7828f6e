"""Retention of idle sessions: a publish trims only its own session, so somebody must do the rest.

A pass walks the list of sessions in pages, trims each log by the settings, and retires sessions
that were idle for `session_ttl_s`. One hub sweeps at a time; which one does not matter, for every
step is decided by the session's own slot.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import dataclass

import anyio

from sessionwire_server.errors import HubError
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore

__all__ = ["Swept", "sweep", "sweep_once"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a pass did."""

    sessions: int
    retired: int


async def sweep_once(store: EventStore, settings: Settings) -> Swept:
    """Make one pass over all listed sessions."""
    sessions = retired = 0
    async with aclosing(store.walk()) as pages:
        async for sids in pages:
            for sid in sids:
                sessions += 1
                if settings.session_ttl_s and await store.retire(sid):
                    retired += 1
                else:
                    await store.trim(sid)
    return Swept(sessions, retired)


async def sweep(store: EventStore, settings: Settings) -> None:
    """Make a pass every `sweep_every_s`, until cancelled: a task of the hub."""
    while True:
        await anyio.sleep(settings.sweep_every_s)
        try:
            if not await store.take_sweep():
                continue
            swept = await sweep_once(store, settings)
        except HubError as error:
            logger.warning("sweep ended early: %s", error.code)
        else:
            logger.info("swept %s sessions, retired %s", swept.sessions, swept.retired)
