"""`sessionwire tail SESSION`: follow a session, for people or as NDJSON."""

from __future__ import annotations

import sys
from typing import Annotated

import anyio
import typer
from rich.console import Console

from sessionwire._follow import Start, Wanted, follow
from sessionwire._http import HubAddress, async_client
from sessionwire._items import Event, Item
from sessionwire._transcript import Transcript
from sessionwire.cli._address import Key, Session, Url, find_hub

__all__ = ["tail"]


def tail(
    session: Session,
    since: Annotated[
        str,
        typer.Option(
            help="Where to begin: `start`, `now`, `-N` (the last N durable events), a sequence, a"
            " cursor or an event's id; else the hub's default, the oldest event.",
            show_default=False,
        ),
    ] = "",
    types: Annotated[
        list[str] | None,
        typer.Option(help="Only these event types; repeat it or separate them by commas."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One event a line, as published.")] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """Follow a session until Ctrl-C, reconnecting and resuming as needed."""
    wanted = Wanted(types=[t for group in types or [] for t in group.split(",") if t])
    anyio.run(_tail, find_hub(url, key), session, _start(since), wanted, json)


def _start(since: str) -> Start:
    if since.isascii() and since.isdigit():
        return Start(after_sequence=int(since))
    if since in ("start", "now") or (since.startswith("-") and since[1:].isdigit()):
        return Start(from_=since)
    return Start(since_id=since)


async def _tail(
    address: HubAddress, session: str, start: Start, wanted: Wanted, as_json: bool
) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)

    def write(text: str, style: str) -> None:
        console.print(text, style=style, end="")

    transcript = Transcript(write)
    async with (
        async_client(address) as http,
        follow(http, session, start=start, wanted=wanted, connect_retries=0) as items,
    ):
        try:
            async for item in items:
                _write_json(item) if as_json else transcript.show(item)
        finally:
            transcript.end()


def _write_json(item: Item) -> None:
    if isinstance(item, Event):
        sys.stdout.write(f"{item.body}\n")
        sys.stdout.flush()
