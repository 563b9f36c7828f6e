"""uvicorn as a hub runs it: our signals, our log, and streams told before it waits for them."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio
import uvicorn

from sessionwire_server.app import create_app
from sessionwire_server.http_protocol import HttpProtocol
from sessionwire_server.settings import Settings
from sessionwire_server.ws_protocol import WebSocketProtocol

__all__ = ["CannotStart", "HttpServer"]

GRACE_S = 2
"""What streams get beyond `drain_s` before they are cut: the bytes of the last farewell."""


class CannotStart(Exception):
    """The application did not start; the log says why."""


class HttpServer(uvicorn.Server):
    """Serves the hub's application on one listening socket.

    Args:
        settings: the hub's settings; `redis_url` is not empty.
        started: called once requests are answered.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._hub_app = create_app(settings)
        self._tell_started = started
        super().__init__(
            uvicorn.Config(
                self._hub_app,
                http=HttpProtocol,
                ws=WebSocketProtocol,
                ws_max_size=settings.max_message_bytes,
                ws_ping_interval=settings.heartbeat_s,
                ws_ping_timeout=settings.pong_timeout_s,
                # Compressed per connection, no two could share a frame, and each has its window.
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=settings.access_log,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(settings.drain_s) + GRACE_S,
            )
        )

    async def serve_until(self, asked: anyio.Event, listener: socket.socket) -> None:
        """Serve until asked to end, then drain.

        Raises:
            CannotStart: the application refused to start.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_when, asked)
            try:
                await self.serve([listener])
            except SystemExit as exc:
                raise CannotStart("the hub did not start, see its log") from exc
            tasks.cancel_scope.cancel()

    async def _end_when(self, asked: anyio.Event) -> None:
        await asked.wait()
        # uvicorn waits for connections before it ends the lifespan, and streams end only when told.
        hub = getattr(self._hub_app.state, "hub", None)
        if hub is not None:
            hub.begin_drain()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then say so."""
        await super().startup(sockets)
        self._tell_started()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to `stop_signals`."""
        yield
