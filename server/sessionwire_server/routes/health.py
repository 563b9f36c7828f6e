"""`/livez`, `/readyz` and `/metrics` (protocol.md §4.9)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.answers import json_response
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.metrics import CONTENT_TYPE

__all__ = ["live", "metrics", "ready"]


async def live(request: Request) -> Response:
    """GET `/livez`: the process answers."""
    return json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """GET `/readyz`: Redis answers, and what this hub publishes comes back to it."""
    hub = Desk.of(request).hub
    if hub.draining:
        raise _not_ready("the hub is about to end")
    try:
        await hub.link.command("PING")
    except HubError as error:
        raise _not_ready(error.detail) from error
    if not hub.feed.proven:
        raise _not_ready("the live path is not proven")
    return json_response({"status": "ok"})


def _not_ready(why: str) -> HubError:
    return HubError(503, "not_ready", why, headers={"Retry-After": "1"})


async def metrics(request: Request) -> Response:
    """GET `/metrics`: what this process has counted, as Prometheus reads it."""
    hub = Desk.of(request).hub
    if not hub.settings.metrics_open:
        await hub.access.authorize(request, "admin")
    return Response(hub.metrics.text(), media_type=CONTENT_TYPE)
