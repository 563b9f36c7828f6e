"""Sends commands to Redis, those of one moment in one write.

A command on its own costs redis-py a connection from the pool, a packing in Python, a write and a
read; joined, they share all that. Packing is hiredis'. A few writes are in flight at a time; a
command is sent once and never again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import hiredis
from redis.exceptions import ResponseError

from sessionwire_server.joined_calls import JoinedCalls

__all__ = ["CommandPipe", "Pool"]

WRITES_IN_FLIGHT = 2
"""One on its way while Redis works on the other; more would only make smaller ones."""

WRITE_COMMANDS = 128
WRITE_BYTES = 2**20


_pack = cast("Callable[[tuple[bytes | str | int | float, ...]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType] - takes a tuple of any length


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
    """Commands over the connections of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._calls: JoinedCalls[bytes, Any] = JoinedCalls(
            self._write,
            in_flight=WRITES_IN_FLIGHT,
            max_items=WRITE_COMMANDS,
            max_bytes=WRITE_BYTES,
            size_of=len,
        )

    @property
    def writes(self) -> int:
        """How many writes were made so far."""
        return self._calls.made

    async def send(self, *words: bytes | str | int | float) -> Any:
        """Send a command, the first word being its name; gives the reply.

        Raises:
            redis.ResponseError: Redis refused it.
            redis.RedisError, OSError: the connection failed, and with it all of the write.
        """
        reply = await self._calls.submit(_pack(words))
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def _write(self, commands: Sequence[bytes]) -> list[Any]:
        connection = await self._pool.get_connection()
        try:
            await connection.send_packed_command(b"".join(commands), check_health=False)
            return [await _reply(connection) for _ in commands]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)


async def _reply(connection: _Connection) -> Any:
    """Read a reply; that a command was refused is one."""
    try:
        return await connection.read_response()
    except ResponseError as refused:
        return refused
