"""`sessionwire prompts [SESSION]`: what waits for an answer, once or as it changes."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated, Final, TypeAlias

import anyio
import httpx2
import typer
from rich.console import Console
from rich.text import Text

from sessionwire import _prompts
from sessionwire._http import HubAddress, async_client
from sessionwire._prompts import PromptRecord, watch_prompts
from sessionwire._transcript import clean
from sessionwire.cli._address import Key, Url, check_session_id, find_hub
from sessionwire.cli._exit import USAGE, CommandFailed
from sessionwire.cli._standing import asks, standing
from sessionwire.errors import RequestRejected

__all__ = ["prompts"]


def _one_session(text: str) -> str:
    return check_session_id(text) if text else ""


Session = Annotated[
    str, typer.Argument(help="Only of this session.", show_default=False, callback=_one_session)
]

_Show: TypeAlias = Callable[[PromptRecord], None]

_STYLES: Final = {"pending": "yellow", "claimed": "cyan", "answered": "green", "completed": "green"}


def prompts(
    session: Session = "",
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and tell what changes.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="The closed ones of the session too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One prompt a line.")] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """List what waits for an answer, in one session or in every one, the oldest first."""
    if all_ and (watch or not session):
        raise CommandFailed("--all goes with a SESSION, and not with --watch", USAGE)
    address = find_hub(url, key)
    show = _shown_as_json if json else partial(_shown, Console(highlight=False, soft_wrap=True))
    anyio.run(_watch if watch else _list, address, session, all_, show)


async def _list(address: HubAddress, session: str, closed_too: bool, show: _Show) -> None:
    statuses = _prompts.STATUSES if closed_too else ()
    async with (
        async_client(address) as http,
        aclosing(_prompts.prompts(http, session, statuses=statuses)) as found,
    ):
        async for one in found:
            show(one)


async def _watch(address: HubAddress, session: str, _: bool, show: _Show) -> None:
    """Show every prompt as it is, and again whenever it has changed, at last how it ended."""
    before: dict[tuple[str, str], PromptRecord] = {}
    async with (
        async_client(address) as http,
        aclosing(watch_prompts(http, session)) as lists,
    ):
        async for found in lists:
            now = {(one.session_id, one.request_id): one for one in found}
            for place, one in before.items():
                if place not in now:
                    show(await _ended(http, one))
            for place, one in now.items():
                if before.get(place) != one:
                    show(one)
            before = now


async def _ended(http: httpx2.AsyncClient, one: PromptRecord) -> PromptRecord:
    """Look up how a prompt ended; where its record is gone too, it stays as it was known."""
    try:
        return await _prompts.prompt(http, one.session_id, one.request_id)
    except RequestRejected:
        return one


def _shown_as_json(one: PromptRecord) -> None:
    sys.stdout.write(f"{jsonlib.dumps(one.members, ensure_ascii=False)}\n")
    sys.stdout.flush()


def _shown(console: Console, one: PromptRecord) -> None:
    """Write two lines: which prompt and how it stands, and what is asked."""
    line = Text()
    line.append(f"{clean(one.session_id)} {clean(one.request_id)}", "bold")
    line.append(f"  {clean(one.kind)}", "magenta")
    line.append(f"  {', '.join(standing(one))}", _STYLES.get(one.status, "dim"))
    console.print(line)
    if what := asks(one):
        console.print(Text(f"    {what}"))
