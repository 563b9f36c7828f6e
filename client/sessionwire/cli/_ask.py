"""Asking a person at a terminal: shows the whole of a prompt, offers what may be said, reads it.

Owns the conversation; turns what is typed into an answer with `_short_answers`. Sends nothing.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from rich.console import Console
from rich.text import Text

from sessionwire._prompts import PromptRecord
from sessionwire._transcript import clean
from sessionwire.cli._asked import MAX_LINES, Part, cut, parts
from sessionwire.cli._exit import CommandFailed
from sessionwire.cli._short_answers import choices, read_words
from sessionwire.cli._short_copilot import form_of
from sessionwire.cli._short_words import NO, YES, Choice, WordsError
from sessionwire.cli._standing import standing
from sessionwire_schemas.prompts import Asked

__all__ = ["RichTerminal", "Terminal", "ask", "show"]

_LOOKS: Final = {"text": "default", "code": "bold", "diff": "default", "warning": "bold yellow"}

_WITH_REASON: Final = ("permission", "exit_plan_mode")
"""Kinds whose refusal takes a word for the agent along."""


class Terminal(Protocol):
    """Where the person is."""

    def line(self, prompt: str) -> str:
        """Read a line. Raises: EOFError when there are no more."""
        ...

    def secret(self, prompt: str) -> str:
        """Read a line without showing it."""
        ...


class RichTerminal:
    """The terminal this process has."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, prompt: str) -> str:
        """Read a line."""
        return self._console.input(Text(prompt))

    def secret(self, prompt: str) -> str:
        """Read a line without showing it."""
        return getpass.getpass(prompt)


def show(console: Console, record: PromptRecord, asked: Asked, most: int = MAX_LINES) -> int:
    """Show what a prompt asks. Returns: how many lines were left out."""
    head = Text(clean(record.kind), "bold magenta")
    head.append(f"  {clean(record.session_id)} {clean(record.request_id)}", "dim")
    head.append(f"  {', '.join(standing(record))}", "dim")
    if agent := record.members.get("agent_id"):
        head.append(f"  asked by the sub-agent {clean(str(agent))}", "dim")
    console.print(head)
    left_out = 0
    for part in parts(asked):
        text, more = cut(part.text, most)
        left_out += more
        if part.label:
            console.print(Text(part.label, "dim"))
        console.print(_laid_out(part, text))
        if more:
            console.print(Text(f"  … {more} more lines are not shown", "bold yellow"))
    return left_out


def _laid_out(part: Part, text: str) -> Text:
    shown = Text()
    for line in text.splitlines():
        style = _LOOKS[part.look]
        if part.look == "diff":
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], style)
        shown.append(f"  {line}\n", style)
    shown.right_crop()
    return shown


def ask(
    console: Console, record: PromptRecord, asked: Asked, terminal: Terminal, comment: str = ""
) -> Any:
    """Show a prompt and ask until an answer is given.

    Args:
        console: where it is shown.
        record: the prompt.
        asked: what it asks.
        terminal: who is asked.
        comment: a remark that goes along with a refusal.

    Raises:
        CommandFailed: the terminal ended before there was an answer.
    """
    left_out = show(console, record, asked)
    offered = choices(asked)
    for number, choice in enumerate(offered, 1):
        line = Text(f"{number:>3}  ", "dim")
        line.append(clean(choice.word), "bold")
        line.append(f"  {clean(choice.says)}" if choice.says else "")
        console.print(line)
    for word, says in _typed_in(asked):
        console.print(Text(f"     {word}  {says}", "dim"))
    if left_out:
        console.print(Text("     more  shows everything", "dim"))
    try:
        return _until_answered(console, record, asked, terminal, comment, offered)
    except EOFError:
        raise CommandFailed("nothing was answered, the prompt still waits") from None


def _typed_in(asked: Asked) -> Iterator[tuple[str, str]]:
    """Tell what else may be typed."""
    match asked.kind:
        case "mcp_oauth":
            yield "token", "asks for it, unseen"
        case "mcp_headers":
            yield "headers", "asks for one, unseen"
        case "elicitation" if form_of(asked):
            yield "accept", "asks for each field"
        case "user_input" if asked.data.get("allowFreeform") is not False:
            yield "or", "any text"
        case "question" | "external_tool" | "tool":
            yield "or", "any text"
        case "session_limits_exhausted":
            yield "add CREDITS, set CREDITS", ""
        case _:
            pass
    yield "{…}", "an answer as JSON"


def _until_answered(
    console: Console,
    record: PromptRecord,
    asked: Asked,
    terminal: Terminal,
    comment: str,
    offered: list[Choice],
) -> Any:
    while True:
        said = terminal.line("> ").strip()
        if said == "more":
            show(console, record, asked, most=10**9)
            continue
        if not said:
            continue
        if said.isascii() and said.isdigit() and 0 < int(said) <= len(offered):
            said = offered[int(said) - 1].word
        try:
            return _answer(asked, said, terminal, comment)
        except WordsError as error:
            console.print(Text(clean(str(error)), "yellow"))


def _answer(asked: Asked, said: str, terminal: Terminal, comment: str) -> Any:
    """Turn a line into an answer, asking for what it needs."""
    if said.startswith("{"):
        return _json(said)
    secret = _secret(asked, said, terminal)
    if secret is not None:
        return secret
    if asked.kind == "elicitation" and said.casefold() in YES and form_of(asked):
        return read_words(asked, _filled_in(asked, terminal) or ["accept"])
    if asked.kind in _WITH_REASON and said.casefold() in NO and not comment:
        comment = terminal.line("why, for the agent (may be empty): ").strip()
    is_text = asked.kind in ("user_input", "external_tool", "tool", "question")
    return read_words(asked, [said] if is_text and "=" not in said else said.split(), comment)


def _json(said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError as exc:
        raise WordsError(f"that is no JSON: {exc}") from None


def _filled_in(asked: Asked, terminal: Terminal) -> list[str]:
    words: list[str] = []
    for name, field in form_of(asked).items():
        default = field.get("default")
        suggested = "" if default is None else f" [{clean(str(default))}]"
        said = terminal.line(f"{clean(name)}{suggested}: ").strip()
        if field.get("type") == "array":
            words += [f"{name}={item.strip()}" for item in said.split(",") if item.strip()]
        elif said:
            words.append(f"{name}={said}")
    return words


def _secret(asked: Asked, said: str, terminal: Terminal) -> Any:
    """Read credentials, which are not to be seen; None where the line asks for none."""
    if asked.kind == "mcp_oauth" and said == "token":
        return {"kind": "token", "accessToken": _needed(terminal.secret, "token: ")}
    if asked.kind == "mcp_headers" and said == "headers":
        name = _needed(terminal.line, "header: ").strip()
        return {"kind": "headers", "headers": {name: _needed(terminal.secret, f"{name}: ")}}
    return None


def _needed(read: Callable[[str], str], prompt: str) -> str:
    said = read(prompt)
    if not said:
        raise WordsError("nothing was given")
    return said
