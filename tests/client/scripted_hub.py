"""A hub that answers stream requests by a script, on loopback: one answer a connection.

It speaks raw HTTP/1.1 over real sockets, so that a test decides where exactly bytes end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

Answer = Callable[[SocketStream], Awaitable[None]]

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@dataclass
class Request:
    """What a client asked for."""

    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


@dataclass
class ScriptedHub:
    """The answers still to give and the requests that came."""

    url: str
    answers: deque[Answer]
    requests: list[Request] = field(default_factory=list["Request"])


def frame(event: str, data: str, *, id: str = "", retry: int | None = None) -> bytes:
    """Spell one frame."""
    lines = [f"event: {event}"]
    lines += [f"retry: {retry}"] if retry is not None else []
    lines += [f"id: {id}"] if id else []
    return "\n".join([*lines, f"data: {data}", "", ""]).encode()


def connected(cursor: str, *, retry: int = 100) -> bytes:
    """Spell the first frame of a connection."""
    data = f'{{"cursor":"{cursor}","head":"{cursor}","epoch":"e","resumed":true,"gap":null}}'
    return frame("connected", data, id=cursor, retry=retry)


def chunk(data: bytes) -> bytes:
    """Spell one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(*pieces: bytes, end: str = "clean") -> Answer:
    """Answer with an event stream, then end it: `clean`, `cut` (mid-body) or `silent` (never)."""

    async def answer(client: SocketStream) -> None:
        await client.send(STREAM_HEAD)
        for piece in pieces:
            await client.send(chunk(piece))
        if end == "clean":
            await client.send(b"0\r\n\r\n")
        elif end == "silent":
            await read_to_end(client)

    return answer


def status(code: int, body: str = "{}", **headers: str) -> Answer:
    """Answer with a status, a JSON body and headers (`retry_after="1"`)."""

    async def answer(client: SocketStream) -> None:
        lines = [f"HTTP/1.1 {code} X", f"content-length: {len(body)}", "content-type: text/plain"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await client.send("\r\n".join([*lines, "", body]).encode())

    return answer


async def read_to_end(client: SocketStream) -> None:
    """Wait until the other side is gone."""
    try:
        while True:
            await client.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


async def _request(client: SocketStream) -> Request | None:
    head = b""
    while b"\r\n\r\n" not in head:
        try:
            head += await client.receive()
        except anyio.EndOfStream:
            return None
    head, _, body = head.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    target = urlsplit(first.split(" ")[1])
    headers = dict(line.lower().split(": ", 1) for line in lines)
    while len(body) < int(headers.get("content-length", 0)):
        body += await client.receive()
    return Request(target.path, parse_qs(target.query), headers)


@asynccontextmanager
async def scripted_hub(*answers: Answer) -> AsyncGenerator[ScriptedHub]:
    """Run a hub that gives these answers, one a connection, then refuses with 500."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    hub = ScriptedHub(f"http://127.0.0.1:{port}", deque(answers))

    async def serve(client: SocketStream) -> None:
        async with client:
            request = await _request(client)
            if request is None:
                return
            hub.requests.append(request)
            await (hub.answers.popleft() if hub.answers else status(500))(client)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield hub
        tasks.cancel_scope.cancel()
