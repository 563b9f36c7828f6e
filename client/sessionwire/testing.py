"""A hub for the tests of programs that use one. Needs the extra `embedded`.

It is the real thing: the application that `sessionwire serve` runs, on a loopback port in this
process, over a Valkey of its own in a temporary folder, gone at the end. A fake would promise less
than it seems to: what is worth testing is what a program does with replays, answers and refusals,
and those are the hub's.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from sessionwire import sync
from sessionwire._client import Client

__all__ = ["RunningHub", "hub", "hub_in_thread"]


@dataclass(frozen=True, slots=True)
class RunningHub:
    """A hub that answers.

    Attributes:
        url: its base URL.
        key: a key with every scope, for a person, with secrets.
    """

    url: str
    key: str = field(repr=False)

    def client(self) -> Client:
        """Make a client with the key."""
        return Client(self.url, self.key)

    def sync_client(self) -> sync.Client:
        """Make a blocking client with the key; not for the thread of an event loop."""
        return sync.Client(self.url, self.key)


@asynccontextmanager
async def hub(**settings: Any) -> AsyncGenerator[RunningHub]:
    """Run a hub beside the test, in its event loop (asyncio).

    Args:
        settings: any of `sessionwire_server.settings.Settings`, such as `heartbeat_s`, or
            `redis_url` for a Redis that is there already.

    Raises:
        RuntimeError: there is no Redis or Valkey server to start.
        ModuleNotFoundError: the extra is missing.
    """
    from sessionwire_server.serve import serving
    from sessionwire_server.settings import Settings

    key = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="sessionwire-") as folder:
        given: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": 0,
            "key": key,
            "drain_s": 0.0,
            **settings,
        }
        given.setdefault("data_dir", Path(folder))
        made = Settings(**given)
        async with serving(made) as served:
            yield RunningHub(served.url, made.key)


@contextmanager
def hub_in_thread(**settings: Any) -> Generator[RunningHub]:
    """Run a hub in a thread of its own: for tests without an event loop, and fixtures of a session.

    Arguments and errors are those of `hub`.
    """
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(hub(**settings)) as running,
    ):
        yield running
