"""`sessionwire demo` as a process, and the judgement it makes of the hub."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import pytest

from sessionwire.cli._demo_viewer import judge
from tests.client.command import environment, run, started


def test_once_shows_a_session_a_drop_and_what_was_replayed(tmp_path: Path) -> None:
    since = time.monotonic()
    done = run("demo", "--once", "--seed", "3", "--port", "0", env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    told = done.stdout.decode()
    assert "/#key=" in told
    assert "  user  " in told
    assert "tool  bash" in told
    assert "Explore starts" in told
    assert "-- the viewer is dropped after " in told
    assert "durable and" in told.partition("-- the viewer is back: ")[2]
    assert told.rstrip().endswith("Held against the hub's log: none lost, none doubled.")
    assert time.monotonic() - since < 40
    # The hub's data were in a folder of their own, and nothing is left of them.
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_stepped_over_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started("demo", "--port", str(port), env=environment(tmp_path)) as demo:
            assert demo.stdout is not None
            console = demo.stdout.readline().decode()
            assert console.startswith("Console: http://127.0.0.1:")
            assert f":{port}/" not in console
            while b"  user  " not in demo.stdout.readline():
                pass
            demo.send_signal(signal.SIGINT)
            assert demo.wait(20) == 0
            assert demo.stderr is not None
            assert demo.stderr.read() == b""


def test_once_that_is_stopped_has_failed(tmp_path: Path) -> None:
    with started("demo", "--once", "--port", "0", env=environment(tmp_path)) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        demo.terminate()
        assert demo.wait(20) == 1
        assert demo.stderr is not None
        assert b"stopped before the session ended" in demo.stderr.read()


def test_a_data_folder_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with started(
        "demo", "--port", "0", "--data-dir", str(folder), env=environment(tmp_path)
    ) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        assert (folder / "hub.json").exists()
        demo.terminate()
        assert demo.wait(20) == 0
    assert (folder / "appendonlydir").is_dir()


D, E = True, False


@pytest.mark.parametrize(
    ("seen", "lost", "doubled", "in_order"),
    [
        pytest.param([("a", D), ("x", E), ("b", D), ("c", D)], 0, 0, True, id="all of it"),
        pytest.param([("a", D), ("c", D)], 1, 0, True, id="one lost"),
        pytest.param([("a", D), ("b", D), ("b", D), ("c", D)], 0, 1, True, id="one doubled"),
        pytest.param([("a", D), ("x", E), ("x", E), ("b", D), ("c", D)], 0, 1, True, id="a delta"),
        pytest.param([("a", D), ("c", D), ("b", D)], 0, 0, False, id="out of order"),
        pytest.param([("a", D), ("b", D), ("c", D), ("d", D)], 0, 0, False, id="not in the log"),
        pytest.param([], 3, 0, True, id="nothing"),
    ],
)
def test_what_was_seen_is_held_against_the_log(
    seen: list[tuple[str, bool]], lost: int, doubled: int, in_order: bool
) -> None:
    verdict = judge(seen, ["a", "b", "c"])
    assert (verdict.lost, verdict.doubled, verdict.in_order) == (lost, doubled, in_order)
    assert verdict.holds == (not lost and not doubled and in_order)
