"""Tickets: what a browser puts into the URL of a stream (protocol.md §10).

A ticket never does more, nor opens anything longer, than its maker could when it was made.
"""

from __future__ import annotations

import time
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from sessionwire_server.api_keys import Principal, Scope, covers, is_pattern
from sessionwire_server.errors import HubError
from sessionwire_server.signing import Grant

__all__ = ["MAX_TTL_S", "TTL_S", "TicketRequest", "grant_for"]

TTL_S: Final = 60
"""Long enough to open a connection with, short enough for a URL that may lie about in a history."""

MAX_TTL_S: Final = 86_400
"""For tickets that only read: with these a browser's own reconnection works for a day."""


class TicketRequest(BaseModel):
    """The body of `POST /v1/tickets`.

    Left out: the maker's sessions, the scope `read` alone (a URL is no place for more than is
    asked for), `TTL_S`.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    sessions: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None
    scopes: Annotated[list[Scope], Field(min_length=1)] | None = None
    ttl_s: Annotated[float, Field(gt=0)] = TTL_S


def grant_for(maker: Principal, request: TicketRequest) -> Grant:
    """Decide what a ticket grants.

    Raises:
        HubError: 403 `forbidden` for more than the maker has; 422 `invalid_body` for a lifetime
            above what its scopes allow or a malformed pattern.
    """
    scopes: tuple[Scope, ...] = tuple(sorted(set(request.scopes or ("read",))))
    sessions = tuple(request.sessions) if request.sessions else maker.sessions
    for scope in scopes:
        maker.require(scope)
    for pattern in sessions:
        if not is_pattern(pattern):
            raise HubError(
                422, "invalid_body", f"no session id or pattern: {pattern!r}", pointer="/sessions"
            )
        if not any(covers(own, pattern) for own in maker.sessions):
            raise HubError(403, "forbidden", f"the sessions {pattern!r} are not the maker's")
    longest = MAX_TTL_S if scopes == ("read",) else TTL_S
    if request.ttl_s > longest:
        raise HubError(
            422,
            "invalid_body",
            f"ttl_s is at most {TTL_S}, or {MAX_TTL_S} where the scopes are ['read']",
            pointer="/ttl_s",
        )
    expires_at = time.time() + request.ttl_s
    if maker.expires_at is not None:
        expires_at = min(expires_at, maker.expires_at)
    return Grant(
        maker.id, scopes, sessions, maker.human, maker.secrets, expires_at, maker.expires_at
    )
