"""Running a hub: key, socket, its own Redis, server or workers, and `hub.json` (protocol.md §10).

Owns the order in which they start and end; each of them is in its own module.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
from redis.asyncio.connection import parse_url

from sessionwire_server.api_keys import ApiKeys, must_make_key
from sessionwire_server.embedded import embedded
from sessionwire_server.event_loop import run
from sessionwire_server.http_server import HttpServer
from sessionwire_server.hub_file import hub_file
from sessionwire_server.listener import bind, url_of
from sessionwire_server.origins import Origins
from sessionwire_server.server_log import configure_log, expect_broken_requests
from sessionwire_server.settings import Settings
from sessionwire_server.stop_signals import stop_signals
from sessionwire_server.workers import run_workers

__all__ = ["ServedHub", "serve", "serving"]


@dataclass(frozen=True, slots=True)
class ServedHub:
    """A hub that answers. `made_key` is the key of this run, empty where keys are configured."""

    url: str
    made_key: str

    @property
    def console_url(self) -> str:
        """The console's link. A fragment never reaches a server or its log."""
        return f"{self.url}/#key={self.made_key}" if self.made_key else f"{self.url}/"


def _checked(settings: Settings) -> tuple[Settings, str]:
    """Check what can be checked before anything is started; make a key where none is set.

    Returns: the settings to serve with, and the key if it was made.

    Raises:
        ValueError: a key, an origin or the Redis URL is wrong, or no key is set and the hub would
            listen beyond this machine.
    """
    Origins(settings.allow_origins)
    if settings.redis_url:
        parse_url(settings.redis_url)
    made = secrets.token_urlsafe(32) if must_make_key(settings) else ""
    if made:
        settings = settings.model_copy(update={"key": made})
    ApiKeys.load(settings)
    return settings, made


def serve(settings: Settings, announce: Callable[[ServedHub], None]) -> bool:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        announce: called once requests are answered.

    Returns: whether it ended in its own time; False after a second signal.

    Raises:
        ValueError: keys, origins or the Redis URL are wrong.
        OSError: the address cannot be listened on, or the data folder not written.
        CannotStart: the application did not start.
    """
    settings, made_key = _checked(settings)
    configure_log()
    with bind(settings.host, settings.port) as listener:
        served = ServedHub(url_of(listener), made_key)
        return run(partial(_serve, settings, listener, served, announce))


async def _serve(
    settings: Settings,
    listener: socket.socket,
    served: ServedHub,
    announce: Callable[[ServedHub], None],
) -> bool:
    async with stop_signals(expect_broken_requests) as stop, AsyncExitStack() as stack:
        settings = await _with_redis(settings, stack)

        def started() -> None:
            stack.enter_context(hub_file(settings.data_dir, served.url, served.made_key))
            announce(served)

        if settings.workers > 1:
            await run_workers(settings, listener, stop.asked, started)
        else:
            server = HttpServer(settings, started=started)
            await server.serve_until(stop.asked, listener)
    return not stop.forced


async def _with_redis(settings: Settings, stack: AsyncExitStack) -> Settings:
    """Start a Redis of our own where no URL is given; it ends with the stack."""
    if settings.redis_url:
        return settings
    url = await stack.enter_async_context(embedded(settings))
    return settings.model_copy(update={"redis_url": url})


@asynccontextmanager
async def serving(settings: Settings) -> AsyncGenerator[ServedHub]:
    """Serve in this process, beside other work of its event loop, and drain at the end.

    Takes no signals and configures no log. Raises what `serve` raises.
    """
    settings, made_key = _checked(settings)
    ready, asked = anyio.Event(), anyio.Event()
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(bind(settings.host, settings.port))
        settings = await _with_redis(settings, stack)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        server = HttpServer(settings, started=ready.set)
        tasks.start_soon(server.serve_until, asked, listener)
        await ready.wait()
        try:
            served = ServedHub(url_of(listener), made_key)
            with hub_file(settings.data_dir, served.url, served.made_key):
                yield served
        finally:
            asked.set()
