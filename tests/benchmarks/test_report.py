"""How measurements become medians and ratios."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cells import CELLS
from benchmarks.report import Table, as_json, as_markdown, tabulate
from benchmarks.runner import Measurement

FANOUT = next(cell for cell in CELLS if cell.name == "fanout")


def _measured(rep: int, contender: str, cpu_us: float, *, missing: int = 0) -> Measurement:
    figures: dict[str, Any] = {
        "cpu_s": {"server": cpu_us * 1000 / 1e6, "redis": 0, "generator": 0.5},
        "seconds": 2.0,
        "delivered": 1000,
        "published": 10,
        "latency_ms": {"p50": 1.0, "p99": 2.0},
        "expected": 1200,
        "delivered_all": 1200 - missing,
    }
    return Measurement(rep, "fanout", contender, figures)


def _ratios(table: Table) -> dict[str, tuple[float | None, float | None]]:
    return {row.contender: (row.to_anchor, row.ours) for row in table.rows}


def test_a_ratio_is_the_median_of_the_ratios_inside_repetitions() -> None:
    measurements = [
        *(_measured(0, name, cpu) for name, cpu in (("floor", 4), ("hub", 5), ("naive", 40))),
        *(_measured(1, name, cpu) for name, cpu in (("floor", 5), ("hub", 6), ("naive", 40))),
        *(_measured(2, name, cpu) for name, cpu in (("floor", 4), ("hub", 8), ("naive", 40))),
    ]
    table = tabulate(FANOUT, measurements)
    ratios = _ratios(table)
    assert ratios["hub"][0] == pytest.approx(1.25)
    assert ratios["hub"][1] == pytest.approx(1)
    assert ratios["naive"][1] == pytest.approx(0.15)
    assert next(r for r in table.rows if r.contender == "hub").medians["cpu_per_delivery"] == (
        pytest.approx(6)
    )


def test_a_repetition_with_a_slow_anchor_is_thrown_away() -> None:
    measurements = [
        *(_measured(0, name, cpu) for name, cpu in (("floor", 4), ("hub", 5))),
        *(_measured(1, name, cpu) for name, cpu in (("floor", 6.1), ("hub", 50))),
    ]
    table = tabulate(FANOUT, measurements)
    assert table.dropped == 1
    assert _ratios(table)["hub"][0] == pytest.approx(1.25)
    assert "thrown away because the machine was disturbed: 1" in as_markdown([table], {})


def test_a_repetition_without_an_anchor_is_kept_without_a_ratio_to_it() -> None:
    table = tabulate(FANOUT, [_measured(0, "hub", 5), _measured(0, "naive", 40)])
    ratios = _ratios(table)
    assert ratios["hub"][0] is None
    assert ratios["naive"][1] == pytest.approx(0.125)


def test_a_failure_and_a_loss_stand_in_the_report() -> None:
    measurements = [
        _measured(0, "floor", 4),
        Measurement(0, "fanout", "hub", None, "it did not answer"),
        _measured(0, "naive", 40, missing=12),
    ]
    table = tabulate(FANOUT, measurements)
    text = as_markdown([table], {"cpu": "two cores"})
    assert "hub: repetition 0: it did not answer" in text
    assert "99.0%" in text
    assert text.startswith("cpu: two cores")


def test_the_json_keeps_every_measurement() -> None:
    measurements = [_measured(0, "floor", 4), _measured(0, "hub", 5)]
    found: Any = as_json([tabulate(FANOUT, measurements)], measurements, {"cpu": "two cores"})
    assert [m["contender"] for m in found["measurements"]] == ["floor", "hub"]
    assert [row["to_anchor"] for row in found["cells"][0]["rows"]] == [1, pytest.approx(1.25)]


def test_an_anchor_below_nothing_throws_no_repetition_away() -> None:
    table = tabulate(FANOUT, [_measured(0, "floor", -1), _measured(0, "hub", 5)])
    assert table.dropped == 0
    assert {row.contender: row.runs for row in table.rows} == {"floor": 1, "hub": 1}
