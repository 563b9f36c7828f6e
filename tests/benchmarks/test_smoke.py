"""The benchmarks run, measure every cell and lose no delivery. What they measure is not judged."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cells import CELLS, Cell
from benchmarks.contender import Contender
from benchmarks.contenders import CONTENDERS, PEERS

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.timeout(240),  # the first test waits for the runs of all
]


def _run(
    *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            process.terminate()  # which ends the servers; a kill would leave them behind
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a smoke run of everything writes.

    A server that a busy machine kept from starting in time leaves a measurement without figures;
    such a run is made once more, and the second one counts.
    """
    found: dict[str, Any] = {}
    for attempt in range(2):
        out = tmp_path_factory.mktemp(f"out{attempt}")
        done = _run("--smoke", "--out", str(out))
        assert done.returncode == 0, done.stderr[-4000:]
        found = json.loads((out / "results.json").read_text())
        if all(measurement["figures"] for measurement in found["measurements"]):
            break
    return found


def test_every_cell_has_a_figure_of_every_contender(results: dict[str, Any]) -> None:
    measured = {
        (cell["name"], row["contender"]): row["medians"]
        for cell in results["cells"]
        for row in cell["rows"]
    }
    assert measured.keys() == {(cell.name, c.name) for cell in CELLS for c in _ours(cell)}
    for cell in CELLS:
        for contender in _ours(cell):
            assert set(measured[cell.name, contender.name]) == set(cell.metrics)


def _ours(cell: Cell) -> list[Contender]:
    """Who is in a smoke run: all but the servers of others, which a machine may lack."""
    return [contender for contender in cell.contenders if contender not in PEERS]


def test_every_delivery_arrives(results: dict[str, Any]) -> None:
    for m in results["measurements"]:
        figures = m["figures"]
        assert figures["delivered_all"] == figures["expected"], (m["cell"], m["contender"])
        assert (figures["refused"], figures["closed"]) == (0, 0), (m["cell"], m["contender"])
        assert figures["complaints"] == ""


def test_streams_and_replays_deliver_something(results: dict[str, Any]) -> None:
    watched = {cell.name for cell in CELLS if cell.load.viewers and cell.load.measure}
    delivered = [
        m["figures"]["delivered_all"] for m in results["measurements"] if m["cell"] in watched
    ]
    assert len(delivered) >= 2 * len(watched)
    assert min(delivered) > 0


def test_a_taken_port_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = _run("--smoke", "--cells", "idle", "--port", port, "--out", str(tmp_path))
    assert done.returncode == 3
    assert f"port {port} is taken" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_unknown_cell_is_a_usage_error() -> None:
    done = _run("--cells", "nonsense")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("nonsense", *(cell.name for cell in CELLS)))


def test_contenders_are_known_by_their_names() -> None:
    assert all(name == contender.name for name, contender in CONTENDERS.items())


def test_a_server_that_is_not_installed_is_left_out_by_name(tmp_path: Path) -> None:
    done = _run(
        *("--smoke", "--cells", "ws-idle", "--contenders", "floor-ws,socketio"),
        *("--out", str(tmp_path)),
        environ={**os.environ, "PATH": _only("cc", "as", "ld", folder=tmp_path / "bin")},
    )
    assert done.returncode == 0, done.stderr
    assert "socketio is left out, it needs node" in done.stderr
    assert "socket.io" not in done.stdout


def _only(*names: str, folder: Path) -> str:
    folder.mkdir()
    for name in names:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


def test_a_terminated_run_leaves_no_process_behind(tmp_path: Path) -> None:
    chosen = ["--cells", "fanout", "--contenders", "floor", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks", *chosen]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "fanout" in process.stderr.readline()
        started = _descendants(process.pid)
        process.terminate()
        assert process.wait(30) == 1
    assert started
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found[1:]
