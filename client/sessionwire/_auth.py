"""The token of a client: a fixed one, or whatever a function gives when asked (protocol.md §10).

Owns when a function is asked again: once at first, and once for each token that the hub refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

import anyio
import httpx2

__all__ = ["HubAuth", "Token", "TokenSource"]

Token: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A token, or a function (asynchronous if it likes) that gives a fresh one each time."""


class TokenSource:
    """Knows the token that holds now."""

    def __init__(self, token: Token) -> None:
        self._ask = None if isinstance(token, str) else token
        self._token = token if isinstance(token, str) else None
        self._lock = anyio.Lock()

    async def current(self) -> str:
        """Return the token; empty for none. Raises what the function raises."""
        if self._token is None:
            async with self._lock:
                if self._token is None:
                    self._token = await self._asked()
        return self._token

    async def renewed(self, refused: str) -> str | None:
        """Return another token than the one that was refused; None if there is none."""
        if self._ask is None:
            return None
        async with self._lock:
            if self._token == refused:
                self._token = await self._asked()
            return self._token if self._token != refused else None

    async def _asked(self) -> str:
        assert self._ask is not None, "a fixed token is always there"
        answer = self._ask()
        return await answer if inspect.isawaitable(answer) else answer


class HubAuth(httpx2.Auth):
    """Puts the token into every request; one that is refused is sent again with a fresh token."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send with the token, and once more with another one after a 401."""
        token = await self._tokens.current()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code != 401:
            return
        fresh = await self._tokens.renewed(token)
        if fresh:
            request.headers["Authorization"] = f"Bearer {fresh}"
            yield request
