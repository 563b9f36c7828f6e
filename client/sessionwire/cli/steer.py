"""`sessionwire send SESSION TEXT` and `sessionwire abort SESSION`: steer a session's agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sessionwire._commands import FINAL, SentCommand
from sessionwire._http import HubAddress, client
from sessionwire._transcript import clean
from sessionwire.cli._address import Key, Session, Url, find_hub
from sessionwire.cli._exit import FAILED, CommandFailed

__all__ = ["abort", "send"]

Wait = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds to wait for the agent's host; the command outlives them either way."
    ),
]


def send(
    session: Session,
    text: Annotated[str, typer.Argument(help="What to tell the agent.", show_default=False)],
    now: Annotated[
        bool, typer.Option("--now", help="Tell it in the middle of its turn, not after it.")
    ] = False,
    wait: Wait = 30,
    url: Url = "",
    key: Key = "",
) -> None:
    """Send the agent a message and say what becomes of it."""
    data = {"prompt": text, "mode": "immediate" if now else "enqueue"}
    _steer(find_hub(url, key), session, "message.send", data, wait)


def abort(
    session: Session,
    reason: Annotated[str, typer.Option(help="Why.", show_default=False)] = "",
    wait: Wait = 30,
    url: Url = "",
    key: Key = "",
) -> None:
    """Abort the agent's turn and say what becomes of that."""
    _steer(find_hub(url, key), session, "abort", {"reason": reason} if reason else {}, wait)


def _steer(
    address: HubAddress, session: str, command_type: str, data: Mapping[str, Any], wait_s: float
) -> None:
    status = ""
    with client(address) as http:
        command = SentCommand(http, session, command_type, data)
        for status in command.stages(wait_s):
            typer.echo(_said(status, command))
    if status not in FINAL:
        where = "has not said what became of it" if status == "delivered" else "has not read it"
        typer.echo(f"the host {where} within {wait_s:g} s; nothing is lost: {command.id}")
    elif status != "consumed":
        raise CommandFailed(f"the command was {status}", FAILED)


def _said(status: str, command: SentCommand) -> str:
    detail = command.receipt.get("detail")
    return f"{status}: {clean(str(detail))}" if status == "rejected" and detail else status
