"""The secret that all hub processes over one Redis share, for tickets and the sign-in cookie."""

from __future__ import annotations

from sessionwire_server.keys import SECRET
from sessionwire_server.redis_link import RedisLink

__all__ = ["SharedSecret"]


class SharedSecret:
    """Keeps the secret in Redis: made by the first hub that asks, the same for all after it."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def shared_secret(self, fresh: bytes) -> bytes:
        """Return the secret kept, keeping `fresh` first where there is none.

        Raises:
            StoreUnavailable: Redis is away.
        """
        kept = await self._link.command("SET", SECRET, fresh, "NX", "GET")
        return fresh if kept is None else bytes(kept)
