"""One connection to Redis that listens, and nothing else: the bytes of the live feed.

redis-py connects, authenticates, speaks TLS and RESP3. Reading takes all that one socket read
brought instead of one message a call, which is where most of the cost of `get_message` goes; where
redis-py's parser is another one, it reads message by message. It never reconnects: a connection
that failed is thrown away by `live_feed.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, cast

import anyio
from redis.asyncio.connection import AbstractConnection

__all__ = ["FeedConnection", "Push"]

Push = Sequence[Any]
"""Kind (`smessage`, `ssubscribe`, `sunsubscribe`, `message` …), channel, payload or count."""

CHANNELS_PER_COMMAND = 512
"""Keeps one command's line short; a resubscription of thousands is several commands."""


class _Reader(Protocol):
    def gets(self) -> Any: ...


class _Connection(Protocol):
    """What we use of redis-py's connection, whose own types are loose."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool) -> None: ...
    async def send_command(self, *words: str, check_health: bool) -> None: ...
    async def read_response(
        self, *, timeout: float, disconnect_on_error: bool, push_request: bool
    ) -> object: ...


class FeedConnection:
    """A connection in RESP3 that subscribes and reads pushes.

    Args:
        connection: from redis-py, not yet connected, whose reads wait without end.
        one_slot: whether a command may name channels of one slot only (Redis Cluster).
    """

    def __init__(self, connection: AbstractConnection, *, one_slot: bool = False) -> None:
        self._connection = cast(_Connection, connection)
        self._per_command = 1 if one_slot else CHANNELS_PER_COMMAND
        self._writing = anyio.Lock()
        """Commands reach Redis in the order in which they were asked for: a channel that is given
        up and wanted again at once must end up subscribed."""

    async def open(self) -> None:
        """Connect.

        Raises:
            redis.RedisError, OSError: it could not.
        """
        await self._connection.connect()

    async def close(self) -> None:
        """Cut the connection."""
        await self._connection.disconnect(nowait=True)

    async def subscribe(self, channels: list[str], *, sharded: bool = True) -> None:
        """Ask for channels; the confirmations come as pushes.

        Raises:
            redis.RedisError, OSError: the connection is lost.
        """
        await self._command("SSUBSCRIBE" if sharded else "SUBSCRIBE", channels)

    async def unsubscribe(self, channels: list[str]) -> None:
        """Give shard channels up; the confirmations come as pushes."""
        await self._command("SUNSUBSCRIBE", channels)

    async def _command(self, name: str, channels: list[str]) -> None:
        async with self._writing:
            for at in range(0, len(channels), self._per_command):
                batch = channels[at : at + self._per_command]
                try:
                    await self._connection.send_command(name, *batch, check_health=False)
                except RuntimeError as error:
                    # uvloop's word for writing to a connection that was just reset.
                    raise ConnectionResetError("the connection was reset") from error

    async def read(self) -> list[Push]:
        """Wait for pushes and give all that have arrived, at least one.

        Raises:
            redis.RedisError, OSError: the connection is lost, or Redis refused a command.
        """
        first = await self._connection.read_response(
            timeout=math.inf, disconnect_on_error=False, push_request=True
        )
        replies = [first, *self._buffered()]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return [cast(Push, reply) for reply in replies if _is_push(reply)]

    def _buffered(self) -> list[object]:
        """What redis-py's hiredis reader holds already; nothing with any other parser."""
        parser = getattr(self._connection, "_parser", None)
        reader = cast("_Reader | None", getattr(parser, "_reader", None))
        if reader is None or type(reader).__module__.partition(".")[0] != "hiredis":
            return []
        replies: list[object] = []
        while _is_reply(reply := cast(object, reader.gets())):
            replies.append(reply)
        return replies


def _is_reply(reply: object) -> bool:
    """Whether it is one: without enough bytes the reader gives a mark of redis-py's."""
    return isinstance(reply, (list, Exception))


def _is_push(reply: object) -> bool:
    return isinstance(reply, list) and len(cast("list[object]", reply)) == 3
