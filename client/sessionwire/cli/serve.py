"""`sessionwire serve`: run a hub."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessionwire.cli._exit import FAILED, USAGE, CommandFailed
from sessionwire.cli._extra import hub_half

if TYPE_CHECKING:
    from sessionwire_server.serve import ServedHub
    from sessionwire_server.settings import Settings

__all__ = ["DataDir", "RedisUrl", "read_settings", "serve"]

RedisUrl = Annotated[
    str | None,
    typer.Option(help="Redis 7.0 or newer, or Valkey; without it the hub runs its own."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where the hub's own database and hub.json are kept.", show_default=False),
]


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one.", show_default="8787")
    ] = None,
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
    keys: Annotated[
        Path | None, typer.Option(help="JSON list of {key, scopes, sessions, human?, …}.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="One key with all scopes; better in SESSIONWIRE_KEY than here."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="Origin of pages that may use the hub; repeatable."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the port.", show_default="1")
    ] = None,
) -> None:
    """Run a hub until SIGTERM or Ctrl-C; a second one ends it at once.

    Every option may also be a variable: --redis-url is SESSIONWIRE_REDIS_URL, and so on. Without
    keys it listens on this machine alone and makes a key for the run.
    """
    with hub_half("serve"):
        from sessionwire_server.embedded import EmbeddedError
        from sessionwire_server.http_server import CannotStart
        from sessionwire_server.serve import serve as run_hub
    settings = read_settings(
        host=host,
        port=port,
        redis_url=redis_url,
        data_dir=data_dir,
        keys_file=keys,
        key=key,
        allow_origins=allow_origin or None,
        workers=workers,
    )
    try:
        in_its_own_time = run_hub(settings, _announce)
    except ValueError as exc:
        raise CommandFailed(str(exc), USAGE) from exc
    except (CannotStart, EmbeddedError, OSError) as exc:
        raise CommandFailed(str(exc), FAILED) from exc
    if not in_its_own_time:
        raise CommandFailed("ended by a second signal, streams were cut", FAILED)


def read_settings(**given: Any) -> Settings:
    """Build the settings from options and environment.

    Raises:
        CommandFailed: a value does not fit; names the option's setting, never a secret's value.
    """
    with hub_half("serve"):
        from pydantic import ValidationError

        from sessionwire_server.settings import Settings
    try:
        return Settings.from_env(**given)
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        raise CommandFailed(f"setting {name}: {fault['msg']}", USAGE) from None


def _announce(served: ServedHub) -> None:
    where = f"Console: {served.console_url}" if sys.stdout.isatty() else f"Serving {served.url}"
    sys.stdout.write(f"{where}\n")
    sys.stdout.flush()
