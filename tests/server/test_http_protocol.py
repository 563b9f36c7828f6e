"""What a connection may cost before anybody knows who it is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator

import anyio
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from sessionwire_server import http_protocol
from sessionwire_server.http_protocol import MAX_HEAD_BYTES, HttpProtocol

pytestmark = pytest.mark.anyio

HEAD_S = 0.4
PIECE = b"a" * 8_192


async def count_body(scope: Scope, receive: Receive, send: Send) -> None:
    size = 0
    async for chunk in Request(scope, receive).stream():
        size += len(chunk)
    if scope["path"] == "/slow":
        await anyio.sleep(HEAD_S * 2.5)
    await PlainTextResponse(str(size))(scope, receive, send)


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[int]:
    monkeypatch.setattr(http_protocol, "HEAD_S", HEAD_S)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(count_body, http=HttpProtocol, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.ensure_future(server._serve([listener]))  # pyright: ignore[reportPrivateUsage]
        yield int(listener.getsockname()[1])
        server.should_exit = True
        await asyncio.wait_for(serving, 10)


async def flood(port: int, head: bytes, piece: bytes, most: int) -> tuple[int, bytes]:
    """Send a head's beginning, then pieces until the server ends it; what it took and said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent, said = 0, b""
    try:
        writer.write(head)
        while sent < most and not reader.at_eof() and not writer.transport.is_closing():
            writer.write(piece)
            sent += len(piece)
            await writer.drain()
            await asyncio.sleep(0)
        said = await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return sent, said


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET /", PIECE),
        (b"GET / HTTP/1.1\r\nX: ", PIECE),
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 1_000),
        (b"GET / HTTP/1.1\r\n" + PIECE, PIECE),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", PIECE),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ", PIECE),
        (b"\r\n", b"\r\n" * 4_096),
    ],
    ids=["url", "value", "headers", "name", "extension", "trailer", "nothing"],
)
async def test_a_flood_before_a_request_is_cut(port: int, head: bytes, piece: bytes) -> None:
    most = 32 * 2**20
    sent, said = await flood(port, head, piece, most)
    assert sent < most, "what the sockets hold, and no more"
    assert not said or said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


async def test_heads_and_bodies_within_bounds_are_served(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    value = b"a" * (MAX_HEAD_BYTES - 1_000)
    for _ in range(3):
        writer.write(b"GET / HTTP/1.1\r\nX: %b\r\nHost: x\r\n\r\n" % value)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n0"), 5)).startswith(
            b"HTTP/1.1 200"
        )
    chunk = b"40000\r\n" + b"b" * 0x40000 + b"\r\n"
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 16)
    writer.write(b"0\r\n\r\n")
    said = await asyncio.wait_for(reader.readuntil(b"%d" % (16 * 0x40000)), 10)
    assert said.startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.parametrize("begun", [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_head_that_does_not_come_in_time_ends_the_connection(
    port: int, begun: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begun)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_a_request_that_is_served_does_not_suffer_from_the_next_one(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET / HTT")
    said = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n0"), 5)
    assert said.startswith(b"HTTP/1.1 200")
    assert await asyncio.wait_for(reader.read(), 5) == b"", "and then the next one is given up"
    writer.close()
