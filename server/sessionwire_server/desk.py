"""What the routes of one process share: the hub, publishing and the places for long reads."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from starlette.requests import Request

from sessionwire_server.api_keys import Principal
from sessionwire_server.hub import Hub
from sessionwire_server.limits import Scans
from sessionwire_server.log_scan import LogScan
from sessionwire_server.publishing import Publishing

__all__ = ["Desk"]


class Desk:
    """Made once the hub runs; every request finds it by `Desk.of`.

    Attributes:
        hub: the hub.
        publishing: takes bodies.
        scans: places for long reads.
        sockets: how many WebSockets are open.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.publishing = Publishing(hub)
        self.scans = Scans(hub.settings.max_scans, hub.metrics)
        self.sockets = 0
        hub.metrics.gauges["websockets"] = ("Open WebSockets.", lambda: self.sockets)

    @classmethod
    def of(cls, request: Request) -> Desk:
        """Find it."""
        return cast("Desk", request.app.state.desk)

    @contextmanager
    def socket(self) -> Generator[None]:
        """Count a WebSocket while it is open."""
        self.sockets += 1
        try:
            yield
        finally:
            self.sockets -= 1

    def scan(self, sid: str, reader: Principal) -> LogScan:
        """Begin to read a session's log."""
        return LogScan(
            self.hub.store,
            self.scans,
            self.hub.settings,
            sid,
            redacted=self.hub.redacts(reader),
        )
