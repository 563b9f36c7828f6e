"""What a contender is: how its server is started, and what its requests look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["EVENT_STREAM", "UPGRADE", "Contender", "Ground", "Paths"]

EVENT_STREAM: Final[Mapping[str, str]] = MappingProxyType({"Accept": "text/event-stream"})
"""Headers of a viewer over SSE."""

UPGRADE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "c2Vzc2lvbndpcmUtYm5jaA==",
    }
)
"""Headers of a viewer over WebSocket; nobody checks what comes back for the key."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a server gets to stand on."""

    port: int
    redis_url: str
    data_dir: Path


@dataclass(frozen=True, slots=True)
class Paths:
    """Request lines, with `{session}` in the place of a session's name.

    Attributes:
        publish: publishes events.
        live: watches from now on; a WebSocket may name its session in its hello instead.
        replay: watches from the beginning; empty where it cannot.
    """

    publish: str = "POST /v1/sessions/{session}/events HTTP/1.1"
    live: str = "GET /v1/sessions/{session}/sse?from=now HTTP/1.1"
    replay: str = "GET /v1/sessions/{session}/sse?after_sequence=0 HTTP/1.1"


@dataclass(frozen=True, slots=True)
class Contender:
    """A server to measure. It answers `GET /livez` once it is there.

    Attributes:
        name: word in results.
        title: what the report calls it.
        command: its command line.
        paths: what is asked of it.
        headers: on every request.
        stream_headers: on a viewer's request, beside those.
        status: of a viewer's response.
        hello: a WebSocket's messages after the response, one a line; empty for SSE.
        environ: more environment variables.
        await_frame: a viewer is in place with the first frame, not already with the headers.
        batches: it takes many events in one request; else each goes alone.
        is_python: a profiler of Python reads it.
        missing: names what has to be installed first, empty where nothing has.
    """

    name: str
    title: str
    command: Callable[[Ground], list[str]]
    paths: Paths = field(default_factory=Paths)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    stream_headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    status: int = 200
    hello: str = ""
    environ: Callable[[Ground], Mapping[str, str]] = lambda _: {}
    await_frame: bool = False
    batches: bool = True
    is_python: bool = False
    missing: Callable[[], str] = lambda: ""
