"""`GET /v1/sessions/{sid}/sse`: the stream of one session (protocol.md §6)."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.event_stream import EventStream
from sessionwire_server.hub import Hub
from sessionwire_server.stream_request import StreamRequest

__all__ = ["session_stream"]


async def session_stream(request: Request) -> Response:
    """Stream a session's events.

    Native EventSource gives up on any status but 200, so errors are for requests that will never
    work: 400, 401, 403, 404, and 204 for a session that was deleted. A hub that is full answers 429
    with Retry-After; one whose Redis is away opens the stream and waits.
    """
    hub = cast(Hub, request.app.state.hub)
    sid = request.path_params["sid"]
    principal = await hub.access.authorize(request, "read", sid, tickets=True)
    wanted = StreamRequest.read(request.headers, request.query_params, hub.settings.default_from)
    return cast(Response, EventStream(hub, sid, wanted, principal))
