"""Origins: which pages may use the hub (protocol.md §10). Pure.

An origin is `scheme://host[:port]` as a browser spells it, in lower case.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import HTTPConnection

__all__ = ["Origins", "own_origin", "own_port", "own_scheme"]

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")
_PORT: Final = re.compile(r":([0-9]{1,5})$")


def own_origin(connection: HTTPConnection) -> str:
    """Return the origin under which the client reached the hub."""
    return f"{own_scheme(connection)}://{connection.headers.get('host', '')}".lower()


def own_scheme(connection: HTTPConnection) -> str:
    """Return `http` or `https`, for a WebSocket as well."""
    return "https" if connection.scope.get("scheme") in {"https", "wss"} else "http"


def own_port(connection: HTTPConnection) -> int:
    """Return the port under which the client reached the hub, whatever the hub listens on."""
    match = _PORT.search(connection.headers.get("host", ""))
    if match is not None:
        return int(match[1])
    return 443 if own_scheme(connection) == "https" else 80


class Origins:
    """The listed origins.

    Attributes:
        any: `*` is listed: any page may read, none of them with a cookie.
        exact: the others.
    """

    def __init__(self, listed: tuple[str, ...]) -> None:
        """Take the setting `allow_origins`.

        Raises:
            ValueError: an entry is neither `*` nor an origin.
        """
        self.any = "*" in listed
        self.exact = frozenset(origin.lower() for origin in listed if origin != "*")
        for origin in self.exact:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"allow_origins: {origin!r} is no origin: write scheme://host[:port], or '*'"
                )

    def admits_socket(self, connection: HTTPConnection) -> bool:
        """Tell whether a WebSocket comes from a program, the hub's own page or a listed one."""
        given = "origin" in connection.headers
        return not given or self.any or self.may_use_cookie(connection)

    def may_use_cookie(self, connection: HTTPConnection) -> bool:
        """Tell whether a request comes from the hub's own page or an exactly listed one."""
        origin = connection.headers.get("origin", "").lower()
        return origin != "" and (origin == own_origin(connection) or origin in self.exact)
