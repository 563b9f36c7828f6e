"""One path and what may be done to it: methods, HEAD, OPTIONS, and segments decoded.

Every route of the hub is one of these, so that they all answer a wrong method, decode their
segments and refuse a malformed session id alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sessionwire_server.problems import ROUTE_KEY
from sessionwire_server.raw_path import checked_session_id, decoded

__all__ = ["Endpoint", "resource"]

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def resource(path: str, **endpoints: Endpoint) -> Route:
    """Build the route of a path.

    Args:
        path: its template, `{sid}` being a session id.
        endpoints: by method, in lower case; that of GET answers HEAD too, without a body.
    """
    return Route(path, _Resource(path, endpoints))


class _Resource:
    """The app of one path.

    Attributes:
        methods: its methods in lower case, as they were given.
    """

    def __init__(self, path: str, endpoints: dict[str, Endpoint]) -> None:
        self.methods = tuple(endpoints)
        self._path = path
        self._endpoints = {method.upper(): endpoint for method, endpoint in endpoints.items()}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allow = {"Allow": ", ".join(sorted({*self._endpoints, "OPTIONS"}))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE_KEY] = self._path
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers=self._allow)(scope, receive, send)
            return
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            raise HTTPException(405, headers=self._allow)
        segments = {name: decoded(name, text) for name, text in scope["path_params"].items()}
        if "sid" in segments:
            checked_session_id(segments["sid"])
        scope["path_params"] = segments
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
