"""Which hub a client command talks to: `--url` and `--key`, the environment, or `hub.json`."""

from __future__ import annotations

from typing import Annotated

import httpx2
import typer

from sessionwire._http import HubAddress
from sessionwire._hub_file import default_data_dir, read_hub_file
from sessionwire.cli._exit import USAGE, CommandFailed

__all__ = ["Key", "Url", "find_hub"]

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
        CommandFailed: no URL was given and no hub runs here, or the URL is none.
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
    return HubAddress(url.rstrip("/"), key)


def _check(url: str) -> None:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as exc:
        raise CommandFailed(f"--url {url!r} is no URL: {exc}", USAGE) from exc
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CommandFailed(f"--url {url!r} is no http:// or https:// URL", USAGE)
