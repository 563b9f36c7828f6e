"""The sign-in cookie of the console (protocol.md §10).

The cookie carries a signed grant of everything its key may do, for `LIFETIME_S` at most; it ends
when the key does. It is HttpOnly and SameSite=Strict, and whoever uses it passes the Origin check
of `access`.
"""

from __future__ import annotations

import time
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from sessionwire_server.access import cookie_name
from sessionwire_server.api_keys import Principal
from sessionwire_server.origins import own_scheme
from sessionwire_server.signing import Grant

__all__ = ["LIFETIME_S", "clear_cookie", "grant_for", "set_cookie"]

LIFETIME_S: Final = 7 * 86_400
"""A week: signing in once a week is no burden, and a stolen cookie does not live for ever."""


def grant_for(principal: Principal) -> Grant:
    """Grant everything the principal has."""
    expires_at = time.time() + LIFETIME_S
    if principal.expires_at is not None:
        expires_at = min(expires_at, principal.expires_at)
    return Grant(
        key_id=principal.id,
        scopes=tuple(sorted(principal.scopes)),
        sessions=principal.sessions,
        human=principal.human,
        secrets=principal.secrets,
        expires_at=expires_at,
        # What the cookie opened ends with it: a console left open for a month signs in again.
        ends_at=expires_at,
    )


def set_cookie(connection: HTTPConnection, response: Response, token: str, grant: Grant) -> None:
    """Put the cookie on a response."""
    response.set_cookie(
        cookie_name(connection),
        token,
        max_age=max(0, int(grant.expires_at - time.time())),
        path="/",
        secure=own_scheme(connection) == "https",
        httponly=True,
        samesite="strict",
    )


def clear_cookie(connection: HTTPConnection, response: Response) -> None:
    """Take the cookie off the browser."""
    response.delete_cookie(
        cookie_name(connection),
        path="/",
        secure=own_scheme(connection) == "https",
        httponly=True,
        samesite="strict",
    )
