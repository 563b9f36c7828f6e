"""The ASGI application: routes, middleware and the hub's life around them.

`uvicorn --factory sessionwire_server.app:create_app` runs it with settings from the environment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from sessionwire_server.api_keys import ApiKeys
from sessionwire_server.cors import Cors
from sessionwire_server.desk import Desk
from sessionwire_server.hub import Hub
from sessionwire_server.origins import Origins
from sessionwire_server.problems import Problems
from sessionwire_server.raw_path import with_raw_path
from sessionwire_server.routes import route_table
from sessionwire_server.sender import offer_transport
from sessionwire_server.settings import Settings
from sessionwire_server.ws_sender import offer_websocket

__all__ = ["create_app"]


class _Application(Starlette):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            # The one copy: everything below may write into it.
            scope = with_raw_path(scope)
            # Outside of all middleware, where `send` is still the server's own.
            offer_transport(scope, send)
            offer_websocket(scope, send)
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Build it without Starlette's own two layers for errors: `Problems` answers them all."""
        app: ASGIApp = self.router
        for layer, args, kwargs in reversed(self.user_middleware):
            app = layer(app, *args, **kwargs)
        return app


def create_app(settings: Settings | None = None) -> Starlette:
    """Build the application; its lifespan runs the hub.

    Args:
        settings: None reads them from `SESSIONWIRE_…` variables.

    Raises:
        KeysError: the keys make no sense.
        ValueError: an origin is none.
    """
    settings = Settings.from_env() if settings is None else settings
    origins = Origins(settings.allow_origins)
    ApiKeys.load(settings)  # a wrong keys file is told now, not by the first request

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with Hub(settings) as hub:
            app.state.hub = hub
            app.state.desk = Desk(hub)
            yield

    app = _Application(
        routes=route_table(),
        lifespan=lifespan,
        # From the outside in: errors are answered inside CORS, so that pages can read them too.
        middleware=[Middleware(Cors, origins), Middleware(Problems)],
    )
    app.router.redirect_slashes = False
    return app
