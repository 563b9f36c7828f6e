"""A TCP proxy that misbehaves on demand, between a client and a hub or a hub and its Redis.

    async with FaultProxy(host, port) as proxy:
        connect to proxy.port
        proxy.latency_s = 0.2     each piece is held back so long, in both directions
        proxy.cut_after = 1000    a connection ends, half written, after so many bytes to the client
        proxy.chunk = 1           bytes go on to the client one by one
        proxy.black_hole = True   nothing goes through and nothing is closed; new connections too
        proxy.freeze()            connections that are open go dead without a word; new ones work
        proxy.reset_all()         every connection ends with RST

Settings may change at any time and hold for connections that are open.
"""

from __future__ import annotations

import asyncio
import socket
from types import TracebackType
from typing import Self

__all__ = ["FaultProxy"]

RESET = b"\x01\x00\x00\x00\x00\x00\x00\x00"
"""`SO_LINGER` on with no time: closing sends RST."""


class FaultProxy:
    """One listening port on 127.0.0.1 in front of one server."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self.latency_s = 0.0
        self.cut_after: int | None = None
        self.chunk = 65_536
        self.connections = 0
        """Connections taken since the start."""
        self._open = asyncio.Event()
        self._open.set()
        self._ways: set[asyncio.Event] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._server: asyncio.Server | None = None

    @property
    def black_hole(self) -> bool:
        return not self._open.is_set()

    @black_hole.setter
    def black_hole(self, on: bool) -> None:
        if on:
            self._open.clear()
        else:
            self._open.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.reset_all()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def freeze(self) -> None:
        """Let what is open now go dead, as when a firewall forgets the flows."""
        for way in self._ways:
            way.clear()

    def reset_all(self) -> None:
        """Cut every connection with RST."""
        for writer in list(self._writers):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            self._writers.add(writer)
            await self._open.wait()
            there, back = await asyncio.open_connection(*self.target)
            ends.append(back)
            self._writers.add(back)
            await self._carry(reader, writer, there, back)
        except (OSError, asyncio.CancelledError):
            pass  # the proxy cancels it itself; asyncio logs a cancelled connection as an error
        finally:
            self._tasks.discard(task)
            self._writers.difference_update(ends)
            for end in ends:
                _reset(end)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        way = asyncio.Event()
        way.set()
        self._ways.add(way)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, way, to_client=False))
                group.create_task(self._pump(there, writer, way, to_client=True))
        finally:
            self._ways.discard(way)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        way: asyncio.Event,
        *,
        to_client: bool,
    ) -> None:
        """Carry bytes one way until an end closes or the proxy cuts; then the other way ends."""
        sent = 0
        try:
            while data := await source.read(self.chunk if to_client else 65_536):
                if self.latency_s:
                    await asyncio.sleep(self.latency_s)
                await self._open.wait()
                await way.wait()
                if to_client and self.cut_after is not None and sent + len(data) > self.cut_after:
                    sink.write(data[: self.cut_after - sent])
                    await sink.drain()
                    break
                sink.write(data)
                await sink.drain()
                sent += len(data)
        except ConnectionError:
            pass
        sink.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
