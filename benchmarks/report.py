"""Turns measurements into medians, ratios and tables. Pure: no processes, no clock.

Ratios are made inside a repetition and then the median is taken, since what the neighbours do
changes between repetitions more than inside one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cells import METRICS, Cell
from benchmarks.contenders import CONTENDERS, HUB, HUB_WS
from benchmarks.runner import Measurement

__all__ = ["DISTURBED", "Row", "Table", "as_json", "as_markdown", "tabulate"]

DISTURBED = 1.5
"""A repetition whose anchor took this many times the anchor's best is thrown away."""


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one cell, over the repetitions kept.

    Attributes:
        contender: its name.
        runs: repetitions kept.
        medians: by metric.
        to_anchor: headline metric as a multiple of the anchor's, None where there is no anchor.
        ours: sessionwire's headline metric as a multiple of this one's.
        arrived: share of the expected deliveries that came, 1 where none were expected.
        errors: what went wrong, a line a repetition.
    """

    contender: str
    runs: int
    medians: Mapping[str, float]
    to_anchor: float | None
    ours: float | None
    arrived: float
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One cell; `dropped` counts the repetitions thrown away."""

    cell: Cell
    rows: tuple[Row, ...]
    dropped: int


def _headlines(cell: Cell, measurements: Sequence[Measurement]) -> dict[str, dict[int, float]]:
    """Headline metric by contender and repetition."""
    metric = METRICS[cell.metrics[0]]
    values: dict[str, dict[int, float]] = {}
    for m in measurements:
        if m.figures is not None:
            values.setdefault(m.contender, {})[m.rep] = metric.of(m.figures)
    return values


def _kept(reps: set[int], anchor: Mapping[int, float]) -> set[int]:
    best = min(anchor.values(), default=0.0)
    if best <= 0:
        return reps  # no anchor, or one whose memory shrank: it tells nothing of the machine
    return {rep for rep in reps if anchor.get(rep, best) <= best * DISTURBED}


def _ratio(mine: Mapping[int, float], other: Mapping[int, float], kept: set[int]) -> float | None:
    ratios = [mine[r] / other[r] for r in kept if r in mine and other.get(r)]
    return statistics.median(ratios) if ratios else None


def _arrived(measurements: Sequence[Measurement]) -> float:
    figures = [m.figures for m in measurements if m.figures is not None]
    expected = sum(f["expected"] for f in figures)
    return sum(f["delivered_all"] for f in figures) / expected if expected else 1.0


def _ours(cell: Cell) -> str:
    """Name the contender of a cell that is sessionwire."""
    return next(c.name for c in cell.contenders if c.name in (HUB.name, HUB_WS.name))


def _row(
    name: str,
    cell: Cell,
    mine: Sequence[Measurement],
    headlines: Mapping[str, Mapping[int, float]],
    kept: set[int],
) -> Row:
    good = [m.figures for m in mine if m.figures is not None and m.rep in kept]
    own = headlines.get(name, {})
    return Row(
        contender=name,
        runs=len(good),
        medians={
            key: statistics.median(METRICS[key].of(figures) for figures in good)
            for key in cell.metrics
            if good
        },
        to_anchor=_ratio(own, headlines.get(cell.contenders[0].name, {}), kept),
        ours=_ratio(headlines.get(_ours(cell), {}), own, kept),
        arrived=_arrived(mine),
        errors=tuple(f"repetition {m.rep}: {m.error}" for m in mine if m.error),
    )


def tabulate(cell: Cell, measurements: Sequence[Measurement]) -> Table:
    """Sum up one cell; measurements of other cells are ignored."""
    here = [m for m in measurements if m.cell == cell.name]
    headlines = _headlines(cell, here)
    reps = {m.rep for m in here}
    kept = _kept(reps, headlines.get(cell.contenders[0].name, {}))
    rows = [
        _row(c.name, cell, mine, headlines, kept)
        for c in cell.contenders
        if (mine := [m for m in here if m.contender == c.name])
    ]
    return Table(cell, tuple(rows), len(reps) - len(kept))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _markdown_table(table: Table) -> list[str]:
    cell = table.cell
    anchor = cell.contenders[0]
    headings = [METRICS[key].title for key in cell.metrics]
    lines = [
        f"### {cell.name}: {cell.title}",
        "",
        f"| | {' | '.join(headings)} | × {anchor.name} | ours ÷ it | arrived | runs |",
        f"|---|{'---:|' * (len(headings) + 4)}",
    ]
    for row in table.rows:
        figures = [
            f"{row.medians[key]:,.{METRICS[key].digits}f}" if row.medians else "-"
            for key in cell.metrics
        ]
        ratios = f"{_times(row.to_anchor)} | {_times(row.ours)}"
        title = CONTENDERS[row.contender].title
        arrived = f"{row.arrived:.1%}"
        lines.append(f"| {title} | {' | '.join(figures)} | {ratios} | {arrived} | {row.runs} |")
    if table.dropped:
        lines += ["", f"Repetitions thrown away because the machine was disturbed: {table.dropped}"]
    lines += [f"\n{row.contender}: {error}" for row in table.rows for error in row.errors]
    return [*lines, ""]


def as_markdown(tables: Sequence[Table], machine: Mapping[str, str]) -> str:
    """Write the report; ratios are of the first column."""
    about = " · ".join(f"{name}: {value}" for name, value in machine.items())
    lines = [about, "", *(line for table in tables for line in _markdown_table(table))]
    return "\n".join(lines)


def as_json(
    tables: Sequence[Table], measurements: Sequence[Measurement], machine: Mapping[str, str]
) -> dict[str, object]:
    """Everything, for programs: the rows and each measurement they came from."""
    return {
        "machine": dict(machine),
        "cells": [
            {
                "name": table.cell.name,
                "title": table.cell.title,
                "dropped": table.dropped,
                "rows": [
                    {
                        "contender": row.contender,
                        "runs": row.runs,
                        "medians": dict(row.medians),
                        "to_anchor": row.to_anchor,
                        "ours": row.ours,
                        "arrived": row.arrived,
                        "errors": list(row.errors),
                    }
                    for row in table.rows
                ],
            }
            for table in tables
        ],
        "measurements": [
            {
                "rep": m.rep,
                "cell": m.cell,
                "contender": m.contender,
                "figures": m.figures,
                "error": m.error,
            }
            for m in measurements
        ],
    }
