"""`sessionwire demo` as a process, and the judgement it makes of the hub."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from sessionwire.cli._demo_viewer import judge
from tests.client.command import environment, run, started


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `demo --once` says."""
    home = tmp_path_factory.mktemp("home")
    since = time.monotonic()
    done = run("demo", "--once", "--seed", "3", "--port", "0", env=environment(home))
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - since < 40
    # The hub's data were in a folder of their own, and nothing is left of them.
    assert list(home.iterdir()) == []
    return done.stdout.decode()


def test_once_shows_a_session_a_drop_and_what_was_replayed(told: str) -> None:
    assert "/#key=" in told
    assert "  user  " in told
    assert "tool  bash" in told
    assert "Explore starts" in told
    assert "-- the viewer is dropped after " in told
    assert "durable and" in told.partition("-- the viewer is back: ")[2]
    assert "Held against the hub's log: none lost, none doubled." in told


def test_once_answers_by_itself_and_says_what_became_of_it(told: str) -> None:
    asked = told.count("-- the agent asks, and waits: ")
    assert asked == told.count("the agent heard prompt.answer: consumed, key answered it") > 3
    # Each prompt is answered from two places at once, and one of them is told who was first.
    assert asked == told.count(", is told: already answered by key")
    for text in (
        "the agent asks, and waits: run: pytest",
        "says 'approve': answered by key with 'approve-once' at ",
        "the user sent 'Please leave the tests as they are.': accepted, delivered, consumed",
        "the agent heard message.send: consumed, the agent has it",
        "I have kept in mind what you sent me meanwhile.",
    ):
        assert text in told
    assert told.rstrip().endswith("each answer reached the agent once.")


class Demo:
    """A demo that waits for somebody, and the commands of that somebody."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self._home = home
        exports = self.until("For a second terminal: ")
        where = dict(re.findall(r"(SESSIONWIRE_\w+)=(\S+)", exports))
        self._env = environment(home, **where)
        (self.session,) = re.findall(r"sessionwire tail (\S+)", self.until("Watch it:"))

    def until(self, wanted: str) -> str:
        """Read up to a line; pytest's own timeout bounds the wait."""
        for line in self._lines:
            if wanted in (text := line.decode()):
                return text
        raise AssertionError(f"ended before {wanted!r}")

    def says(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the second terminal."""
        done = run(*args, env=self._env)
        assert done.returncode == 0, done.stderr
        return done

    def answer(self, *words: str) -> None:
        """Answer the next question by the line that the demo prints."""
        line = self.until("answer it in the console, or by: sessionwire ")
        command = line.rpartition("sessionwire ")[2].split()
        assert self.says(*command, *words).stdout == b"answered, completed\n"
        self.until("the agent heard prompt.answer: consumed")


@pytest.fixture
def demo(tmp_path: Path) -> Generator[Demo]:
    env = environment(tmp_path)
    with started("demo", "--seed", "3", "--port", "0", env=env) as process:
        yield Demo(process, tmp_path)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_it_waits_for_answers_which_decide_what_it_does(demo: Demo) -> None:
    demo.answer("the blue one")
    demo.until("All right: the blue one.")
    demo.answer("reject", "--comment", "not on this machine")
    demo.until("Not allowed: not on this machine")
    demo.answer("reject", "--comment", "smaller steps")
    demo.until("I have changed the plan: smaller steps.")
    demo.answer("autopilot")
    # On autopilot it runs its commands without asking: the form is next.
    demo.answer("branch=fix", "draft=yes")
    demo.until("I open a draft on fix.")


def test_it_obeys_messages_and_aborts_while_it_waits(demo: Demo) -> None:
    demo.until("answer it in the console")
    told = demo.says("send", demo.session, "Use the old name", "--now")
    assert told.stdout == b"accepted\ndelivered\nconsumed\n"
    demo.until("the agent heard message.send: consumed")
    demo.says("abort", demo.session)
    demo.until("the agent heard abort: consumed, the agent has stopped")
    assert demo.says("prompts", demo.session).stdout == b""
    demo.says("send", demo.session, "Begin anew")
    demo.until("Understood: \u201cBegin anew\u201d")


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
