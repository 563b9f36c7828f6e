"""The generator counts what arrives, and notices what does not."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import load
from benchmarks.contender import Contender
from benchmarks.contenders import FLOOR
from benchmarks.load import Load, LoadFailed
from benchmarks.processes import RedisServer, serve

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

NO_REDIS = RedisServer("", os.getpid())
CLOSED_LOOP = Load("deltas", viewers=6, window=1, settle=0.05, warm=0.1, measure=0.3, drain=0.5)


def _unkind(manner: str) -> Contender:
    program = str(Path(__file__).with_name("unkind_server.py"))
    return Contender(
        name=manner,
        title=manner,
        command=lambda ground: [sys.executable, program, str(ground.port), manner],
        await_frame=True,
    )


def _figures(contender: Contender, given: Load) -> dict[str, Any]:
    with serve(contender, "") as server:
        return load.run(given, server, NO_REDIS)


@pytest.mark.parametrize("manner", ["kind", "slivers"])
def test_marks_are_counted_however_they_are_cut(manner: str) -> None:
    figures = _figures(_unkind(manner), CLOSED_LOOP)
    assert figures["delivered_all"] == figures["expected"] > 100
    assert figures["latency_ms"]["samples"] == figures["delivered"]
    assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p99"] < 1000


def test_a_lost_event_is_missing() -> None:
    figures = _figures(_unkind("lossy"), replace(CLOSED_LOOP, window=0, rate=200))
    assert 0 < figures["delivered_all"] < figures["expected"]
    lost = figures["expected"] - figures["delivered_all"]
    assert lost % 6 == 0
    assert lost == pytest.approx(figures["expected"] / 10, abs=6)


def test_a_refused_request_is_told_and_not_expected() -> None:
    figures = _figures(_unkind("refusing"), replace(CLOSED_LOOP, window=0, rate=200))
    assert figures["refused"] > 0
    assert figures["delivered_all"] == figures["expected"] > 0
    assert "503 Away" in figures["complaints"]


def test_closed_viewers_are_counted() -> None:
    figures = _figures(_unkind("closing"), CLOSED_LOOP)
    assert figures["closed"] == 6


def test_a_changed_mark_ends_the_run() -> None:
    with pytest.raises(LoadFailed, match="a mark was changed"):
        _figures(_unkind("changing"), CLOSED_LOOP)


def test_an_open_loop_keeps_its_rate_and_a_closed_one_its_window() -> None:
    figures = _figures(FLOOR, replace(CLOSED_LOOP, window=0, rate=100, measure=1.0))
    assert figures["published"] == pytest.approx(100, abs=15)
    assert figures["delivered"] == pytest.approx(600, abs=90)


@pytest.mark.parametrize("form", ["array", "ndjson"])
def test_batches_deliver_each_event(form: Any) -> None:
    batches = replace(CLOSED_LOOP, window=0, rate=500, batch=5, form=form)
    figures = _figures(FLOOR, batches)
    assert figures["delivered_all"] == figures["expected"] > 0
    assert figures["expected"] % (5 * 6) == 0


def test_a_replay_brings_every_client_everything() -> None:
    replay = Load("durable", viewers=3, preload=200, rounds=2, batch=50, form="ndjson")
    figures = _figures(FLOOR, replay)
    assert figures["delivered_all"] == figures["expected"] == 200 * 3 * 2
    assert len(figures["wall_ms"]) == 2


def test_a_server_that_does_nothing_uses_next_to_no_time() -> None:
    figures = _figures(FLOOR, replace(CLOSED_LOOP, window=0, rate=20, measure=1.0))
    assert 0 < figures["cpu_s"]["server"] < 0.2
    assert 0 < figures["cpu_s"]["generator"] < 0.5
