"""What every method of a WebSocket shares (protocol.md §7.2): who speaks, and what is answered.

An `Answer` may carry what begins after its result is written: notifications follow the answer that
opens them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessionwire_server.access import Principal, unauthorized
from sessionwire_server.api_keys import Scope
from sessionwire_server.raw_path import checked_session_id

if TYPE_CHECKING:
    from sessionwire_server.ws_connection import Connection

__all__ = ["Answer", "Method", "allowed", "answer", "speaker"]

_EMPTY: Final = b"{}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The JSON of a result, and what begins once it is written."""

    result: bytes = _EMPTY
    then: Callable[[], None] | None = None


Method = Callable[["Connection", bytes], Awaitable[Answer]]
"""Carries out a call with its params, as JSON."""


def answer(result: Any, then: Callable[[], None] | None = None) -> Answer:
    """Spell a result."""
    return Answer(msgspec.json.encode(result), then)


def speaker(connection: Connection) -> Principal:
    """Tell who speaks.

    Raises:
        HubError: 401 `unauthorized`, nobody has said.
    """
    if connection.principal is None:
        raise unauthorized()
    return connection.principal


def allowed(connection: Connection, scope: Scope, sid: str) -> Principal:
    """Check a session id and that the speaker may do this to it; gives the speaker.

    Raises:
        HubError: 400 `invalid_session_id`; as `Principal.require`.
    """
    checked_session_id(sid)
    who = speaker(connection)
    who.require(scope, sid)
    return who
