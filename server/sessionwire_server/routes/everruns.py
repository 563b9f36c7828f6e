"""The paths that an everruns server has and a hub serves as well (protocol.md §4.8)."""

from __future__ import annotations

from starlette.routing import BaseRoute

from sessionwire_server.resource import resource
from sessionwire_server.routes import everruns_sessions as sessions

__all__ = ["everruns_routes"]


def everruns_routes() -> list[BaseRoute]:
    """Build them."""
    session = "/v1/sessions/{sid}"
    return [
        resource(f"{session}/messages", get=sessions.list_messages, post=sessions.send),
        resource(f"{session}/cancel", post=sessions.cancel),
    ]
