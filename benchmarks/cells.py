"""What is measured: one cell is one load, put on several contenders in the same run.

The first contender of a cell is its anchor: what the others are compared with, and what tells a
repetition that the neighbours disturbed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.contender import Contender
from benchmarks.contenders import EMPTY, FLOOR, FLOOR_WS, HUB, HUB_WS, NAIVE
from benchmarks.load import Load
from benchmarks.peers import CENTRIFUGE, NCHAN, NCHAN_WS, SOCKETIO

__all__ = ["CELLS", "METRICS", "Cell", "Metric", "smoke"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure made of what the generator reports.

    Attributes:
        title: heading with its unit.
        digits: after the decimal point.
        of: the figure, from the generator's object.
    """

    title: str
    digits: int
    of: Callable[[Mapping[str, Any]], float]


def _per(figures: Mapping[str, Any], process: str, count: str) -> float:
    done = figures[count]
    return figures["cpu_s"][process] / done * 1e6 if done else float("nan")


METRICS = {
    "cpu_per_delivery": Metric("CPU µs/delivery", 2, lambda f: _per(f, "server", "delivered")),
    "cpu_per_event": Metric("CPU µs/event", 1, lambda f: _per(f, "server", "published")),
    "redis_per_event": Metric("Redis µs/event", 1, lambda f: _per(f, "redis", "published")),
    "deliveries_per_s": Metric("deliveries/s", 0, lambda f: f["delivered"] / f["seconds"]),
    "events_per_s": Metric("events/s", 0, lambda f: f["published"] / f["seconds"]),
    "p50_ms": Metric("p50 ms", 2, lambda f: f["latency_ms"]["p50"]),
    "p99_ms": Metric("p99 ms", 2, lambda f: f["latency_ms"]["p99"]),
    "answer_p50_ms": Metric("answer p50 ms", 2, lambda f: f["answer_ms"]["p50"]),
    "wall_ms": Metric("wall ms", 1, lambda f: statistics.median(f["wall_ms"])),
    "memory_per_viewer": Metric("bytes/viewer", 0, lambda f: f["memory"]["server"]),
    "opens_per_s": Metric("opens/s", 0, lambda f: f["opens_per_s"]),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A load and who has to carry it.

    Attributes:
        name: word for `--cells` and results.
        title: a sentence for the report.
        load: what the generator does.
        contenders: who is measured; the first is the anchor.
        metrics: names of `METRICS` to print; the first one is what ratios are made of.
    """

    name: str
    title: str
    load: Load
    contenders: tuple[Contender, ...]
    metrics: tuple[str, ...]


_SSE = (FLOOR, HUB, NAIVE, NCHAN)
_WS = (FLOOR_WS, HUB_WS, NCHAN_WS, CENTRIFUGE, SOCKETIO)
_FANOUT = Load("deltas", viewers=1000, window=1, connections=2, baseline=100)
_BURST = Load("deltas", viewers=1000, window=16, connections=16, baseline=100)
_STEADY = Load("deltas", viewers=1000, rate=20, connections=2, baseline=100)
_IDLE = Load("deltas", viewers=2000, baseline=200, settle=1.0, measure=0)

_STREAM = ("cpu_per_delivery", "deliveries_per_s", "p50_ms", "p99_ms")
_PUBLISH = ("cpu_per_event", "events_per_s", "answer_p50_ms", "redis_per_event")

CELLS = (
    Cell(
        "fanout",
        "1 session × 1,000 viewers, one event at a time",
        _FANOUT,
        _SSE,
        _STREAM,
    ),
    Cell(
        "burst",
        "1 session × 1,000 viewers, 16 events in flight",
        _BURST,
        _SSE,
        _STREAM,
    ),
    Cell(
        "steady",
        "1 session × 1,000 viewers, 20 events/s",
        _STEADY,
        _SSE,
        _STREAM,
    ),
    Cell(
        "agents",
        "500 sessions × 2 viewers, 20 events/s each, 10 events a request",
        Load(
            "turns",
            viewers=1000,
            sessions=500,
            rate=10_000,
            batch=10,
            form="array",
            connections=64,
            baseline=100,
        ),
        (FLOOR, HUB, NAIVE),
        _STREAM,
    ),
    Cell(
        "agents-single",
        "500 sessions × 2 viewers, 1 event/s each, one event a request",
        Load("turns", viewers=1000, sessions=500, rate=500, connections=64, baseline=100),
        (FLOOR, HUB, NAIVE),
        _STREAM,
    ),
    Cell(
        "publish",
        "publish one event a request, 16 sessions, 16 connections",
        Load("turns", sessions=16, connections=16),
        (EMPTY, HUB, NAIVE),
        _PUBLISH,
    ),
    Cell(
        "publish-array",
        "publish arrays of 50, 4 sessions, 4 connections",
        Load("turns", sessions=4, connections=4, batch=50, form="array"),
        (EMPTY, HUB, NAIVE),
        _PUBLISH,
    ),
    Cell(
        "publish-ndjson",
        "publish NDJSON of 50, 4 sessions, 4 connections",
        Load("turns", sessions=4, connections=4, batch=50, form="ndjson"),
        (EMPTY, HUB, NAIVE),
        _PUBLISH,
    ),
    Cell(
        "replay",
        "replay of 10,000 durable events, 10 clients at once",
        Load(
            "durable",
            viewers=10,
            preload=10_000,
            rounds=3,
            batch=50,
            form="ndjson",
            drain=60,
        ),
        _SSE,
        ("wall_ms", "cpu_per_delivery"),
    ),
    Cell(
        "idle",
        "memory of an idle viewer, of 2,000",
        _IDLE,
        _SSE,
        ("memory_per_viewer", "opens_per_s"),
    ),
    Cell("ws-fanout", "the same as fanout, over WebSocket", _FANOUT, _WS, _STREAM),
    Cell("ws-burst", "the same as burst, over WebSocket", _BURST, _WS, _STREAM),
    Cell("ws-steady", "the same as steady, over WebSocket", _STEADY, _WS, _STREAM),
    Cell(
        "ws-idle",
        "memory of an idle viewer over WebSocket, of 2,000",
        _IDLE,
        _WS,
        ("memory_per_viewer", "opens_per_s"),
    ),
)


def smoke(cell: Cell) -> Cell:
    """Shrink a cell to what shows that it works: a fraction of a second, every part in use."""
    load = cell.load
    fan = min(load.viewers // load.sessions, 20)
    sessions = min(load.sessions, 10)
    small = replace(
        load,
        viewers=fan * sessions,
        sessions=sessions,
        baseline=min(load.baseline, 2),
        rate=min(load.rate, 200),
        preload=min(load.preload, 500),
        rounds=min(load.rounds, 1),
        settle=0.05,
        warm=0.1,
        measure=min(load.measure, 0.3),
    )
    return replace(cell, load=small)
