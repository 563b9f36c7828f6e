"""What following costs a Python client: `python -m benchmarks.sdk`.

A hub in a process of its own replays one session to each reader in turn: `follow` of the SDK over
both transports, and the least that a program could do without it, httpx-sse or a raw WebSocket with
`json.loads` on what comes. Figures are events a second, and the reader's own CPU time per event,
which does not depend on how fast the hub is. Readers take turns, and the median counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import httpx
import httpx_sse
from websockets.asyncio.client import connect

from benchmarks.machine import LOAD_CORE, describe, on_core, one
from benchmarks.sdk_hub import SdkHub, running_hub
from sessionwire import Client

__all__ = ["main"]

SESSION: Final = "bench"

Reader = Callable[[SdkHub, int], Awaitable[None]]


async def sse_and_json(hub: SdkHub, events: int) -> None:
    """httpx-sse, and `json.loads` of each event."""
    headers = {"Authorization": f"Bearer {hub.key}"}
    url = f"{hub.url}/v1/sessions/{SESSION}/sse"
    async with (
        httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
        httpx_sse.aconnect_sse(http, "GET", url) as source,
    ):
        seen = 0
        async for frame in source.aiter_sse():
            if frame.event != "connected":
                json.loads(frame.data)
                seen += 1
                if seen == events:
                    return


async def websocket_and_json(hub: SdkHub, events: int) -> None:
    """A raw WebSocket, and `json.loads` of each message."""
    headers = {"Authorization": f"Bearer {hub.key}"}
    url = f"ws{hub.url.removeprefix('http')}/v1/ws"
    call = {"jsonrpc": "2.0", "id": 1, "method": "session.subscribe"}
    async with connect(url, additional_headers=headers, compression=None, proxy=None) as socket:
        await socket.send(json.dumps({**call, "params": {"session_id": SESSION}}))
        seen = 0
        async for text in socket:
            message: dict[str, Any] = json.loads(text)
            if message.get("method") == "session.event":
                seen += 1
                if seen == events:
                    return


def follow(transport: Literal["sse", "websocket"], *, typed: bool) -> Reader:
    """Make a reader that follows with the SDK and reads each event's type, or its typed data."""

    async def read(hub: SdkHub, events: int) -> None:
        seen = 0
        async with Client(hub.url, hub.key) as client, client.session(SESSION) as session:
            async for event in session.follow(transport=transport):
                if typed:
                    event.data  # noqa: B018
                else:
                    event.raw["data"]
                seen += 1
                if seen == events:
                    return

    return read


READERS: Final[Mapping[str, Reader]] = {
    "httpx-sse and json": sse_and_json,
    "follow over SSE, raw": follow("sse", typed=False),
    "follow over SSE, typed": follow("sse", typed=True),
    "raw WebSocket and json": websocket_and_json,
    "follow over WebSocket, raw": follow("websocket", typed=False),
    "follow over WebSocket, typed": follow("websocket", typed=True),
}


async def measure(hub: SdkHub, events: int, reps: int) -> dict[str, tuple[float, float]]:
    """Run every reader in turn. Returns: by name, events a second and microseconds of CPU each."""
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in READERS}
    for rep in range(reps + 1):
        for name, read in READERS.items():
            wall, cpu = time.perf_counter(), time.process_time()
            await read(hub, events)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if rep:  # the first round loads modules and warms the hub's ring
                figures[name].append((events / wall, cpu / events * 1e6))
    return {
        name: (
            statistics.median(rate for rate, _ in found),
            statistics.median(cost for _, cost in found),
        )
        for name, found in figures.items()
    }


async def publish(hub: SdkHub, events: int) -> None:
    """Fill the session with events of about 300 bytes."""
    async with (
        Client(hub.url, hub.key) as client,
        client.session(SESSION, catalog="copilot") as session,
        session.publisher() as publisher,
    ):
        for number in range(events):
            data = {"messageId": f"message-{number}", "content": "All the tests pass. " * 8}
            await publisher.send({"type": "assistant.message", "data": data})


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sdk", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="events of the session (20,000)")
    parser.add_argument("--reps", type=int, default=5, help="rounds that count (5)")
    given = parser.parse_args()
    with one(60), running_hub() as hub, on_core(LOAD_CORE):
        asyncio.run(publish(hub, given.events))
        figures = asyncio.run(measure(hub, given.events, given.reps))
    print(", ".join(f"{name} {value}" for name, value in describe().items()))
    print(f"{given.events:,} events, median of {given.reps}\n")
    print("| reader | events/s | CPU per event |\n|---|---:|---:|")
    for name, (rate, cost) in figures.items():
        print(f"| {name} | {rate:,.0f} | {cost:.1f} µs |")


if __name__ == "__main__":
    main()
