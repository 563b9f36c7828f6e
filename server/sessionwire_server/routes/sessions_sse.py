"""`GET /v1/sessions/sse`: the session list as a stream (protocol.md §3).

Frames: `connected`, `snapshot` (`{"data": [session …]}`), then `session.updated` (a session) and
`session.deleted` (`{"id"}`) as they happen, conflated per session. There is no cursor: a stream
that reconnects gets a new snapshot.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncGenerator
from typing import Final, cast

import anyio
import msgspec
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from sessionwire_schemas.frames import HEARTBEAT, control_frame
from sessionwire_server.access import Principal
from sessionwire_server.errors import HubError
from sessionwire_server.event_stream import RAW_HEADERS, RETRY_MS, EndReason, disconnecting
from sessionwire_server.hub import Hub
from sessionwire_server.query import Query
from sessionwire_server.session_index import SessionQuery
from sessionwire_server.session_list import SessionChange
from sessionwire_server.session_record import SessionRecord
from sessionwire_server.session_resource import STATUSES, session_members

__all__ = ["sessions_stream"]

logger = logging.getLogger(__name__)

PAUSE_S: Final = (0.5, 1.5)
"""How long an absent Redis is left alone, jittered."""

SNAPSHOT: Final = 200
"""Sessions in a snapshot, the newest; older ones are paged with GET."""


async def sessions_stream(request: Request) -> Response:
    """Stream the list of the sessions that the principal sees, by `status`, `catalog` and `q`."""
    hub = cast(Hub, request.app.state.hub)
    principal = await hub.access.authorize(request, "read", tickets=True)
    query = Query(request.query_params)
    wanted = SessionQuery(
        status=query.choice("status", STATUSES),
        catalog=query.choice("catalog", ("copilot", "everruns")),
        q=query.text("q") or query.text("search"),
        limit=SNAPSHOT,
        visible=principal.sees,
    )
    if request.method == "HEAD":
        head = Response()
        head.raw_headers = list(RAW_HEADERS)
        return head
    response = EventSourceResponse(
        _frames(hub, wanted, principal),
        ping=0,
        sep="\n",
        send_timeout=hub.settings.send_timeout_s,
    )
    response.raw_headers = list(RAW_HEADERS)
    return response


async def _frames(
    hub: Hub, wanted: SessionQuery, principal: Principal
) -> AsyncGenerator[bytes, None]:
    expires_at = principal.expires_at
    with hub.admitted("", principal.id):
        number: int | None = None
        yield control_frame(
            "connected", {"status": "connected"}, retry_ms=random.randint(*RETRY_MS)
        )
        while not hub.session_list.ending:
            if expires_at is not None and time.time() >= expires_at:
                break
            changes = None if number is None else hub.session_list.after(number)
            number = hub.session_list.number
            if changes is None:
                snapshot = await _snapshot(hub, wanted)
                if snapshot is None:
                    number = None
                yield snapshot or HEARTBEAT
            else:
                for change in changes:
                    if frame := _changed(hub, wanted, change):
                        yield frame
                with anyio.move_on_after(_patience(hub, expires_at)) as waited:
                    await hub.session_list.moved(number)
                if waited.cancelled_caught:
                    yield HEARTBEAT
        reason: EndReason = "shutdown" if hub.session_list.ending else "token_expired"
        yield disconnecting(reason)


def _patience(hub: Hub, expires_at: float | None) -> float:
    left = hub.settings.heartbeat_s if expires_at is None else expires_at - time.time()
    return max(0.0, min(hub.settings.heartbeat_s, left))


async def _snapshot(hub: Hub, wanted: SessionQuery) -> bytes | None:
    """Read the list; None when that failed, after a pause: the stream stays open."""
    try:
        page = await hub.store.sessions(wanted)
    except HubError as error:
        logger.debug("no snapshot of the session list: %s", error.code)
        await anyio.sleep(random.uniform(*PAUSE_S))
        return None
    return _frame("snapshot", {"data": [_shown(hub, session) for session in page.data]})


def _changed(hub: Hub, wanted: SessionQuery, change: SessionChange) -> bytes:
    """Spell a change; a session that no longer fits the query leaves the list like a deleted one.

    Nothing is said of a session that the principal may not see.
    """
    if wanted.visible is not None and not wanted.visible(change.sid):
        return b""
    if change.record is None or not wanted.takes(change.record):
        return _frame("session.deleted", {"id": change.sid})
    return _frame("session.updated", _shown(hub, change.record))


def _shown(hub: Hub, session: SessionRecord) -> dict[str, object]:
    return session_members(session, viewers=hub.viewers_of(session.id))


def _frame(name: str, data: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
