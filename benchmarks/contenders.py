"""Who is measured: how each server is started and what its requests look like.

All of them answer the hub's paths, so that a cell differs between contenders in nothing but the
server. Python servers run on uvicorn with uvloop and httptools, as `sessionwire serve` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import native

__all__ = ["CONTENDERS", "EMPTY", "FLOOR", "HUB", "NAIVE", "Contender", "Ground"]

KEY = "benchmark-key"
"""The hub's key; access control stays on while it is measured."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a server gets to stand on."""

    port: int
    redis_url: str
    data_dir: Path


@dataclass(frozen=True, slots=True)
class Contender:
    """A server to measure.

    Attributes:
        name: word in results.
        title: what the report calls it.
        command: its command line.
        headers: on every request.
        environ: more environment variables.
        await_frame: a viewer is in place with the first frame, not already with the headers.
    """

    name: str
    title: str
    command: Callable[[Ground], list[str]]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    environ: Callable[[Ground], Mapping[str, str]] = lambda _: {}
    await_frame: bool = False


def _uvicorn(app: str) -> Callable[[Ground], list[str]]:
    options = "--loop uvloop --http httptools --no-access-log --log-level warning --backlog 4096"

    def command(ground: Ground) -> list[str]:
        return [sys.executable, "-m", "uvicorn", app, "--port", str(ground.port), *options.split()]

    return command


def _hub_command(ground: Ground) -> list[str]:
    return [sys.executable, "-m", "sessionwire", "serve", "--port", str(ground.port)]


def _hub_environ(ground: Ground) -> Mapping[str, str]:
    return {
        "SESSIONWIRE_REDIS_URL": ground.redis_url,
        "SESSIONWIRE_DATA_DIR": str(ground.data_dir),
        "SESSIONWIRE_KEY": KEY,
    }


HUB = Contender(
    name="hub",
    title="sessionwire",
    command=_hub_command,
    headers={"Authorization": f"Bearer {KEY}"},
    environ=_hub_environ,
    await_frame=True,
)
NAIVE = Contender(
    name="naive",
    title="sse-starlette + queue",
    command=_uvicorn("benchmarks.servers.naive:app"),
    environ=lambda ground: {"SESSIONWIRE_REDIS_URL": ground.redis_url},
)
EMPTY = Contender(
    name="empty",
    title="empty Starlette route",
    command=_uvicorn("benchmarks.servers.empty:app"),
)
FLOOR = Contender(
    name="floor",
    title="C, one send() a delivery",
    command=lambda ground: [str(native.floor()), str(ground.port)],
)

CONTENDERS = {contender.name: contender for contender in (FLOOR, EMPTY, HUB, NAIVE)}
