"""A bare HTTP/1.1 and event-stream client on sockets: what the tests see is what was sent.

Independent of the project's own decoder and of any HTTP library, so that headers, framing, order of
bytes and hostile requests can be looked at as they are. `EventStream` follows WHATWG HTML §9.2.6
and keeps comments and raw bytes beside the fields.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

__all__ = [
    "Answer",
    "Connection",
    "EventStream",
    "Frame",
    "Server",
    "eventually",
    "open_stream",
    "request",
]

WAIT_S = 10.0
"""How long anything that must happen may take on two busy cores."""

READ_BYTES = 65_536

STATES = frozenset({"prompts", "presence"})
"""Frames that say what is, not what happened: they come whenever something changes."""


class Server(Protocol):
    """Whatever has an address and a key; `HubProcess` does."""

    host: str
    port: int
    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP response. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable error code of a problem body."""
        return str(self.json()["code"])


@dataclass(frozen=True, slots=True)
class Frame:
    """One block of an event stream, as it stood.

    Attributes:
        event: the `event:` field, None where there is no such line.
        id: likewise; "" for an empty id.
        data: the data lines joined, None where there is none (a comment, a lone `retry:`).
        comments: the comment lines without their colon.
        raw: the bytes, with the blank line.
    """

    event: str | None
    id: str | None
    data: str | None
    retry: int | None
    comments: tuple[str, ...]
    raw: bytes

    def json(self) -> Any:
        assert self.data is not None, self
        return json.loads(self.data)

    @property
    def is_comment(self) -> bool:
        return self.data is None


def parse_frame(raw: bytes) -> Frame:
    """Read one block (the bytes up to and with its blank line)."""
    fields: dict[str, str] = {}
    data: list[str] = []
    comments: list[str] = []
    for line in raw.decode().split("\n"):
        if not line:
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name:
            comments.append(value)
        elif name == "data":
            data.append(value)
        else:
            fields[name] = value
    unknown = fields.keys() - {"event", "id", "retry"}
    assert not unknown, f"fields that no event stream has: {unknown} in {raw!r}"
    retry = int(fields["retry"]) if "retry" in fields else None
    return Frame(
        fields.get("event"),
        fields.get("id"),
        "\n".join(data) if data else None,
        retry,
        tuple(comments),
        raw,
    )


def head_of(
    server: Server,
    method: str,
    path: str,
    headers: Mapping[str, str | bytes] | None,
    *,
    length: int | None = None,
) -> bytes:
    """Spell a head. `Authorization` is the server's key unless given; "" leaves it out."""
    lines: dict[str, str | bytes] = {
        "Host": f"{server.host}:{server.port}",
        "Authorization": f"Bearer {server.key}",
    }
    lines.update(headers or {})
    if length is not None:
        lines["Content-Length"] = str(length)
    out = [f"{method} {path} HTTP/1.1".encode()]
    for name, value in lines.items():
        text = value if isinstance(value, bytes) else value.encode()
        if text or name != "Authorization":
            out.append(name.encode() + b": " + text)
    return b"\r\n".join(out) + b"\r\n\r\n"


class Connection:
    """A keep-alive connection for requests one after the other.

    Raises:
        OSError, asyncio.IncompleteReadError: the server is away or cut the connection.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = self.reader = None

    def reset(self) -> None:
        """End it with RST, as a crashed peer or a firewall would."""
        if self._writer is None:
            return
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self._writer.transport.abort()
        self._writer = self.reader = None

    async def send(self, data: bytes) -> asyncio.StreamReader:
        if self._writer is None or self.reader is None:
            self.reader, self._writer = await asyncio.open_connection(
                self.server.host, self.server.port, limit=2**20
            )
        self._writer.write(data)
        await self._writer.drain()
        return self.reader

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str | bytes] | None = None,
        body: bytes | None = None,
        timeout: float = WAIT_S,
    ) -> Answer:
        """Send one request and read its whole answer."""
        given = dict(headers or {})
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        length = len(body) if body is not None else None
        head = head_of(self.server, method, path, given, length=length)
        async with asyncio.timeout(timeout):
            reader = await self.send(head + (body or b""))
            status, answered = await read_head(reader)
            content = b""
            if method != "HEAD" and status not in (204, 304):
                content = await read_body(reader, answered)
        if answered.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, answered, content)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read a response's status and headers."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head[:-4].split("\r\n")
    headers: dict[str, str] = {}
    for line in rest:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return int(first.split(" ", 2)[1]), headers


class BodyDecoder:
    """A response's body from the connection's bytes: chunked, counted, or up to its end.

    What has come of a chunk is given at once, as HTTP clients do.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.done = False
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        self._left = 0 if self._chunked else int(length) if length is not None else None
        self._line = b""
        """Between chunks: what has come of the line that tells the next one's size."""

    def feed(self, data: bytes) -> bytes:
        """Take what was read ("" at the end of the connection), give what it holds of the body."""
        if not data:
            self.done = True
            return b""
        if self._left is None:
            return data
        if not self._chunked:
            self._left -= len(data)
            self.done = self._left <= 0
            return data
        out: list[bytes] = []
        while data and not self.done:
            part, data = self._piece(data)
            out.append(part)
        return b"".join(out)

    def _piece(self, data: bytes) -> tuple[bytes, bytes]:
        """Take one size line, or what is there of one chunk; what it holds, and the rest."""
        assert self._left is not None
        if self._left:
            part = data[: self._left]
            self._left -= len(part)
            return part, data[len(part) :]
        line, found, rest = (self._line + data).lstrip(b"\r\n").partition(b"\r\n")
        if not found:
            self._line = line
            return b"", b""
        self._line = b""
        self._left = int(line.split(b";")[0], 16)
        self.done = self._left == 0
        return b"", rest


