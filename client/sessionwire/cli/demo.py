"""`sessionwire demo`: a hub, an agent at work that asks and obeys, and a viewer that comes back."""

from __future__ import annotations

import math
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

from sessionwire._host import Command
from sessionwire._http import HubAddress, async_client, connection_failed, rejected
from sessionwire._transcript import Transcript, clean
from sessionwire.cli._asked import one_line
from sessionwire.cli._demo_agent import Agent
from sessionwire.cli._demo_user import User
from sessionwire.cli._demo_viewer import Replayed, Verdict, Viewer
from sessionwire.cli._exit import FAILED, CommandFailed
from sessionwire.cli._extra import hub_half
from sessionwire_schemas.catalog import COPILOT
from sessionwire_schemas.prompts import asked as asked_in

if TYPE_CHECKING:
    from sessionwire_server.serve import ServedHub
    from sessionwire_server.workload import Question

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

AWAY_S: Final = 8.0
"""The longest that it is away, should the agent wait for somebody meanwhile."""

SESSION_TIMEOUT_S: Final = 120.0
"""Of `--once`, where nobody is waited for."""

LINGERS_S: Final = 20.0
"""How long the agent stays for messages when it is done."""

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

    The agent asks for permissions, a choice, a plan and a form, waits for whoever answers, and
    obeys `sessionwire send` and `abort`. A viewer is dropped in the middle of each session and
    comes back; what it was sent is held against the hub's log. With --once a user of the demo's
    own answers, and the exit code says whether all of it held.
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
    _say(f"For a second terminal: {_exports(address)}", "dim")
    while True:
        await _session(address, seed, once)
        if once:
            return
        await anyio.sleep(PAUSE_S)
        seed += 1


def _exports(address: HubAddress) -> str:
    return f"export SESSIONWIRE_URL={address.url} SESSIONWIRE_KEY={address.key}"


async def _session(address: HubAddress, seed: int, once: bool) -> None:
    from sessionwire_server.workload import SimulatedAgent

    start = datetime.now(UTC)
    name = f"demo-{start:%H%M%S}-{seed}"
    _say(f"Session {name}: an agent at work, which asks and obeys.", "bold")
    _say(f"Watch it:  sessionwire tail {name}", "dim")
    _say(f"Steer it:  sessionwire send {name} TEXT, sessionwire abort {name}", "dim")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    transcript = Transcript(lambda text, style: console.print(text, style=style, end=""))
    notes = _Notes(name, transcript, answers=not once)
    agent = Agent(
        address,
        name,
        SimulatedAgent(seed, start, name),
        speed=ONCE_SPEED if once else 1.0,
        asks=notes.asks,
        heard=notes.heard,
    )
    user = User(address, name, notes.say)
    async with async_client(address) as http:
        await _create(http, name)
        viewer = Viewer(http, name, transcript.show)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.run, 0.0 if once else LINGERS_S)
            if once:
                tasks.start_soon(user.run)
            await _drop_and_return(viewer, agent, notes, random.Random(seed), once)
            tasks.cancel_scope.cancel()
        _conclude(await viewer.verdict(), agent.ephemeral + notes.ephemeral)
        if once:
            _conclude_asking(notes, user)


class _Notes:
    """What the demo says between the lines of the transcript.

    Attributes:
        asked, answered: questions, and those whose answer the agent has.
        obeyed: other commands that it obeyed.
        ephemeral: how many of the questions are told to be over by an event that is not kept.
    """

    def __init__(self, session: str, transcript: Transcript, *, answers: bool) -> None:
        self.asked = self.answered = self.obeyed = self.ephemeral = 0
        self._session = session
        self._transcript = transcript
        self._answers = answers

    def say(self, text: str) -> None:
        """Say something of the demo's own, on a line of its own."""
        self._transcript.end()
        _say(f"-- {clean(text)}", "yellow")

    def asks(self, question: Question) -> None:
        """Say what the agent asks, and where nobody does it by itself, how to answer."""
        event = question.opener.event
        asked = asked_in(COPILOT, event, question.request_id)
        self.asked += 1
        what = str(event["type"]) if asked is None else one_line(asked)
        self.say(f"the agent asks, and waits: {what}")
        if self._answers:
            answer = f"sessionwire answer {self._session} {question.request_id}"
            self.say(f"answer it in the console, or by: {answer}")

    def heard(self, command: Command, became: str) -> None:
        """Say what became of a command."""
        self.say(f"the agent heard {command.type}: {became}")
        if command.type != "prompt.answer":
            self.obeyed += 1
            return
        self.answered += 1
        # Of the kinds that it asks, only a permission is told to be over by an event that is kept.
        self.ephemeral += command.data.get("kind") != "permission"


async def _create(http: httpx2.AsyncClient, name: str) -> None:
    try:
        response = await http.post("/v1/sessions", json={"id": name, "catalog": "copilot"})
    except httpx2.HTTPError as exc:
        raise connection_failed(http.base_url, exc) from exc
    if response.status_code != 201:
        raise rejected(response)


async def _drop_and_return(
    viewer: Viewer, agent: Agent, notes: _Notes, chance: random.Random, once: bool
) -> None:
    await viewer.watch(chance.randint(*DROP_AFTER))
    notes.say(f"the viewer is dropped after {len(viewer.seen)} events, at {viewer.cursor}")
    with anyio.move_on_after(AWAY_S):
        await agent.reached(agent.published + chance.randint(*MISSES))

    def told(replayed: Replayed) -> None:
        notes.say(
            f"the viewer is back: {replayed.durable} durable and {replayed.ephemeral} ephemeral"
            " events were replayed"
        )

    await viewer.come_back(told, timeout_s=SESSION_TIMEOUT_S if once else math.inf)


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


def _conclude_asking(notes: _Notes, user: User) -> None:
    """Say what became of the questions.

    Raises:
        CommandFailed: an answer did not reach the agent once, or a message not at all.
    """
    asked = f"The agent asked {notes.asked} times, the user answered {user.answered} prompts"
    if not notes.asked == user.answered == notes.answered or notes.obeyed != 1:
        got = f"{notes.answered} answers and {notes.obeyed} messages reached the agent"
        raise CommandFailed(f"{asked}, but {got}", FAILED)
    _say(f"{asked} twice at a time: each answer reached the agent once.", "green")


def _say(text: str, style: str) -> None:
    Console(highlight=False, markup=False, soft_wrap=True).print(text, style=style)
