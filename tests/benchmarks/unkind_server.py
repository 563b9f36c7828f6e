"""A server that misbehaves on purpose, to show that the generator notices.

Usage: python unkind_server.py PORT MANNER

    kind      delivers what is published
    slivers   the same, in writes of 7 bytes
    lossy     every tenth event reaches nobody
    refusing  every tenth request is answered 503 and reaches nobody
    closing   every viewer is closed after ten events
    changing  marks arrive with a digit that is none
"""

from __future__ import annotations

import asyncio
import sys

_viewers: list[asyncio.StreamWriter] = []
_requests = 0

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n"


async def _deliver(body: bytes, manner: str) -> None:
    frame = b"data: " + body + b"\n\n"
    if manner == "changing":
        mark = frame.index(b"`")
        frame = frame[: mark + 3] + b"?" + frame[mark + 4 :]
    step = 7 if manner == "slivers" else len(frame)
    for start in range(0, len(frame), step):
        for viewer in _viewers:
            viewer.write(frame[start : start + step])
        await asyncio.sleep(0)
    if manner == "closing" and _requests >= 10:
        for viewer in _viewers:
            viewer.close()
        _viewers.clear()


async def _answer(writer: asyncio.StreamWriter, body: bytes, manner: str) -> None:
    global _requests
    _requests += 1
    tenth = _requests % 10 == 0
    if manner == "refusing" and tenth:
        writer.write(b"HTTP/1.1 503 Away\r\ncontent-length: 0\r\n\r\n")
        return
    if not (manner == "lossy" and tenth):
        await _deliver(body, manner)
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, manner: str) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /livez"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            elif head.startswith(b"GET"):
                writer.write(HEAD)
                _viewers.append(writer)
            else:
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await _answer(writer, await reader.readexactly(length), manner)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main(port: int, manner: str) -> None:
    server = await asyncio.start_server(lambda r, w: _serve(r, w, manner), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2]))
