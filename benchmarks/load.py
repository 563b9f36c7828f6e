"""Runs the load generator against one server and reads its figures."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks import native
from benchmarks.machine import LOAD_CORE, on_core
from benchmarks.processes import RedisServer, Server
from benchmarks.workload import WORKLOADS

__all__ = ["Load", "LoadFailed", "run"]


class LoadFailed(Exception):
    """The generator could not measure; the text says why."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the generator does: the options of `load/options.h`, times in seconds.

    `window` > 0 is a closed loop with that many events outstanding, `rate` > 0 an open loop with
    that many events a second over all sessions, neither: as fast as the connections answer.
    `rounds` > 0 replays `preload` events that often; `measure` 0 weighs idle viewers only.
    """

    workload: str
    viewers: int = 0
    sessions: int = 1
    connections: int = 1
    batch: int = 1
    form: Literal["one", "array", "ndjson"] = "one"
    window: int = 0
    rate: float = 0
    baseline: int = 0
    settle: float = 0.5
    warm: float = 1.0
    measure: float = 4.0
    drain: float = 20.0
    preload: int = 0
    rounds: int = 0


def _request(line: str, headers: Mapping[str, str]) -> str:
    given = {"Host": "127.0.0.1", **headers}
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in given.items())])


def _arguments(load: Load, server: Server, redis: RedisServer, templates: Path) -> list[str]:
    nonce = random.getrandbits(31)
    contender = server.contender
    if not contender.batches:
        load = replace(load, batch=1, form="one")
    paths = contender.paths
    media = "application/x-ndjson" if load.form == "ndjson" else "application/json"
    options: dict[str, object] = {
        "port": server.port,
        "prefix": f"bench-{nonce:08x}-",
        "nonce": nonce,
        "workload": templates,
        "viewer-request": _request(
            paths.replay if load.rounds else paths.live,
            {**contender.headers, **contender.stream_headers},
        ),
        "publish-request": _request(paths.publish, {**contender.headers, "Content-Type": media}),
        "viewer-status": contender.status,
        "await-frame": int(contender.await_frame),
    }
    if contender.hello:
        options["hello"] = contender.hello
    for name in Load.__slots__:
        if name != "workload":
            options[name] = getattr(load, name)
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    pids = ",".join(map(str, server.pids()))
    return [*words, "--watch", f"server:{pids}", "--watch", f"redis:{redis.pid}"]


def _wait_for(program: subprocess.Popen[str], budget_s: float) -> tuple[str, str]:
    try:
        return program.communicate(timeout=budget_s)
    except BaseException:
        program.kill()
        program.wait()
        raise


def run(
    load: Load, server: Server, redis: RedisServer, *, measuring: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Put the load on the server; returns the generator's object (see `load/main.c`).

    Args:
        load: what to do.
        server: to whom.
        redis: whose CPU time to report beside the server's.
        measuring: called once, when the measured part begins; not for an idle load.

    Raises:
        LoadFailed: the server refused, closed or did not answer.
    """
    generator = str(native.generator())
    budget_s = 60 + load.settle * 2 + load.warm + load.measure + load.drain * (1 + load.rounds)
    heard, announced = os.pipe()
    with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file, on_core(LOAD_CORE):
        file.write("\n".join(WORKLOADS[load.workload]()))
        file.flush()
        words = _arguments(load, server, redis, Path(file.name))
        program = subprocess.Popen(
            [generator, *words, "--announce", str(announced)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[announced],
        )
        os.close(announced)
        with open(heard, "rb") as pipe:
            # One byte, or none from a generator that is idle or failed.
            if measuring is not None and pipe.read(1):
                measuring()
            stdout, stderr = _wait_for(program, budget_s)
    if program.returncode:
        log = server.last_words()
        raise LoadFailed(f"{server.contender.name}: {stderr.strip()[-1000:]}\n{log}")
    figures: dict[str, Any] = json.loads(stdout)
    figures["complaints"] = stderr.strip()[:1000]
    return figures
