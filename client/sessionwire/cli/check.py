"""`sessionwire check`: the settings in effect, and whether Redis is fit."""

from __future__ import annotations

import logging
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import anyio

from sessionwire.cli._exit import FAILED, UNREACHABLE, CommandFailed
from sessionwire.cli._extra import hub_half
from sessionwire.cli.serve import DataDir, RedisUrl, read_settings

if TYPE_CHECKING:
    from sessionwire_server.fitness import Finding
    from sessionwire_server.settings import Settings

__all__ = ["check"]

MASK: Final = "********"


def check(redis_url: RedisUrl = None, data_dir: DataDir = None) -> None:
    """Show the settings that `sessionwire serve` would have, and look at its Redis.

    Fails (1) where a hub would not work on it, (5) where it does not answer; warnings do not fail.
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
