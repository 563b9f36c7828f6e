"""What a client command talks to: which hub, by `--url` and `--key`, the environment or `hub.json`,
and which session."""

from __future__ import annotations

import re
from typing import Annotated, Final

import httpx2
import typer

from sessionwire._http import HubAddress
from sessionwire._hub_file import default_data_dir, read_hub_file
from sessionwire.cli._exit import USAGE, CommandFailed
from sessionwire_schemas.names import SESSION_ID_PATTERN

__all__ = ["Key", "Session", "Url", "check_session_id", "find_hub"]

_KEY: Final = re.compile(r"[!-~]*")


def check_session_id(text: str) -> str:
    """Check a session id.

    Raises:
        typer.BadParameter: it is no session id.
    """
    # Asked for at the hub, `sse` would be the list of sessions, which never ends.
    if not SESSION_ID_PATTERN.fullmatch(text) or text == "sse":
        raise typer.BadParameter(f"{text!r} is no session id: 1 to 128 of A-Z a-z 0-9 _ -")
    return text


Session = Annotated[
    str, typer.Argument(help="The session's id.", show_default=False, callback=check_session_id)
]

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="SESSIONWIRE_URL",
        help="The hub's URL; else the one that runs on this machine.",
        show_default=False,
    ),
]
Key = Annotated[
    str,
    typer.Option(
        "--key",
        envvar="SESSIONWIRE_KEY",
        help="A key of the hub; better in SESSIONWIRE_KEY, where no process list shows it.",
        show_default=False,
    ),
]


def find_hub(url: str, key: str) -> HubAddress:
    """Complete what was given from `hub.json` of the default data folder.

    The key in that file is sent to the hub that wrote it and to no other.

    Raises:
        CommandFailed: no URL was given and no hub runs here, or the URL or the key is none.
    """
    local = read_hub_file(default_data_dir())
    if not url and local is None:
        raise CommandFailed(
            "no hub is known: start one with `sessionwire serve`, or give --url and --key"
            " (SESSIONWIRE_URL, SESSIONWIRE_KEY)",
            USAGE,
        )
    if local is not None and (not url or url.rstrip("/") == local.url):
        url, key = local.url, key or local.key
    _check(url)
    if not _KEY.fullmatch(key):
        # Never the key itself: errors are shown and logged.
        raise CommandFailed(
            "--key holds a character that no key has: space, control, or not ASCII", USAGE
        )
    return HubAddress(url.rstrip("/"), key)


def _check(url: str) -> None:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as exc:
        raise CommandFailed(f"--url {url!r} is no URL: {exc}", USAGE) from exc
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CommandFailed(f"--url {url!r} is no http:// or https:// URL", USAGE)
