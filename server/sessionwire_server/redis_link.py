"""The link to Redis: its connections, its scripts, and what its errors mean to a client.

Owns every connection of the process and the one place where redis-py's loose types become ours.
Never repeats a script call whose reply was lost: the caller cannot know whether it ran, so it ends
as 503 and the producer's own ids make its retry safe (protocol.md §4).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeAlias, cast

import anyio
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from sessionwire_server.command_pipe import CommandPipe, Pool, Word
from sessionwire_server.errors import HubError
from sessionwire_server.fitness import SETTINGS, Finding, findings
from sessionwire_server.joined_calls import CallBrokenOff
from sessionwire_server.scripts import Script
from sessionwire_server.settings import Settings

__all__ = ["Command", "RedisLink", "Reply", "StorageFull", "StoreUnavailable", "Word"]

logger = logging.getLogger(__name__)

Command: TypeAlias = tuple[Word, ...]

Reply: TypeAlias = Any
"""What redis-py gives back; whoever asked knows the shape and reads it out at once."""

WRITES_IN_FLIGHT = 2
"""One on its way while Redis works on the other; more would only make smaller ones."""


WAIT_TIMEOUTS = 3
"""How many of Redis' timeouts a command waits for its turn: a silent Redis costs each write one."""


class StoreUnavailable(HubError):
    """Redis is away, or took a request and did not say what became of it."""

    def __init__(self, detail: str) -> None:
        super().__init__(503, "redis_unavailable", detail, headers={"Retry-After": "1"})


class StorageFull(HubError):
    """Redis has no memory left; nothing was stored."""

    def __init__(self, detail: str = "Redis is out of memory, nothing was stored") -> None:
        super().__init__(507, "storage_full", detail)


_AWAY = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.ReadOnlyError,
    redis_errors.TryAgainError,
    redis_errors.ClusterDownError,
    redis_errors.RedisClusterException,
    redis_errors.MovedError,
    redis_errors.InvalidResponse,
    CallBrokenOff,
    OSError,
)

_AWAY_WORDS = ("LOADING", "READONLY", "MASTERDOWN", "MISCONF", "NOREPLICAS", "BUSY ", "TRYAGAIN")
"""First words of error replies for which redis-py has no class, or none when a script raises."""


_UVLOOP_CLOSED = "the handler is closed"
"""Words of the RuntimeError by which uvloop refuses to write to a connection that was just reset;
asyncio's own transports stay silent there. redis-py drops the connection either way."""


def _meaning(error: Exception) -> HubError | None:
    text = str(error)
    if isinstance(error, RuntimeError) and _UVLOOP_CLOSED in text:
        return StoreUnavailable("Redis is not available: the connection was reset")
    if isinstance(error, redis_errors.OutOfMemoryError) or text.startswith("OOM "):
        return StorageFull()
    if isinstance(error, _AWAY) or text.startswith(_AWAY_WORDS):
        return StoreUnavailable(f"Redis is not available: {text[:200]}")
    return None


class _Maker(Protocol):
    def make_connection(self) -> AbstractConnection: ...


class RedisLink:
    """The connections of one hub process to its Redis.

    `async with RedisLink(settings) as link` opens nothing yet: connections are made when they are
    needed, so a hub starts while Redis is away.

    Attributes:
        is_up: whether the last call got a reply.
    """

    def __init__(self, settings: Settings, url: str | None = None) -> None:
        """Take the URL (`redis://`, `rediss://` or `unix://`), `settings.redis_url` by default.

        Raises:
            ValueError: the URL is of no such kind.
        """
        self.url = url or settings.redis_url
        self._timeout_s = settings.redis_timeout_s
        self._connection_kwargs = self._spelled_out()
        self._pools = self._pool(WRITES_IN_FLIGHT), self._pool(settings.max_scans)
        self._pipe, self._scans = (
            CommandPipe(cast("Pool", pool), pool.max_connections, WAIT_TIMEOUTS * self._timeout_s)
            for pool in self._pools
        )
        self._feeds = self._pool(1, socket_timeout=None)
        self.is_up = True

    def _spelled_out(self) -> dict[str, Any]:
        kwargs: dict[str, Any] = {
            **parse_url(self.url),
            "protocol": 3,
            "socket_timeout": self._timeout_s,
            "socket_connect_timeout": self._timeout_s,
            "retry": Retry(NoBackoff(), 0),
            "client_name": "sessionwire",
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if not self.url.startswith("unix:"):
            kwargs["socket_keepalive"] = True
        return kwargs

    def _pool(self, connections: int, **changes: Any) -> BlockingConnectionPool:
        kwargs = {**self._connection_kwargs, **changes}
        return BlockingConnectionPool(
            max_connections=connections, timeout=self._timeout_s, **kwargs
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Also where the hub is cancelled: connections that nobody closes are a leak.
        with anyio.move_on_after(self._timeout_s, shield=True):
            for pool in self._pools:
                await pool.disconnect()

    @contextmanager
    def _answered(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            meaning = _meaning(error)
            if meaning is None:
                raise
            if isinstance(meaning, StoreUnavailable) and self.is_up:
                self.is_up = False
                logger.warning("Redis is not available: %s", type(error).__name__)
            raise meaning from error
        if not self.is_up:
            self.is_up = True
            logger.info("Redis is available again")

    async def run(
        self, script: Script, keys: Sequence[str], args: Sequence[Word], *, scan: bool = False
    ) -> Reply:
        """Run a script once; a server that does not know it gets its text at once.

        `scan` takes the connections that are set apart for long reads.

        Raises:
            StoreUnavailable, StorageFull: see the classes.
        """
        send = (self._scans if scan else self._pipe).send
        with self._answered():
            try:
                return await send("EVALSHA", script.sha, len(keys), *keys, *args)
            except redis_errors.NoScriptError:
                # Refused before it ran, so this is still the first time.
                return await send("EVAL", script.text, len(keys), *keys, *args)

    async def command(self, *words: Word) -> Reply:
        """Run one command once; gives the reply as RESP3 has it."""
        with self._answered():
            return await self._pipe.send(*words)

    async def pipeline(self, commands: Sequence[Command], *, scan: bool = False) -> list[Reply]:
        """Run commands in one write; they need not be of one slot and are no transaction."""
        with self._answered():
            return await (self._scans if scan else self._pipe).send_all(commands)

    async def spublish(self, channel: str, payload: bytes) -> None:
        """Publish to a shard channel."""
        await self.command("SPUBLISH", channel, payload)

    async def fitness(self) -> list[Finding]:
        """Judge whether this Redis is fit to hold sessions.

        Raises:
            StoreUnavailable: it does not answer.
        """
        lines = _text(await self.command("INFO")).splitlines()
        info = dict(line.split(":", 1) for line in lines if ":" in line)
        return findings(info, await self._settings_of_server())

    async def _settings_of_server(self) -> dict[str, str] | None:
        shown: dict[str, str] = {}
        try:
            for name in SETTINGS:
                reply = await self.command("CONFIG", "GET", name)
                shown |= {_text(key): _text(value) for key, value in reply.items()}
        except redis_errors.ResponseError:
            return None
        return shown

    def feed_connection(self) -> AbstractConnection:
        """Make a connection of its own for subscriptions; the caller connects and disconnects it.

        Reads on it wait without end: silence is normal there.
        """
        return cast("_Maker", self._feeds).make_connection()


def _text(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word
