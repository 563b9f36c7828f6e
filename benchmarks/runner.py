"""Runs cells: repetitions outermost, contenders interleaved, a fresh server for every figure.

So a change of the machine's mood falls on all contenders of a repetition alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import load
from benchmarks.cells import Cell
from benchmarks.contender import Contender
from benchmarks.processes import RedisServer, ServerFailed, redis_server, serve
from benchmarks.profile import recording

__all__ = ["Measurement", "Plan", "measure"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        cells: in this order.
        contenders: names; the others are left out.
        reps: repetitions of everything.
        port: of the servers; 0 is any free one.
        share_servers: run all cells of a contender on one server: quick, and not a measurement.
        profile: record the hub's stacks in every cell.
    """

    cells: Sequence[Cell]
    contenders: frozenset[str]
    reps: int
    port: int = 0
    share_servers: bool = False
    profile: bool = False

    def visits(self) -> Iterator[tuple[Contender, tuple[Cell, ...]]]:
        """The servers to start in one repetition, with the cells to run on each."""
        if not self.share_servers:
            for cell in self.cells:
                for contender in cell.contenders:
                    if contender.name in self.contenders:
                        yield contender, (cell,)
            return
        everyone = {c.name: c for cell in self.cells for c in cell.contenders}
        for name, contender in everyone.items():
            if name in self.contenders:
                yield contender, tuple(c for c in self.cells if contender in c.contenders)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one contender did with one cell in one repetition.

    `figures` is the generator's object (`load/main.c`); None where `error` says why.
    """

    rep: int
    cell: str
    contender: str
    figures: dict[str, Any] | None
    error: str = ""


def _visit(
    plan: Plan, rep: int, contender: Contender, cells: Sequence[Cell], redis: RedisServer
) -> Iterator[Measurement]:
    redis.flush()
    try:
        with serve(contender, redis.url, plan.port) as server:
            for cell in cells:
                name = f"{cell.name}-{contender.name}-{rep}"
                try:
                    with recording(server, name, on=plan.profile) as recorder:
                        begin = recorder.begin if recorder else None
                        figures = load.run(cell.load, server, redis, measuring=begin)
                except load.LoadFailed as exc:
                    yield Measurement(rep, cell.name, contender.name, None, str(exc))
                else:
                    yield Measurement(rep, cell.name, contender.name, figures)
    except ServerFailed as exc:
        for cell in cells:
            yield Measurement(rep, cell.name, contender.name, None, str(exc))


def measure(plan: Plan, done: Callable[[Measurement], None]) -> None:
    """Run the plan; `done` gets every measurement as it comes.

    Raises:
        BenchmarkBusy: the port is taken.
    """
    with redis_server() as redis:
        for rep in range(plan.reps):
            for contender, cells in plan.visits():
                for measurement in _visit(plan, rep, contender, cells, redis):
                    done(measurement)
