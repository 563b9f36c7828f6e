"""The commands as processes against a real hub: what they do, say and exit with."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.client.command import environment, run, started
from tests.hub_process import HubProcess, running_hub


@pytest.fixture(scope="module")
def hub(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[HubProcess]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps([{"key": "reader", "scopes": ["read"], "sessions": ["open-*"]}]))
    with running_hub(redis_url, args=["--keys", str(keys)]) as process:
        yield process


@pytest.fixture
def env(tmp_path: Path, hub: HubProcess) -> dict[str, str]:
    return environment(tmp_path, hub)


def message(number: int, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-08-21T09:00:00.123Z",
        "parentId": None,
        "type": "user.message",
        "data": {"content": f"message {number}", "number": number},
        **more,
    }


def lines(*events: dict[str, Any]) -> bytes:
    return "".join(f"{json.dumps(event)}\n" for event in events).encode()


def numbers(output: bytes) -> list[int]:
    return [json.loads(line)["data"]["number"] for line in output.splitlines()]


def error_of(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that a failed command says."""
    text = done.stderr.decode()
    assert "Traceback" not in text
    assert text.startswith("sessionwire: ")
    assert text.count("\n") == 1
    return text


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(json.dumps(message(1)), id="an object"),
        pytest.param(json.dumps([message(1)], indent=2), id="an array"),
        pytest.param(json.dumps(message(1)) + "\n", id="a line"),
    ],
)
def test_publish_takes_json_and_ndjson(env: dict[str, str], sid: str, given: str) -> None:
    done = run("publish", sid, env=env, stdin=given.encode())
    assert done.returncode == 0, done.stderr
    assert f"1 event stored in {sid}, sequence 1 to 1" in done.stdout.decode()


