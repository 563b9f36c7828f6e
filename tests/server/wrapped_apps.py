"""Applications as others build them around the hub's, for `uvicorn --factory`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp

from sessionwire_server.app import create_app

__all__ = ["bare", "compressed_inside", "compressed_outside", "mounted", "watched"]


class Watching(BaseHTTPMiddleware):
    """Middleware of the kind that passes a response on from another task."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["x-watched"] = "1"
        return response


def bare() -> ASGIApp:
    return create_app()


def watched() -> ASGIApp:
    app = create_app()
    for _ in range(4):
        app.add_middleware(Watching)
    return app


def compressed_inside() -> ASGIApp:
    app = create_app()
    app.add_middleware(GZipMiddleware, minimum_size=1)
    return app


def compressed_outside() -> ASGIApp:
    return GZipMiddleware(create_app(), minimum_size=1)


def mounted() -> ASGIApp:
    """Below a path of a larger application, which runs the hub's lifespan."""
    hub = create_app()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with hub.router.lifespan_context(hub):
            yield

    return Starlette(routes=[Mount("/hub", hub)], lifespan=lifespan)
