"""The route table of the hub, one line a path. `/api/v1` is the same as `/v1` (`raw_path`)."""

from __future__ import annotations

from starlette.routing import BaseRoute, WebSocketRoute

from sessionwire_server.resource import resource
from sessionwire_server.routes import (
    commands,
    document,
    entrance,
    events,
    health,
    prompts,
    sessions,
    sessions_sse,
    sse,
    ws,
)
from sessionwire_server.routes.console import console_routes
from sessionwire_server.routes.everruns import everruns_routes

__all__ = ["route_table"]


def route_table() -> list[BaseRoute]:
    """Build every route."""
    return [
        # They are tried in order, so what is asked for most stands first.
        resource("/v1/sessions/{sid}/events", get=events.list_all, post=events.publish),
        resource("/v1/sessions/{sid}/sse", get=sse.session_stream),
        resource("/livez", get=health.live),
        resource("/readyz", get=health.ready),
        resource("/metrics", get=health.metrics),
        resource("/openapi.json", get=document.openapi),
        resource("/v1/tickets", post=entrance.make_ticket),
        resource("/v1/sign-in", post=entrance.sign_to_cookie, delete=entrance.sign_out),
        resource("/v1/sessions", get=sessions.list_all, post=sessions.create),
        # Before `{sid}`: no session can be called that.
        resource("/v1/sessions/sse", get=sessions_sse.sessions_stream),
        resource("/v1/sessions/{sid}", get=sessions.show, delete=sessions.delete),
        resource("/v1/sessions/{sid}/events/summary", get=events.summary),
        resource("/v1/sessions/{sid}/export", get=events.export),
        resource("/v1/sessions/{sid}/commands", post=commands.send),
        # Before `{cid}`: no command can be called that.
        resource("/v1/sessions/{sid}/commands/sse", get=commands.host_stream),
        resource("/v1/sessions/{sid}/commands/{cid}", get=commands.show),
        resource("/v1/sessions/{sid}/commands/{cid}/ack", post=commands.acknowledge),
        resource("/v1/prompts", get=prompts.everywhere),
        resource("/v1/sessions/{sid}/prompts", get=prompts.list_all),
        resource("/v1/sessions/{sid}/prompts/{rid}", get=prompts.show),
        resource("/v1/sessions/{sid}/prompts/{rid}/answer", post=prompts.answer),
        resource(
            "/v1/sessions/{sid}/prompts/{rid}/claim", post=prompts.claim, delete=prompts.release
        ),
        WebSocketRoute("/v1/ws", ws.websocket),
        resource("/v1/ws", get=ws.upgrade),
        *everruns_routes(),
        *console_routes(),
    ]
