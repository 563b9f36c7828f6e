"""Sends commands to Redis, those of one moment in one write.

A command on its own costs redis-py a connection from the pool, a packing in Python, a write and a
read; joined, they share all that. Packing is hiredis'. A few writes are in flight at a time; a
command is sent once and never again. Replies are RESP3 as hiredis reads it: bytes, numbers, lists,
maps; a refusal is a `redis.ResponseError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import hiredis
from redis.exceptions import ResponseError

from sessionwire_server.joined_calls import JoinedCalls

__all__ = ["CommandPipe", "Pool", "Word"]

WRITE_COMMANDS = 128
WRITE_BYTES = 2**20


Word: TypeAlias = bytes | str | int | float
"""A word of a command."""

_pack = cast("Callable[[tuple[Word, ...]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType] - takes a tuple of any length


class _Packed(NamedTuple):
    """Commands ready to be written."""

    data: bytes
    commands: int


class _Connection(Protocol):
    async def send_packed_command(self, command: bytes, check_health: bool = ...) -> None: ...
    async def read_response(self) -> Any: ...
    async def disconnect(self, nowait: bool = ...) -> None: ...


class Pool(Protocol):
    """What is used of redis-py's pool, with types."""

    async def get_connection(self) -> _Connection:
        """Wait for a free connection."""
        ...

    async def release(self, connection: _Connection) -> None:
        """Give it back."""
        ...


class CommandPipe:
    """Commands over the connections of a pool, one for each write in flight."""

    def __init__(self, pool: Pool, in_flight: int, max_wait_s: float) -> None:
        self._pool = pool
        self._calls: JoinedCalls[_Packed, list[Any]] = JoinedCalls(
            self._write,
            in_flight=in_flight,
            max_items=WRITE_COMMANDS,
            max_bytes=WRITE_BYTES,
            max_wait_s=max_wait_s,
            size_of=_size,
        )

    @property
    def writes(self) -> int:
        """How many writes were made so far."""
        return self._calls.made

    async def send(self, *words: Word) -> Any:
        """Send a command, the first word being its name; gives the reply.

        Raises:
            redis.ResponseError: Redis refused it.
            redis.RedisError, OSError: the connection failed, and with it all of the write; or the
                command waited for `max_wait_s` (TimeoutError).
        """
        (reply,) = await self._calls.submit(_Packed(_pack(words), 1))
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def send_all(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        """Send commands in one write, which is no transaction; gives their replies.

        Raises what `send` does, the first refusal where there are several.
        """
        packed = _Packed(b"".join(map(_pack, commands)), len(commands))
        replies = await self._calls.submit(packed)
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise reply
        return replies

    async def _write(self, items: Sequence[_Packed]) -> list[list[Any]]:
        connection = await self._pool.get_connection()
        try:
            packed = b"".join(item.data for item in items)
            await connection.send_packed_command(packed, check_health=False)
            return [[await _reply(connection) for _ in range(item.commands)] for item in items]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)


def _size(item: _Packed) -> int:
    return len(item.data)


async def _reply(connection: _Connection) -> Any:
    """Read a reply; that a command was refused is one."""
    try:
        return await connection.read_response()
    except ResponseError as refused:
        return refused
