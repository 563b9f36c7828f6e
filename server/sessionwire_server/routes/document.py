"""`/openapi.json`: what the hub serves, as OpenAPI 3.1."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.answers import json_response
from sessionwire_server.openapi import document

__all__ = ["openapi"]


async def openapi(request: Request) -> Response:
    """GET `/openapi.json`."""
    return json_response(document())
