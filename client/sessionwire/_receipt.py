"""Commands to a session's host, and what becomes of each (protocol.md §9).

A command has an id of ours, so that sending it again after a lost answer is the same command.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import quote

from sessionwire._api import Api, insist
from sessionwire._http import session_path
from sessionwire.errors import CommandExpired, CommandRejected

__all__ = ["Receipt", "send_command"]

WAIT_S: Final = 20
"""One long poll; well below the client's own patience with an answer."""

DELIVERY_WAIT_S: Final = 2
"""The same where a change may have come before we asked, which a poll then does not tell."""

PATIENCE_S: Final = 60.0
"""How long a command is sent again while the hub is away."""

_DELIVERED: Final = frozenset({"delivered", "consumed", "rejected"})


class Receipt:
    """A command that the hub has taken and keeps until the host has acknowledged it.

    Attributes:
        id: the command's id.
        raw: what the hub said of it last: `status`, `attempt`, `detail`, `event_id` … .
    """

    def __init__(self, api: Api, path: str, raw: Mapping[str, Any]) -> None:
        self.id: str = str(raw.get("id"))
        self.raw: dict[str, Any] = dict(raw)
        self._api = api
        self._path = f"{path}/{quote(self.id, safe='')}"

    @property
    def status(self) -> str:
        """`accepted`, `delivered`, `consumed`, `rejected` or `expired`, as last heard."""
        return str(self.raw.get("status"))

    @property
    def detail(self) -> str:
        """The host's words; empty if there are none."""
        return str(self.raw.get("detail") or "")

    @property
    def event_id(self) -> str:
        """The event that the command led to, as the host says; empty if it does not."""
        return str(self.raw.get("event_id") or "")

    async def refresh(self, *, wait_s: int = 0) -> Self:
        """Ask what has become of it, waiting up to `wait_s` (at most 30) seconds for a change."""

        async def attempt() -> dict[str, Any]:
            return await self._api.call("GET", self._path, params={"wait_s": str(wait_s)})

        self.raw = await insist(attempt, patience_s=None)
        return self

    async def delivered(self) -> Self:
        """Wait until a host has it, over restarts of the hub; bound it with `fail_after`.

        Raises:
            CommandExpired: none ever read it.
            NotFound: its receipt is no longer kept.
        """
        while self.status not in _DELIVERED:
            self._check_expired()
            await self.refresh()
            if self.status == "accepted":
                await self.refresh(wait_s=DELIVERY_WAIT_S)
        return self

    async def consumed(self) -> Self:
        """Wait until the host has obeyed it; see `delivered`.

        Raises:
            CommandRejected: the host refuses; `detail` may say why.
            CommandExpired: none ever read it.
        """
        while self.status != "consumed":
            if self.status == "rejected":
                raise CommandRejected(self.id, self.raw)
            self._check_expired()
            await self.refresh(wait_s=WAIT_S)
        return self

    def _check_expired(self) -> None:
        if self.status == "expired":
            raise CommandExpired(self.id, self.raw)

    def __repr__(self) -> str:
        return f"<Receipt {self.id} {self.status}>"


async def send_command(
    api: Api,
    session_id: str,
    command_type: str,
    data: Mapping[str, Any],
    *,
    command_id: str = "",
    expires_in_s: float | None = None,
) -> Receipt:
    """Send a command, again while the hub is away.

    Args:
        command_id: an id of the sender's own; the same id twice is one command.
        expires_in_s: ends it if no host has read it until then.

    Raises:
        Conflict: the session takes no commands, or the id was used for another one.
        HubError: it was not taken.
    """
    path = session_path(session_id, "commands")
    body: dict[str, Any] = {
        "id": command_id or f"command_{uuid.uuid4().hex}",
        "type": command_type,
        "data": dict(data),
    }
    if expires_in_s is not None:
        body["expires_in_s"] = expires_in_s

    async def attempt() -> dict[str, Any]:
        return await api.call("POST", path, json=body)

    return Receipt(api, path, await insist(attempt, patience_s=PATIENCE_S))
