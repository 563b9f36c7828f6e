"""The session list as somebody sees it: a snapshot, then changes (protocol.md §6.8, §7).

What is told is the same over SSE and WebSocket; how it is spelled is theirs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import anyio

from sessionwire_server.errors import HubError
from sessionwire_server.hub import Hub
from sessionwire_server.query import Query
from sessionwire_server.session_index import SessionQuery
from sessionwire_server.session_list import SessionChange
from sessionwire_server.session_resource import STATUSES, session_members

__all__ = ["Told", "list_changes", "list_query"]

logger = logging.getLogger(__name__)

PAUSE_S: Final = (0.5, 1.5)
"""How long an absent Redis is left alone, jittered."""

SNAPSHOT: Final = 200
"""Sessions in a snapshot, the newest; older ones are paged with GET."""

Told = tuple[str, dict[str, Any]]
"""`snapshot`, `session.updated` or `session.deleted`, and its data."""


def list_query(query: Query, sees: Callable[[str], bool]) -> SessionQuery:
    """Read `status`, `catalog` and `q` of a request.

    Raises:
        HubError: 400 `invalid_parameter`.
    """
    return SessionQuery(
        status=query.choice("status", STATUSES),
        catalog=query.choice("catalog", ("copilot", "everruns")),
        q=query.text("q") or query.text("search"),
        limit=SNAPSHOT,
        visible=sees,
    )


async def list_changes(
    hub: Hub, wanted: SessionQuery, patience_s: Callable[[], float]
) -> AsyncGenerator[Told | None, None]:
    """Tell the list until the hub drains; None where a heartbeat is due.

    Args:
        patience_s: how long to tell nothing, asked each time.
    """
    number: int | None = None
    while not hub.session_list.ending:
        changes = None if number is None else hub.session_list.after(number)
        number = hub.session_list.number
        if changes is None:
            snapshot = await _snapshot(hub, wanted)
            if snapshot is None:
                number = None
            yield snapshot
            continue
        for change in changes:
            if (told := _changed(wanted, change)) is not None:
                yield told
        with anyio.move_on_after(patience_s()) as waited:
            await hub.session_list.moved(number)
        if waited.cancelled_caught:
            yield None


async def _snapshot(hub: Hub, wanted: SessionQuery) -> Told | None:
    """Read the list; None when that failed, after a pause: the stream stays open."""
    try:
        page = await hub.store.sessions(wanted)
        present = await hub.presence.of_all([session.id for session in page.data])
    except HubError as error:
        logger.debug("no snapshot of the session list: %s", error.code)
        await anyio.sleep(random.uniform(*PAUSE_S))
        return None
    pairs = zip(page.data, present, strict=True)
    return "snapshot", {"data": [session_members(one, viewers=by.viewers) for one, by in pairs]}


def _changed(wanted: SessionQuery, change: SessionChange) -> Told | None:
    """Tell a change; a session that no longer fits the query leaves the list like a deleted one.

    Nothing is said of a session that the principal may not see.
    """
    if wanted.visible is not None and not wanted.visible(change.sid):
        return None
    if change.record is None or not wanted.takes(change.record):
        return "session.deleted", {"id": change.sid}
    return "session.updated", session_members(change.record, viewers=change.viewers)