def test_a_big_file_is_streamed_and_exported_as_it_was(
    env: dict[str, str], sid: str, tmp_path: Path
) -> None:
    count = 5_000
    file = tmp_path / "events.ndjson"
    file.write_bytes(lines(*(message(n, id=f"e{n}", pad="x" * 500) for n in range(count))))
    done = run("publish", sid, str(file), env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"{count} events stored in {sid}, sequence 1 to {count}" in done.stdout.decode()
    assert run("export", sid, env=env).stdout == file.read_bytes()
    again = run("publish", sid, "-", env=env, stdin=file.read_bytes())
    assert f"0 events stored in {sid}, {count} were there already" in again.stdout.decode()


def test_a_live_producer_is_published_line_by_line(env: dict[str, str], sid: str) -> None:
    """The pipe stays open: what is whole must not wait for what is to come."""
    with started("publish", sid, env=env) as publisher:
        assert publisher.stdin is not None
        publisher.stdin.write(lines(message(1), message(2)))
        publisher.stdin.flush()
        run("publish", sid, env=env, stdin=lines(message(0)))
        with started("tail", sid, "--json", env=env) as tail:
            assert tail.stdout is not None
            first = {numbers(tail.stdout.readline())[0] for _ in range(3)}
            assert first == {0, 1, 2}
            publisher.stdin.write(lines(message(3)))
            publisher.stdin.flush()
            assert numbers(tail.stdout.readline()) == [3]
        publisher.stdin.close()
        assert publisher.wait(20) == 0


def test_what_is_wrong_in_the_input_is_named_with_its_line(env: dict[str, str], sid: str) -> None:
    done = run("publish", sid, env=env, stdin=lines(message(1)) + b'{"a" 1}\n')
    assert done.returncode == 1
    assert "line 2: Expecting ':' delimiter; 1 event before it is stored" in error_of(done)
    refused = run("publish", sid, env=env, stdin=lines(message(1), message(2, type="connected")))
    assert refused.returncode == 1
    assert "line 2: " in error_of(refused)
    assert "reserved_type" in error_of(refused)


def test_tail_ends_with_ctrl_c_and_resumes_after_an_event(env: dict[str, str], sid: str) -> None:
    run("publish", sid, env=env, stdin=lines(*(message(n, id=f"e{n}") for n in range(5))))
    with started("tail", sid, "--json", "--since", "e2", env=env) as tail:
        assert tail.stdout is not None
        assert numbers(tail.stdout.readline() + tail.stdout.readline()) == [3, 4]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(20) == 130
        assert tail.stderr is not None
        assert tail.stderr.read() == b""


@pytest.mark.parametrize(
    ("since", "expected"), [("3", [3, 4]), ("-1", [4]), ("0", [0, 1, 2, 3, 4])]
)
def test_tail_begins_where_it_is_told(
    env: dict[str, str], sid: str, since: str, expected: list[int]
) -> None:
    run("publish", sid, env=env, stdin=lines(*(message(n) for n in range(5))))
    with started("tail", sid, "--json", f"--since={since}", env=env) as tail:
        assert tail.stdout is not None
        assert numbers(b"".join(tail.stdout.readline() for _ in expected)) == expected


def test_tail_keeps_to_the_types_asked_for(env: dict[str, str], sid: str) -> None:
    events = [message(0), message(1, type="x.own"), message(2, type="x.other"), message(3)]
    run("publish", sid, env=env, stdin=lines(*events))
    with started("tail", sid, "--json", "--types", "x.own,x.other", env=env) as tail:
        assert tail.stdout is not None
        assert numbers(tail.stdout.readline() + tail.stdout.readline()) == [1, 2]


def test_tail_is_readable(env: dict[str, str], sid: str) -> None:
    run("publish", sid, env=env, stdin=lines(message(1)))
    with started("tail", sid, env=env) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == b"  user  message 1\n"


def test_sessions_are_listed_and_watched(env: dict[str, str], sid: str) -> None:
    run("publish", sid, env=env, stdin=lines(message(1)))
    assert sid in run("sessions", env=env).stdout.decode()
    rows = [json.loads(line) for line in run("sessions", "--json", env=env).stdout.splitlines()]
    assert [row["sequence"] for row in rows if row["id"] == sid] == [1]
    with started("sessions", "--watch", "--json", env=env) as watch:
        assert watch.stdout is not None
        snapshot = json.loads(watch.stdout.readline())["snapshot"]["data"]
        assert sid in [row["id"] for row in snapshot]
        run("publish", sid, env=env, stdin=lines(message(2)))
        while True:
            change = json.loads(watch.stdout.readline()).get("session.updated", {})
            if change.get("id") == sid and change.get("sequence") == 2:
                break
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 130


@pytest.mark.parametrize(
    "command", [("tail", "nowhere"), ("export", "nowhere")], ids=["tail", "export"]
)
def test_an_unknown_session_exits_with_3(env: dict[str, str], command: tuple[str, ...]) -> None:
    done = run(*command, env=env)
    assert done.returncode == 3
    assert "session_not_found" in error_of(done)


def test_a_wrong_key_exits_with_3(env: dict[str, str]) -> None:
    for command in (("sessions",), ("sessions", "--watch"), ("tail", "s"), ("publish", "s")):
        done = run(*command, "--key", "wrong", env=env, stdin=lines(message(1)))
        assert done.returncode == 3
        assert "unauthorized" in error_of(done)


def test_a_missing_scope_exits_with_3(env: dict[str, str]) -> None:
    done = run("publish", "open-1", "--key", "reader", env=env, stdin=lines(message(1)))
    assert done.returncode == 3
    assert "forbidden" in error_of(done)


def test_another_catalog_exits_with_4(env: dict[str, str], sid: str) -> None:
    run("publish", sid, env=env, stdin=lines(message(1)))
    other: dict[str, Any] = {
        "ts": "2026-08-21T09:00:00.123Z",
        "type": "turn.started",
        "data": {},
        "context": {},
    }
    done = run("publish", sid, env=env, stdin=lines(other))
    assert done.returncode == 4
    assert "catalog_mismatch" in error_of(done)


def test_a_hub_that_is_not_there_exits_with_5(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    env = environment(tmp_path, SESSIONWIRE_URL=url)
    for command in (("sessions",), ("sessions", "--watch"), ("tail", "s"), ("export", "s")):
        done = run(*command, env=env)
        assert done.returncode == 5
        assert f"cannot reach {url}" in error_of(done)
    assert run("publish", "s", env=env, stdin=lines(message(1))).returncode == 5


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("nonsense",), "No such command"),
        (("tail",), "Missing argument"),
        (("tail", "s", "--nonsense"), "No such option"),
        (("serve", "--port", "many"), "--port"),
        (("serve", "--port", "99999"), "setting port"),
        (("tail", "s", "--url", "nonsense"), "--url"),
        (("publish", "sse"), "no session id"),
        (("tail", "a/b"), "no session id"),
        (("export", ".."), "no session id"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    done = run(*args, env=environment(tmp_path))
    assert done.returncode == 2
    assert says in error_of(done)


def test_without_a_hub_the_error_says_how_to_name_one(tmp_path: Path) -> None:
    done = run("sessions", env=environment(tmp_path))
    assert done.returncode == 2
    assert "SESSIONWIRE_URL" in error_of(done)


def test_a_file_that_is_not_there_exits_with_1(env: dict[str, str]) -> None:
    done = run("publish", "s", "/nonexistent/events.ndjson", env=env)
    assert done.returncode == 1
    assert "No such file" in error_of(done)


def test_a_reader_that_has_seen_enough_is_no_error(env: dict[str, str], sid: str) -> None:
    big = lines(*(message(n, pad="x" * 1_000) for n in range(2_000)))
    run("publish", sid, env=env, stdin=big)
    with started("export", sid, env=env) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        export.stdout.readline()
        export.stdout.close()
        export.wait(20)
        assert export.stderr.read() == b""


def test_the_version_is_told(tmp_path: Path) -> None:
    done = run("--version", env=environment(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"sessionwire 0.1.0\n")


def test_a_missing_library_of_the_hub_names_the_extra(tmp_path: Path) -> None:
    """The client alone is installed: the hub's libraries cannot be imported."""
    hidden = tmp_path / "starlette"
    hidden.mkdir()
    (hidden / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'starlette'\", name='starlette')"
    )
    env = environment(tmp_path, PYTHONPATH=str(tmp_path))
    for command in ("serve", "demo"):
        done = run(command, env=env)
        assert done.returncode == 1
        assert "pip install 'sessionwire[server]'" in error_of(done)


def test_check_shows_the_settings_but_no_secret(redis_url: str, tmp_path: Path) -> None:
    secret = "redis://:hunter2@127.0.0.1:1/0"
    env = environment(tmp_path, SESSIONWIRE_KEY="hunter3", SESSIONWIRE_DRAIN_S="7")
    away = run("check", "--redis-url", secret, env=env)
    assert away.returncode == 5
    assert away.stderr.count(b"\n") == 1
    socket = f"unix://{tmp_path}/redis.sock?db=1&password=hunter4"
    beside = run("check", "--redis-url", socket, env=env)
    assert beside.returncode == 5
    assert f"unix://{tmp_path}/redis.sock?db=1&password=********" in beside.stdout.decode()
    fit = run("check", "--redis-url", redis_url, env=env)
    assert fit.returncode == 0, fit.stderr
    shown = fit.stdout.decode()
    assert "drain_s                    7" in shown
    assert "version: " in shown
    for text in (x for done in (away, beside, fit) for x in (done.stdout, done.stderr)):
        assert b"hunter" not in text
    assert "********" in away.stdout.decode()
