"""`GET /v1/sessions/sse`: the session list as a stream (protocol.md §6.8).

Frames: `connected`, `snapshot` (`{"data": [session …]}`), then `session.updated` (a session) and
`session.deleted` (`{"id"}`) as they happen, conflated per session. There is no cursor: a stream
that reconnects gets a new snapshot.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sessionwire_schemas.frames import HEARTBEAT, control_frame
from sessionwire_server.access import Principal
from sessionwire_server.event_response import RAW_HEADERS, EventResponse
from sessionwire_server.event_stream import RETRY_MS, EndReason, disconnecting
from sessionwire_server.hub import Hub
from sessionwire_server.list_changes import list_changes, list_query
from sessionwire_server.query import Query
from sessionwire_server.raw_json import fit_for_a_line
from sessionwire_server.session_index import SessionQuery

__all__ = ["sessions_stream"]


async def sessions_stream(request: Request) -> Response:
    """Stream the list of the sessions that the principal sees, by `status`, `catalog` and `q`."""
    hub = cast(Hub, request.app.state.hub)
    principal = await hub.access.authorize(request, "read", tickets=True)
    wanted = list_query(Query(request.query_params), principal.sees)
    if request.method == "HEAD":
        head = Response()
        head.raw_headers = list(RAW_HEADERS)
        return head
    return EventResponse(_frames(hub, wanted, principal), hub.settings)


async def _frames(
    hub: Hub, wanted: SessionQuery, principal: Principal
) -> AsyncGenerator[bytes, None]:
    expires_at = principal.expires_at
    patience_s = partial(_patience, hub, expires_at)
    with hub.connected(principal.id):
        yield control_frame(
            "connected", {"status": "connected"}, retry_ms=random.randint(*RETRY_MS)
        )
        async with aclosing(list_changes(hub, wanted, patience_s)) as changes:
            async for told in changes:
                yield HEARTBEAT if told is None else _frame(*told)
                if expires_at is not None and time.time() >= expires_at:
                    break
        reason: EndReason = "shutdown" if hub.session_list.ending else "token_expired"
        yield disconnecting(reason)


def _patience(hub: Hub, expires_at: float | None) -> float:
    left = hub.settings.heartbeat_s if expires_at is None else expires_at - time.time()
    return max(0.0, min(hub.settings.heartbeat_s, left))


def _frame(name: str, data: object) -> bytes:
    line = fit_for_a_line(msgspec.json.encode(data))
    return b"event: %b\ndata: %b\n\n" % (name.encode(), line)
