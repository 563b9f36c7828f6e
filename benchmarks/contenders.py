"""Who is measured: ours, the floor below it, and the ways people write it by hand.

Python servers run on uvicorn with uvloop and httptools, as `sessionwire serve` does. The servers of
others are in `peers`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from benchmarks import native
from benchmarks.contender import UPGRADE, Contender, Ground, Paths
from benchmarks.peers import CENTRIFUGE, NCHAN, NCHAN_WS, SOCKETIO

__all__ = ["CONTENDERS", "EMPTY", "FLOOR", "FLOOR_WS", "HUB", "HUB_WS", "NAIVE", "PEERS"]

KEY = "benchmark-key"
"""The hub's key; access control stays on while it is measured."""


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


def _subscribe() -> str:
    params = {"session_id": "{session}", "from": "now"}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session.subscribe", "params": params})


HUB = Contender(
    name="hub",
    title="sessionwire",
    command=_hub_command,
    headers={"Authorization": f"Bearer {KEY}"},
    environ=_hub_environ,
    await_frame=True,
    is_python=True,
)
HUB_WS = replace(
    HUB,
    name="hub-ws",
    title="sessionwire, WebSocket",
    paths=Paths(live="GET /v1/ws HTTP/1.1", replay=""),
    stream_headers=UPGRADE,
    status=101,
    hello=_subscribe(),
)
NAIVE = Contender(
    name="naive",
    title="sse-starlette + queue",
    command=_uvicorn("benchmarks.servers.naive:app"),
    environ=lambda ground: {"SESSIONWIRE_REDIS_URL": ground.redis_url},
    is_python=True,
)
EMPTY = Contender(
    name="empty",
    title="empty Starlette route",
    command=_uvicorn("benchmarks.servers.empty:app"),
    is_python=True,
)
FLOOR = Contender(
    name="floor",
    title="C, one send() a delivery",
    command=lambda ground: [str(native.floor()), str(ground.port)],
)
FLOOR_WS = replace(
    FLOOR,
    name="floor-ws",
    title="C, one send() a delivery, WebSocket",
    paths=Paths(live="GET /v1/sessions/{session}/ws HTTP/1.1", replay=""),
    stream_headers=UPGRADE,
    status=101,
    hello="\n",
)

PEERS = (NCHAN, NCHAN_WS, CENTRIFUGE, SOCKETIO)
"""Servers of others, which have to be installed first."""

CONTENDERS = {
    contender.name: contender for contender in (FLOOR, EMPTY, HUB, NAIVE, FLOOR_WS, HUB_WS, *PEERS)
}
