"""The command line: `sessionwire …`.

Owns the table of commands and how a run ends: exit code and one line on stderr. What a command does
is in its module; the hub's half is loaded only by the commands that run it.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from sessionwire import __version__
from sessionwire.cli._exit import describe, exit_code
from sessionwire.cli.answer import answer
from sessionwire.cli.check import check
from sessionwire.cli.demo import demo
from sessionwire.cli.export import export
from sessionwire.cli.prompts import prompts
from sessionwire.cli.publish import publish
from sessionwire.cli.serve import serve
from sessionwire.cli.sessions import sessions
from sessionwire.cli.steer import abort, send
from sessionwire.cli.tail import tail

__all__ = ["app", "main"]

app = typer.Typer(
    name="sessionwire",
    help="The event bus for AI agent sessions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for command in (serve, demo, check, publish, tail, export, sessions, prompts, answer, send, abort):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sessionwire {__version__}")
        raise typer.Exit


@app.callback()
def about(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Publish, follow and serve the sessions of AI agents."""


def main() -> None:
    """Run the command line and exit: 0, 1 failed, 2 usage, 3 refused, 4 conflict, 5 unreachable.

    130 after Ctrl-C, as a shell says it.
    """
    try:
        code = typer.main.get_command(app).main(prog_name="sessionwire", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        known = exit_code(error)
        if known is None:
            raise
        sys.stderr.write(f"sessionwire: {describe(error)}\n")
        code = known
    sys.exit(code if isinstance(code, int) else 0)
