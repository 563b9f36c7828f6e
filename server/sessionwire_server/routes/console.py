"""`/`: the web console, static files of the package (protocol.md §4).

Nothing may run on its pages but what is in the package: the content security policy says so.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "console_routes"]

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class _Guarded:
    """Adds the headers to whatever an app answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarding(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, guarding)


class _File:
    """One file of the console at a path of its own."""

    def __init__(self, files: StaticFiles, name: str) -> None:
        self._files = files
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._files({**scope, "path": f"/{self._name}", "root_path": ""}, receive, send)


def _folder(package: str, name: str) -> Path | None:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / name
    return folder if folder.is_dir() else None


def console_routes() -> list[BaseRoute]:
    """Build the routes: the console's files at the root, where its page looks for them, and the
    browser client that it imports."""
    routes: list[BaseRoute] = []
    browser = _folder("sessionwire", "browser")
    if browser is not None:
        client = StaticFiles(packages=[("sessionwire", "browser")])
        routes.append(Mount("/console/client", _Guarded(client)))
    console = _folder("sessionwire_server", "console")
    if console is None:
        return routes
    files = StaticFiles(packages=[("sessionwire_server", "console")])
    routes.append(Mount("/console", _Guarded(StaticFiles(directory=console, html=True))))
    names = sorted(path.name for path in console.iterdir() if path.suffix in _SERVED)
    routes += [Route(f"/{name}", _Guarded(_File(files, name))) for name in names]
    routes.append(Route("/", _Guarded(_File(files, "index.html"))))
    return routes


_SERVED: Final = frozenset({".html", ".js", ".css", ".svg", ".json", ".png", ".woff2"})
