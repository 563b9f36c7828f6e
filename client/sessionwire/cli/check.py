"""`sessionwire check`: the settings in effect, whether Redis is fit, and what of it is mended."""

from __future__ import annotations

import logging
import re
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final, cast
from urllib.parse import quote, urlsplit

import anyio
import typer

from sessionwire.cli._exit import FAILED, UNREACHABLE, CommandFailed
from sessionwire.cli._extra import hub_half
from sessionwire.cli.serve import DataDir, RedisUrl, read_settings

if TYPE_CHECKING:
    from sessionwire_server.fitness import Finding
    from sessionwire_server.repair import Repaired
    from sessionwire_server.settings import Settings

__all__ = ["check"]

MASK: Final = "********"


def check(
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Find sessions, deadlines and open prompts that no list has any more."
        ),
    ] = False,
) -> None:
    """Show the settings that `sessionwire serve` would have, and look at its Redis.

    Fails (1) where a hub would not work on it, (5) where it does not answer; warnings do not fail.
    --repair adds to the lists what is missing there, also while hubs run.
    """
    with hub_half("check"):
        import_module("sessionwire_server.redis_link")
    # What a hub would log is told as a finding or as the one line of an error.
    logging.getLogger("sessionwire_server").addHandler(logging.NullHandler())
    settings = read_settings(redis_url=redis_url, data_dir=data_dir)
    for name, value in shown(settings).items():
        sys.stdout.write(f"{name:<26} {value}\n")
    sys.stdout.write("\n")
    findings = _findings(settings)
    for finding in findings:
        sys.stdout.write(f"{finding.level:<8} {finding.subject}: {finding.detail}\n")
    if any(finding.level == "error" for finding in findings):
        raise CommandFailed("this Redis is not fit for a hub", FAILED)
    if repair:
        sys.stdout.write(f"{_repaired(settings)}\n")


def _repaired(settings: Settings) -> str:
    from sessionwire_server.embedded import EmbeddedError
    from sessionwire_server.errors import HubError

    try:
        done = anyio.run(_repair, settings)
    except EmbeddedError as exc:
        raise CommandFailed(str(exc)) from exc
    except HubError as exc:
        raise CommandFailed(f"repair: {exc.detail}", UNREACHABLE) from exc
    mended = f"{done.listed} were in no list, {done.due} had a deadline that would have passed"
    asked = f"{done.asking} had open prompts that could not be found"
    return f"repaired {done.sessions} sessions: {mended}, {asked}"


async def _repair(settings: Settings) -> Repaired:
    from sessionwire_server.embedded import DataFolderInUse, embedded
    from sessionwire_server.redis_link import RedisLink
    from sessionwire_server.repair import repair

    async with AsyncExitStack() as stack:
        url = settings.redis_url
        if not url:
            try:
                url = await stack.enter_async_context(embedded(settings))
            except DataFolderInUse:
                # A hub runs on it: its server listens there, unless the path was too long.
                socket = settings.data_dir.expanduser().resolve() / "valkey.sock"
                if not socket.exists():
                    raise
                url = f"unix://{quote(str(socket))}"
        link = await stack.enter_async_context(RedisLink(settings, url))
        return await repair(link)


def shown(settings: Settings) -> dict[str, str]:
    """Spell every setting; of secrets only whether they are set."""
    values = {name: _spelled(value) for name, value in settings.model_dump().items()}
    values["key"] = MASK if settings.key else ""
    values["redis_url"] = _masked(settings.redis_url)
    return values


def _spelled(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in cast("tuple[object, ...]", value))
    return "" if value is None else str(value)


def _masked(url: str) -> str:
    """Mask the passwords of a URL: before the host, and in the query, as unix sockets have them."""
    parts = urlsplit(url)
    if parts.password is not None:
        netloc = f"{parts.username or ''}:{MASK}@{parts.netloc.rpartition('@')[2]}"
        url = url.replace(parts.netloc, netloc, 1)
    return re.sub(r"(?i)([?&]\w*password=)[^&]*", rf"\g<1>{MASK}", url)


def _findings(settings: Settings) -> list[Finding]:
    from sessionwire_server.api_keys import ApiKeys, KeysError
    from sessionwire_server.embedded import EmbeddedError, find_server
    from sessionwire_server.errors import HubError
    from sessionwire_server.fitness import Finding

    try:
        ApiKeys.load(settings)
        binary = None if settings.redis_url else find_server()
    except (KeysError, EmbeddedError) as exc:
        raise CommandFailed(str(exc)) from exc
    if binary is not None:
        return [Finding("redis", "ok", f"the hub's own, {binary}, in {settings.data_dir}")]
    try:
        return anyio.run(_look, settings)
    except HubError as exc:
        raise CommandFailed(f"{_masked(settings.redis_url)}: {exc.detail}", UNREACHABLE) from exc
    except ValueError as exc:
        raise CommandFailed(f"--redis-url: {exc}") from exc


async def _look(settings: Settings) -> list[Finding]:
    from sessionwire_server.redis_link import RedisLink

    async with RedisLink(settings) as link:
        return await link.fitness()
