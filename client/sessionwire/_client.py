"""A client of one hub: its address, its token, its connections, and the sessions on it.

Owns the HTTP connections. They are opened when first needed and closed at the end of `async with
Client(…)`, or with the last session where the client itself was not entered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from sessionwire._api import Api
from sessionwire._auth import HubAuth, Token, TokenSource
from sessionwire._http import HubAddress, async_client, session_path
from sessionwire._hub_file import default_data_dir, read_hub_file
from sessionwire._session import Session
from sessionwire.errors import ConnectionFailed

__all__ = ["Client"]


class Client:
    """A hub, and a way in.

    ```
    async with Client("http://127.0.0.1:8787", "letmein") as client:
        async with client.session("my-session") as session:
            async for event in session.follow():
                print(event.type)
    ```

    Attributes:
        url: the hub's base URL.
    """

    def __init__(self, url: str, token: Token = "") -> None:
        """Make a client; nothing is sent before something is asked.

        Args:
            url: the hub's base URL, with whatever stands before `/v1`.
            token: a key or another token, or a function that gives one. It is asked again when the
                hub refuses the last one, so that a stream outlives its tokens.

        Raises:
            ValueError: the URL is none of HTTP.
        """
        try:
            address = httpx2.URL(url)
        except httpx2.InvalidURL as exc:
            raise ValueError(f"not a URL: {url!r}: {exc}") from exc
        if address.scheme not in ("http", "https") or not address.host:
            raise ValueError(f"the URL of a hub begins with http:// or https://: {url!r}")
        self.url: str = url.rstrip("/")
        self.tokens: TokenSource = TokenSource(token)
        self._http: httpx2.AsyncClient | None = None
        self._entered = False
        self._sessions = 0

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Make a client of the hub that `SESSIONWIRE_URL` and `SESSIONWIRE_KEY` name.

        Without a URL it is the hub that runs on this machine, as its `hub.json` says.

        Raises:
            ConnectionFailed: there is none.
        """
        env = os.environ if environ is None else environ
        key = env.get("SESSIONWIRE_KEY", "")
        if url := env.get("SESSIONWIRE_URL", ""):
            return cls(url, key)
        folder: Path = default_data_dir(env)
        found = read_hub_file(folder)
        if found is None:
            raise ConnectionFailed(str(folder), "no hub runs here, and SESSIONWIRE_URL is not set")
        return cls(found.url, key or found.key)

    @property
    def http(self) -> httpx2.AsyncClient:
        """The HTTP client, with the hub as its base URL and the token in every request."""
        if self._http is None:
            self._http = async_client(HubAddress(self.url))
            self._http.auth = HubAuth(self.tokens)
        return self._http

    @property
    def api(self) -> Api:
        """The hub's API, for what this class has no method for."""
        return Api(self.http)

    @property
    def uses_proxy(self) -> bool:
        """Whether a proxy that the environment names is used: not to a hub on this machine."""
        return not HubAddress(self.url).on_loopback

    def session(self, session_id: str, *, catalog: str = "") -> Session:
        """Name a session, for `async with`; it need not exist yet.

        Args:
            session_id: its id.
            catalog: `copilot` or `everruns`, for events that do not show theirs.
        """
        return Session(self, session_id, catalog)

    async def create_session(
        self,
        session_id: str = "",
        /,
        *,
        catalog: str = "",
        title: str = "",
        **members: Any,
    ) -> dict[str, Any]:
        """Create a session. Returns: the session as the hub shows it.

        Args:
            session_id: empty has the hub make one.
            members: whatever else belongs to it: `metadata`, `tags`, `completion` … .

        Raises:
            Conflict: it was created before, with other members.
        """
        named = {"id": session_id, "catalog": catalog, "title": title}
        body = {name: value for name, value in named.items() if value} | members
        return await self.api.call("POST", "/v1/sessions", json=body)

    async def sessions(
        self,
        *,
        status: str = "",
        catalog: str = "",
        q: str = "",
        limit: int = 50,
        page_token: str = "",
    ) -> dict[str, Any]:
        """List sessions, newest activity first: `{data, next_page_token, total}`.

        Args:
            q: a part of id or title.
            limit: at most 200.
            page_token: `next_page_token` of the page before.
        """
        named = {"status": status, "catalog": catalog, "q": q, "page_token": page_token}
        params = {name: value for name, value in named.items() if value} | {"limit": str(limit)}
        return await self.api.call("GET", "/v1/sessions", params=params)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session and all that is in it."""
        await self.api.call("DELETE", session_path(session_id))

    async def ticket(
        self, *, sessions: Sequence[str] = (), scopes: Sequence[str] = (), ttl_s: float = 60
    ) -> dict[str, Any]:
        """Make a ticket for a browser: `{ticket, expires_at}`.

        Args:
            sessions: session patterns; empty for those of the token.
            scopes: empty for `read`.
        """
        lists = {"sessions": list(sessions), "scopes": list(scopes)}
        body = {name: value for name, value in lists.items() if value} | {"ttl_s": ttl_s}
        return await self.api.call("POST", "/v1/tickets", json=body)

    def hold(self) -> None:
        """Count a session that is in use."""
        self._sessions += 1

    async def let_go(self) -> None:
        """Count a session that no longer is; the last one takes the connections with it."""
        self._sessions -= 1
        if not self._sessions and not self._entered:
            await self.aclose()

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered = False
        await self.aclose()

    async def aclose(self) -> None:
        """Close its HTTP connections. It may be used again."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()
