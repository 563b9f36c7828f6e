"""Who sends a request (protocol.md §10): keys, tickets and the sign-in cookie, in one place.

Owns the order in which they are looked at and the Origin check of whoever comes with a cookie.
What a principal may do is `api_keys`; making tickets and cookies is `tickets` and `sign_in`.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection

from sessionwire_server.api_keys import ApiKeys, Principal, Scope
from sessionwire_server.errors import HubError
from sessionwire_server.origins import Origins, own_port
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.signing import Signer

__all__ = ["Access", "Principal", "cookie_name"]

_SAFE: Final = frozenset({"GET", "HEAD"})


class Access:
    """Knows the keys of the hub and tells who a request comes from.

    Attributes:
        api_keys: the keys.
        origins: the listed origins.
        signer: makes and reads tickets and cookies.
    """

    def __init__(self, settings: Settings, link: RedisLink) -> None:
        """Read the keys.

        Raises:
            KeysError: the keys file is wrong.
            ValueError: an origin is.
        """
        self.api_keys = ApiKeys.load(settings)
        self.origins = Origins(settings.allow_origins)
        self.signer = Signer(link, self.api_keys)

    async def authenticate(self, connection: HTTPConnection, *, tickets: bool = False) -> Principal:
        """Tell who sends a request, by the first of: `Authorization`, `?ticket=`, cookie.

        Args:
            connection: the request or WebSocket.
            tickets: take `?ticket=`; only streams do.

        Raises:
            HubError: 401 `unauthorized`; 403 `bad_origin` for a cookie used by a page that is
                neither the hub's own nor listed; 503 when a signature cannot be checked.
        """
        header = connection.headers.get("authorization")
        if header is not None:
            principal = self.api_keys.find(_key_of(header))
        elif tickets and (ticket := connection.query_params.get("ticket")):
            principal = await self.signer.read("ticket", ticket)
        elif cookie := connection.cookies.get(cookie_name(connection)):
            principal = await self.signer.read("sign-in", cookie)
            if principal is not None:
                self.check_origin(connection)
        else:
            principal = None
        if principal is None:
            raise unauthorized()
        return principal

    async def authorize(
        self,
        connection: HTTPConnection,
        scope: Scope,
        sid: str | None = None,
        *,
        tickets: bool = False,
    ) -> Principal:
        """Authenticate, and refuse who may not do this.

        Raises:
            HubError: as `authenticate` and `Principal.require`.
        """
        principal = await self.authenticate(connection, tickets=tickets)
        principal.require(scope, sid)
        return principal

    async def of_token(self, token: str) -> Principal:
        """Tell who a token stands for that is sent in a message: a key or a ticket.

        Raises:
            HubError: 401 `unauthorized`; 503 when a signature cannot be checked.
        """
        principal = self.api_keys.find(token)
        if principal is None:
            principal = await self.signer.read("ticket", token)
        if principal is None:
            raise unauthorized()
        return principal

    def check_socket_origin(self, connection: HTTPConnection) -> None:
        """Refuse a WebSocket that a page opens which is neither the hub's own nor listed.

        Raises:
            HubError: 403 `bad_origin`.
        """
        if not self.origins.admits_socket(connection):
            raise HubError(403, "bad_origin", "a page's WebSocket needs a listed Origin")

    def check_origin(self, connection: HTTPConnection) -> None:
        """Refuse a request with the cookie that no page of ours sends.

        Raises:
            HubError: 403 `bad_origin`.
        """
        # A WebSocket's handshake is a GET, but what follows it is not.
        is_safe = connection.scope["type"] == "http" and connection.scope["method"] in _SAFE
        if not is_safe and not self.origins.may_use_cookie(connection):
            raise HubError(
                403, "bad_origin", "a request with the sign-in cookie needs a listed Origin"
            )


def unauthorized() -> HubError:
    """Build the error of a request that does not say who it is."""
    return HubError(
        401,
        "unauthorized",
        "a known key is needed: Authorization: Bearer KEY",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _key_of(header: str) -> str:
    scheme, _, rest = header.strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else header.strip()


def cookie_name(connection: HTTPConnection) -> str:
    """Name the sign-in cookie. Cookies do not keep ports apart, so the name does."""
    return f"sessionwire_{own_port(connection)}"
