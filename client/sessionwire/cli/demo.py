"""`sessionwire demo`: a hub, an agent at work, and a viewer that is dropped and comes back."""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import httpx2
import typer
from rich.console import Console

from sessionwire._http import HubAddress, async_client, connection_failed, rejected
from sessionwire._transcript import Transcript
from sessionwire.cli._demo_agent import Agent
from sessionwire.cli._demo_viewer import Replayed, Verdict, Viewer
from sessionwire.cli._exit import FAILED, CommandFailed
from sessionwire.cli._extra import hub_half

if TYPE_CHECKING:
    from sessionwire_server.serve import ServedHub

__all__ = ["demo"]

PORT: Final = 8787
PORTS_TRIED: Final = 20
"""Beyond these a free port is taken wherever there is one."""

ONCE_SPEED: Final = 2.5
"""How much faster than a real agent `--once` is."""

DROP_AFTER: Final = (90, 200)
"""Events that the viewer sees before it is dropped, from and to."""

MISSES: Final = (90, 200)
"""Events that are published meanwhile; together less than any session has."""

SESSION_TIMEOUT_S: Final = 120.0
PAUSE_S: Final = 5.0
"""Between two sessions."""


def demo(
    once: Annotated[bool, typer.Option("--once", help="End with the session.")] = False,
    port: Annotated[
        int | None,
        typer.Option(help="Port; the next free one if it is taken.", show_default="8787"),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the data here instead of in a temporary folder.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed tells the same story.")] = None,
) -> None:
    """Run a hub of its own and a simulated agent, until Ctrl-C.

    A viewer is dropped in the middle of each session and comes back; what it was sent is held
    against the hub's log. With --once the exit code says whether that held.
    """
    with hub_half("demo"):
        from sessionwire_server.embedded import EmbeddedError
        from sessionwire_server.event_loop import run
        from sessionwire_server.http_server import CannotStart
    first_seed = random.randrange(10_000) if seed is None else seed
    try:
        finished = run(partial(_demo, once, PORT if port is None else port, data_dir, first_seed))
    except (EmbeddedError, CannotStart) as exc:
        raise CommandFailed(str(exc)) from exc
    if once and not finished:
        raise CommandFailed("stopped before the session ended", FAILED)


async def _demo(once: bool, port: int, data_dir: Path | None, seed: int) -> bool:
    """Run it all. Returns: whether it came to its own end."""
    from sessionwire_server.stop_signals import stop_signals

    finished = False
    async with stop_signals() as stop, _hub(port, data_dir) as hub:
        _say(f"Console: {hub.console_url}", "bold")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when, stop.asked, tasks.cancel_scope)
            await _sessions(HubAddress(hub.url, hub.made_key), seed, once)
            finished = True
            tasks.cancel_scope.cancel()
    return finished


async def _cancel_when(asked: anyio.Event, scope: anyio.CancelScope) -> None:
    await asked.wait()
    scope.cancel()


@asynccontextmanager
async def _hub(port: int, data_dir: Path | None) -> AsyncGenerator[ServedHub]:
    """Run a hub in this process, on the first free port from `port` on."""
    from sessionwire_server.listener import CannotListen
    from sessionwire_server.serve import serving
    from sessionwire_server.settings import Settings

    async with AsyncExitStack() as stack:
        folder = data_dir
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sessionwire-")))
        ports = [*range(port, port + PORTS_TRIED), 0] if port else [0]
        for tried in ports:
            settings = Settings(port=tried, data_dir=folder, drain_s=0.5)
            try:
                hub = await stack.enter_async_context(serving(settings))
            except CannotListen:
                if tried == ports[-1]:
                    raise
                continue
            yield hub
            return


async def _sessions(address: HubAddress, seed: int, once: bool) -> None:
    while True:
        await _session(address, seed, ONCE_SPEED if once else 1.0)
        if once:
            return
        await anyio.sleep(PAUSE_S)
        seed += 1


async def _session(address: HubAddress, seed: int, speed: float) -> None:
    from sessionwire_server.workload import session_events

    start = datetime.now(UTC)
    name = f"demo-{start:%H%M%S}-{seed}"
    events = list(session_events(seed, start, name))
    _say(f"Session {name}: an agent publishes {len(events)} events.", "bold")
    _say(f"Follow it elsewhere: sessionwire tail {name} --url {address.url} --key …", "dim")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    transcript = Transcript(lambda text, style: console.print(text, style=style, end=""))
    agent = Agent(address, name, events)
    async with async_client(address) as http:
        await _create(http, name)
        viewer = Viewer(http, name, transcript.show)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.run, speed)
            await _drop_and_return(viewer, agent, transcript, random.Random(seed))
        _conclude(await viewer.verdict(), sum(paced.ephemeral for paced in events))


async def _create(http: httpx2.AsyncClient, name: str) -> None:
    try:
        response = await http.post("/v1/sessions", json={"id": name, "catalog": "copilot"})
    except httpx2.HTTPError as exc:
        raise connection_failed(http.base_url, exc) from exc
    if response.status_code != 201:
        raise rejected(response)


async def _drop_and_return(
    viewer: Viewer, agent: Agent, transcript: Transcript, chance: random.Random
) -> None:
    await viewer.watch(chance.randint(*DROP_AFTER))
    transcript.end()
    _say(f"-- the viewer is dropped after {len(viewer.seen)} events, at {viewer.cursor}", "yellow")
    await agent.reached(agent.published + chance.randint(*MISSES))

    def told(replayed: Replayed) -> None:
        transcript.end()
        _say(
            f"-- the viewer is back: {replayed.durable} durable and {replayed.ephemeral} ephemeral"
            " events were replayed",
            "yellow",
        )

    await viewer.come_back(told, timeout_s=SESSION_TIMEOUT_S)
    transcript.end()


def _conclude(verdict: Verdict, ephemeral: int) -> None:
    """Say what the verdict is.

    Raises:
        CommandFailed: the hub did not keep its promise.
    """
    seen = f"{verdict.durable} durable and {verdict.ephemeral} of {ephemeral} ephemeral events"
    if not verdict.holds:
        order = "" if verdict.in_order else ", out of order"
        found = f"{verdict.lost} lost, {verdict.doubled} doubled{order}"
        raise CommandFailed(f"the viewer's {seen} do not fit the hub's log: {found}", FAILED)
    _say(f"The viewer saw {seen}. Held against the hub's log: none lost, none doubled.", "green")


def _say(text: str, style: str) -> None:
    Console(highlight=False, markup=False, soft_wrap=True).print(text, style=style)
