"""Sending commands to a session's host and hearing what becomes of them (protocol.md §9).

A command has an id of ours, so that sending it again after a lost answer is the same command.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx2

from sessionwire._http import connection_failed, json_object, rejected, session_path

__all__ = ["FINAL", "SentCommand"]

FINAL: Final = ("consumed", "rejected", "expired")
"""Statuses after which nothing more becomes of a command."""

MAX_WAIT_S: Final = 20
"""One long poll; well below the client's own patience with an answer."""

SENDS: Final = 3
"""Times that a command is sent before its hub counts as out of reach."""

PAUSE_S: Final = 0.5


class SentCommand:
    """A command that the hub has taken.

    Attributes:
        id: its id.
        receipt: what the hub said of it last.
    """

    def __init__(
        self, http: httpx2.Client, session_id: str, command_type: str, data: Mapping[str, Any]
    ) -> None:
        """Send it.

        Raises:
            ConnectionFailed: the hub cannot be reached.
            RequestRejected: it does not take the command.
        """
        self.id = f"command_{uuid.uuid4().hex}"
        self._http = http
        path = session_path(session_id, "commands")
        self._path = f"{path}/{quote(self.id, safe='')}"
        body = {"id": self.id, "type": command_type, "data": data}
        self.receipt: dict[str, Any] = self._sent(path, body)

    def _sent(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        left = SENDS
        while True:
            left -= 1
            try:
                response = self._http.post(path, json=body)
            except httpx2.TransportError as exc:
                if not left:
                    raise connection_failed(self._http.base_url, exc) from exc
            else:
                if response.status_code == 202:
                    return json_object(response)
                if response.status_code < 500 or not left:
                    raise rejected(response)
            time.sleep(PAUSE_S)

    def stages(self, patience_s: float) -> Iterator[str]:
        """Yield each status as it is reached, from the one it has on.

        Ends with a final one, or where nothing has changed when `patience_s` is over.

        Raises:
            HubError: the hub cannot be asked.
        """
        until = time.monotonic() + patience_s
        status = str(self.receipt.get("status"))
        yield status
        while status not in FINAL:
            left = until - time.monotonic()
            before, self.receipt = status, self._asked(max(0.0, min(left, MAX_WAIT_S)))
            status = str(self.receipt.get("status"))
            if status != before:
                if before == "accepted" and status != "delivered" and self._was_delivered():
                    yield "delivered"
                yield status
            elif left <= 0:
                return

    def _was_delivered(self) -> bool:
        return self.receipt.get("delivered_at") is not None

    def _asked(self, wait_s: float) -> dict[str, Any]:
        try:
            response = self._http.get(self._path, params={"wait_s": str(math.ceil(wait_s))})
        except httpx2.HTTPError as exc:
            raise connection_failed(self._http.base_url, exc) from exc
        if response.status_code != 200:
            raise rejected(response)
        return json_object(response)
