"""A day of reconnects in a few seconds: whatever they leave behind would show.

The waits between connections are what a day is made of, and are skipped; they are added up instead.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from collections import deque
from collections.abc import Sequence
from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from sessionwire import Client
from sessionwire._reconnect import Reconnection
from tests.client.faulty_hub import SESSION, Log, Step, faulty_hub

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

DAY_S = 86_400
ENDS: tuple[Sequence[Step], ...] = (
    [{"events": 1}, {"end": "clean"}],
    [{"events": 1}, {"disconnecting": "connection_cycle"}, {"end": "clean"}],
    [{"refuse": 503, "retry_after_s": 120}],
    [{"events": 1}, {"part": 0.5}, {"end": "clean"}],
    [{"before": "reset"}],
    [{"refuse": 429, "retry_after_s": 120}],
)
"""Every kind of end; two of six cost two minutes, so that 2,400 connections make a day."""

CONNECTIONS = 2_400
WARM = 60


class Clock:
    """Counts the seconds that are slept, and does not sleep them."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        await anyio.lowlevel.checkpoint()


def open_things() -> tuple[int, int]:
    """Tasks and descriptors of this process."""
    gc.collect()
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_a_day_of_reconnects_leaves_nothing_behind(
    transport: Literal["sse", "websocket"], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("sessionwire._follow.anyio", _Anyio(clock))
    defaults = Reconnection.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "uniform", max)
    connections = deque(ENDS[number % len(ENDS)] for number in range(CONNECTIONS))
    log = Log(CONNECTIONS)
    seen: list[str] = []
    before, size = (0, 0), 0
    async with (
        faulty_hub(log.size, connections) as hub,
        Client(hub.url, "key") as client,
        client.session(SESSION) as session,
        session.follow(transport=transport) as events,
    ):
        async for event in events:
            seen.append(event.id)
            if not before[0] and CONNECTIONS - len(hub.connections) >= WARM:
                before = open_things()
                tracemalloc.start()
            if not size and len(hub.connections) <= CONNECTIONS // 2:
                size = tracemalloc.get_traced_memory()[0]
            if not hub.connections:
                break
        after = open_things()
        grown = tracemalloc.get_traced_memory()[0] - size
        tracemalloc.stop()
    assert seen == [log.id(number) for number in range(1, len(seen) + 1)]
    assert clock.slept_s > DAY_S
    # One connection more or less may be in its end on either side.
    assert abs(after[0] - before[0]) <= 3
    assert abs(after[1] - before[1]) <= 3
    # What grows is what this test keeps: an id an event, and what was asked of the hub.
    assert grown < 2**20


class _Anyio:
    """anyio, but for sleeping."""

    def __init__(self, clock: Clock) -> None:
        self.sleep = clock.sleep
