"""`sessionwire answer SESSION REQUEST [ANSWER]`: answer a prompt, or be asked for the answer."""

from __future__ import annotations

import json as jsonlib
import sys
import uuid
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console

from sessionwire import _prompts
from sessionwire._http import HubAddress, async_client
from sessionwire._prompts import PromptRecord
from sessionwire._transcript import clean
from sessionwire.cli._address import Key, Session, Url, find_hub
from sessionwire.cli._ask import RichTerminal, ask
from sessionwire.cli._exit import CONFLICT, USAGE, CommandFailed
from sessionwire.cli._short_answers import hint, read_words
from sessionwire.cli._short_words import WordsError
from sessionwire.cli._standing import answered_how, claimed_how, how_it_ended
from sessionwire.errors import Conflict, Gone, InvalidRequest
from sessionwire_schemas.prompts import Asked

__all__ = ["answer"]

MAX_JSON_CHARS = 1024 * 1024
"""The hub takes no larger body."""


def answer(
    session: Session,
    request: Annotated[str, typer.Argument(help="The prompt's request id.", show_default=False)],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ANSWER",
            help="approve, reject, a text, FIELD=VALUE …; left out, you are asked.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="ANSWER",
            help="The answer itself, as JSON; `-` reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    comment: Annotated[
        str, typer.Option(help="A remark; a refusal tells it to the agent.", show_default=False)
    ] = "",
    claim: Annotated[
        str, typer.Option(help="The claim that it is given under.", show_default=False)
    ] = "",
    url: Url = "",
    key: Key = "",
) -> None:
    """Answer a prompt; the first answer wins.

    Exits with 3 where the key may not or there is no such prompt, with 4 where somebody else was
    first, has claimed it, or it has ended.
    """
    if words and json is not None:
        raise CommandFailed("an ANSWER and --json are two answers", USAGE)
    address = find_hub(url, key)
    sending = _Sending(address, session, request, comment, claim)
    if json is not None:
        done = sending.send(_parsed(json))
    else:
        record = sending.look()
        asked = _asked(record)
        done = _spoken(sending, asked, words) if words else _dialog(sending, record, asked)
    typer.echo(_outcome(done))


def _spoken(sending: _Sending, asked: Asked, words: list[str]) -> PromptRecord:
    try:
        return sending.send(read_words(asked, words, sending.comment))
    except WordsError as exc:
        raise CommandFailed(clean(str(exc)), USAGE) from exc


def _dialog(sending: _Sending, record: PromptRecord, asked: Asked) -> PromptRecord:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandFailed(
            f"no answer was given, and there is no terminal to ask at; say {clean(hint(asked))}",
            USAGE,
        )
    console = Console(highlight=False, markup=False, soft_wrap=True)
    terminal = RichTerminal(console)
    while True:
        given = ask(console, record, asked, terminal, sending.comment)
        try:
            return sending.send(given)
        except InvalidRequest as exc:
            if exc.status != 422:
                raise
            console.print(clean(exc.detail), style="yellow")


class _Sending:
    """One prompt that is being answered, each answer under a key of its own."""

    def __init__(
        self, address: HubAddress, session: str, request: str, comment: str, claim: str
    ) -> None:
        self.comment = comment
        self._address = address
        self._session = session
        self._request = request
        self._claim = claim

    def look(self) -> PromptRecord:
        """Look at the prompt.

        Raises:
            CommandFailed: it takes no answer any more.
            HubError: there is none, or the hub does not say.
        """
        record = anyio.run(self._looked)
        if not record.waits:
            raise CommandFailed(how_it_ended(record.status, record.members), CONFLICT)
        return record

    async def _looked(self) -> PromptRecord:
        async with async_client(self._address) as http:
            return await _prompts.prompt(http, self._session, self._request)

    def send(self, given: Any) -> PromptRecord:
        """Answer it.

        Raises:
            CommandFailed: another answer was first, it is claimed, or it has ended.
            HubError: the hub refuses otherwise, or is away.
        """
        try:
            return anyio.run(self._sent, given, uuid.uuid4().hex)
        except Conflict as exc:
            if exc.code == "prompt_already_answered":
                raise CommandFailed(f"already {answered_how(exc.extra)}", CONFLICT) from exc
            if exc.code == "prompt_claimed":
                raise CommandFailed(claimed_how(exc.extra), CONFLICT) from exc
            raise
        except Gone as exc:
            raise CommandFailed(how_it_ended(exc.code, exc.extra), CONFLICT) from exc

    async def _sent(self, given: Any, key: str) -> PromptRecord:
        async with async_client(self._address) as http:
            return await _prompts.answer(
                http,
                self._session,
                self._request,
                given,
                comment=self.comment,
                claim_id=self._claim,
                key=key,
            )


def _asked(record: PromptRecord) -> Asked:
    asked = record.asked()
    if asked is None:
        raise CommandFailed(f"what a {clean(record.kind)!r} asks is not known here: use --json")
    return asked


def _parsed(text: str) -> Any:
    given = sys.stdin.read(MAX_JSON_CHARS) if text == "-" else text
    try:
        return jsonlib.loads(given)
    except (ValueError, RecursionError) as exc:
        # Never the text itself: it may be a credential.
        raise CommandFailed(f"--json holds no JSON: {exc}", USAGE) from exc


def _outcome(record: PromptRecord) -> str:
    if record.status == "answered":
        return "answered; its host has yet to close it"
    return f"answered, {clean(record.status)}"
