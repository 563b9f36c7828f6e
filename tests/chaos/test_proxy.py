"""The proxy does to a connection what it says, so that the tests behind it mean something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.chaos.proxy import FaultProxy

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def echo() -> AsyncGenerator[FaultProxy]:
    """An echo server behind a proxy."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, FaultProxy("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy:
        yield proxy


async def connect(proxy: FaultProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_bytes_pass_in_both_directions() -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"x" * 200_000)
        assert await reader.readexactly(200_000) == b"x" * 200_000
        writer.close()


async def test_cut_ends_after_so_many_bytes() -> None:
    async with echo() as proxy:
        proxy.cut_after = 10
        reader, writer = await connect(proxy)
        writer.write(b"0123456789abcdef")
        with anyio.fail_after(5):
            assert await reader.read() == b"0123456789"
        writer.close()


async def test_chunk_of_one_sends_single_bytes() -> None:
    async with echo() as proxy:
        proxy.chunk = 1
        reader, writer = await connect(proxy)
        writer.write(b"abc" * 100)
        assert await reader.readexactly(300) == b"abc" * 100
        writer.close()


async def test_black_hole_passes_nothing_and_closes_nothing() -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        proxy.black_hole = True
        writer.write(b"b")
        late_reader, late_writer = await connect(proxy)
        late_writer.write(b"c")
        with pytest.raises(TimeoutError), anyio.fail_after(0.2):
            await reader.readexactly(1)
        proxy.black_hole = False
        assert await reader.readexactly(1) == b"b"
        assert await late_reader.readexactly(1) == b"c"
        writer.close()
        late_writer.close()


async def test_freeze_kills_open_connections_only() -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        proxy.freeze()
        writer.write(b"b")
        fresh_reader, fresh_writer = await connect(proxy)
        fresh_writer.write(b"c")
        assert await fresh_reader.readexactly(1) == b"c"
        with pytest.raises(TimeoutError), anyio.fail_after(0.2):
            await reader.readexactly(1)
        writer.close()
        fresh_writer.close()


async def test_reset_is_a_reset() -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        proxy.reset_all()
        with pytest.raises(ConnectionResetError), anyio.fail_after(5):
            await reader.readexactly(1)
        writer.close()
