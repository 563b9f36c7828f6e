"""Responses of the routes: JSON at once, or a body that is streamed as it is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from sessionwire_server.log_scan import LogScan

__all__ = ["json_response", "streamed"]

CHUNK_BYTES: Final = 64 * 1024
"""Events are joined up to this before they are sent: a write an event costs more than the event."""

_NO_STORE: Final = {"Cache-Control": "no-store"}


def json_response(
    content: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with JSON."""
    return Response(
        msgspec.json.encode(content),
        status_code=status,
        headers={**_NO_STORE, **(headers or {})},
        media_type="application/json",
    )


async def streamed(
    pieces: AsyncIterator[bytes],
    scan: LogScan,
    media_type: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with what is yielded. Errors before the first chunk is full still get their status;
    later ones end the connection, so that the client sees that this was not all."""
    chunks = _joined(pieces)
    first = await anext(chunks, b"")
    scan.begin_answer()

    async def body() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    all_headers = {**_NO_STORE, **(headers or {})}
    if len(first) < CHUNK_BYTES:
        await chunks.aclose()
        return Response(first, headers=all_headers, media_type=media_type)
    return StreamingResponse(body(), headers=all_headers, media_type=media_type)


async def _joined(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    waiting: list[bytes] = []
    size = 0
    async for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    if waiting:
        yield b"".join(waiting)