async def read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """Read a whole body. Raises asyncio.IncompleteReadError where it is cut short."""
    if headers.get("content-length") == "0":
        return b""
    decoder = BodyDecoder(headers)
    out: list[bytes] = []
    while not decoder.done:
        data = await reader.read(READ_BYTES)
        out.append(decoder.feed(data))
        if not data and ("content-length" in headers or "transfer-encoding" in headers):
            raise asyncio.IncompleteReadError(b"".join(out), None)
    return b"".join(out)


async def request(
    server: Server,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str | bytes] | None = None,
    body: bytes | None = None,
    timeout: float = WAIT_S,
) -> Answer:
    """One request on a connection of its own."""
    async with Connection(server) as connection:
        return await connection.request(method, path, headers=headers, body=body, timeout=timeout)


@dataclass
class EventStream:
    """An open stream.

    Attributes:
        frames: all that came so far; comments are among them.
        states: the newest frame of each of `STATES`; without `shows_states` they are kept here
            alone.
    """

    status: int
    headers: Mapping[str, str]
    connection: Connection
    reader: asyncio.StreamReader
    decoder: BodyDecoder
    shows_states: bool = False
    frames: list[Frame] = field(default_factory=list[Frame])
    states: dict[str, Any] = field(default_factory=dict[str, Any])
    body: bytearray = field(default_factory=bytearray)
    """Bytes of a block that is not whole yet."""
    ended: bool = False
    _waiting: deque[Frame] = field(default_factory=deque[Frame])

    async def read(self, *, timeout: float = WAIT_S) -> Frame | None:
        """The next block, comments too; None at the end of the stream.

        Raises:
            TimeoutError: nothing came.
        """
        async with asyncio.timeout(timeout):
            while not self._waiting and not self.ended:
                try:
                    data = await self.reader.read(READ_BYTES)
                except ConnectionError:
                    data = b""
                self._feed(self.decoder.feed(data))
                self.ended = self.decoder.done
        if not self._waiting:
            return None
        frame = self._waiting.popleft()
        self.frames.append(frame)
        return frame

    def _feed(self, part: bytes) -> None:
        self.body += part
        if b"\n\n" not in self.body[-len(part) - 1 :]:
            return
        *whole, rest = bytes(self.body).split(b"\n\n")
        for frame in [parse_frame(block + b"\n\n") for block in whole]:
            if frame.event in STATES:
                self.states[frame.event] = frame.json()
                if not self.shows_states:
                    continue
            self._waiting.append(frame)
        self.body = bytearray(rest)

    async def next(self, *, timeout: float = WAIT_S) -> Frame:
        """The next block with data.

        Raises:
            AssertionError: the stream ended.
        """
        async with asyncio.timeout(timeout):
            while True:
                frame = await self.read(timeout=timeout)
                assert frame is not None, f"the stream ended after {self.frames[-3:]}"
                if not frame.is_comment:
                    return frame

    async def until(
        self, wanted: Callable[[Frame], bool] | str, *, timeout: float = WAIT_S
    ) -> list[Frame]:
        """Read up to and with the first block that is wanted (an event name, or a test)."""
        taken: list[Frame] = []
        async with asyncio.timeout(timeout):
            while True:
                frame = await self.next(timeout=timeout)
                taken.append(frame)
                if frame.event == wanted if isinstance(wanted, str) else wanted(frame):
                    return taken

    async def take(self, count: int, *, timeout: float = WAIT_S) -> list[Frame]:
        async with asyncio.timeout(timeout):
            return [await self.next(timeout=timeout) for _ in range(count)]

    async def drain(self, *, timeout: float = WAIT_S) -> list[Frame]:
        """Read to the end of the stream; the blocks with data."""
        taken: list[Frame] = []
        async with asyncio.timeout(timeout):
            while (frame := await self.read(timeout=timeout)) is not None:
                if not frame.is_comment:
                    taken.append(frame)
        return taken

    async def silent(self, seconds: float) -> bool:
        """Whether no block with data comes for so long. Comments may."""
        try:
            frame = await self.next(timeout=seconds)
        except TimeoutError:
            return True
        self.frames.remove(frame)
        self._waiting.appendleft(frame)
        return False


@asynccontextmanager
async def open_stream(
    server: Server,
    path: str,
    *,
    headers: Mapping[str, str | bytes] | None = None,
    expect: int | Sequence[int] = 200,
    timeout: float = WAIT_S,
    states: bool = False,
) -> AsyncGenerator[EventStream]:
    """GET an event stream; closed on leaving.

    Args:
        expect: the status it must have.
        states: whether the frames of `STATES` are read in order like any.
    """
    async with Connection(server) as connection:
        async with asyncio.timeout(timeout):
            given = {"Accept": "text/event-stream", **(headers or {})}
            reader = await connection.send(head_of(server, "GET", path, given))
            status, answered = await read_head(reader)
        if status not in ((expect,) if isinstance(expect, int) else expect):
            body = await read_body(reader, answered)
            raise AssertionError(f"{path}: {status}, not {expect}: {body[:2000]!r}")
        decoder = BodyDecoder(answered)
        yield EventStream(status, answered, connection, reader, decoder, states)


async def eventually(
    is_so: Callable[[], Awaitable[bool]], what: str, *, timeout: float = WAIT_S
) -> None:
    """Wait for something that can only be asked for, not awaited."""
    deadline = time.monotonic() + timeout
    while True:
        if await is_so():
            return
        assert time.monotonic() < deadline, f"never became so: {what}"
        await asyncio.sleep(0.05)
