"""Which pages may read the hub's answers, errors too (protocol.md §10)."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from sessionwire_server.errors import HubError
from sessionwire_server.origins import Origins
from sessionwire_server.problems import problem

__all__ = ["ALLOWED_HEADERS", "EXPOSED_HEADERS", "Cors"]

ALLOWED_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Last-Event-ID",
    "Cache-Control",
    "Idempotency-Key",
    "X-Org-Id",
    "End-User",
    "Everruns-Change-Reason",
    "traceparent",
)
EXPOSED_HEADERS: Final = ("X-Total-Count", "Retry-After", "Location")


class Cors(CORSMiddleware):
    """Starlette's, with the hub's lists, a problem body and no cookie where any origin may read."""

    def __init__(self, app: ASGIApp, origins: Origins) -> None:
        super().__init__(
            app,
            allow_origins=("*",) if origins.any else tuple(sorted(origins.exact)),
            allow_methods=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
            allow_headers=ALLOWED_HEADERS,
            allow_credentials=bool(origins.exact) and not origins.any,
            expose_headers=EXPOSED_HEADERS,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight request; one that is refused says so in a problem body."""
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        refused = problem(HubError(400, "cors_refused", bytes(response.body).decode()))
        refused.headers["Vary"] = response.headers["Vary"]
        return refused
