"""What the routes of one process share: the hub, publishing and the places for long reads."""

from __future__ import annotations

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
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.publishing = Publishing(hub)
        self.scans = Scans(hub.settings.max_scans, hub.metrics)

    @classmethod
    def of(cls, request: Request) -> Desk:
        """Find it."""
        return cast("Desk", request.app.state.desk)

    def scan(self, sid: str, reader: Principal) -> LogScan:
        """Begin to read a session's log."""
        return LogScan(
            self.hub.store,
            self.scans,
            self.hub.settings,
            sid,
            redacted=self.hub.redacts(reader),
        )
