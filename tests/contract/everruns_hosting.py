"""A hub of its own with the example's host behind it, and the official SDK's clients of it.

The SDK is unmodified; it has no `py.typed`, so what it gives is `Any`.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.hub_process import KEY, HubProcess

__all__ = ["HOST", "agent_client", "channel_url", "hosting", "management_client", "sdk", "stored"]

sdk: Any = importlib.import_module("everruns_sdk")

HOST = Path(__file__).parents[2] / "examples" / "everruns_host.py"


@contextmanager
def hosting(hub: HubProcess) -> Generator[subprocess.Popen[bytes]]:
    """Run the example's host behind a hub; it must live until the end."""
    env = {**os.environ, "SESSIONWIRE_URL": hub.url, "SESSIONWIRE_KEY": hub.key, "PACE_S": "0.01"}
    process = subprocess.Popen([sys.executable, HOST], env=env)
    try:
        yield process
        assert process.poll() is None, "the host ended"
    finally:
        process.kill()
        process.wait(10)


def channel_url(hub: HubProcess, channel: str = "demo") -> str:
    """The agent base URL of a channel."""
    return f"{hub.url}/api/v1/channels/{channel}"


@asynccontextmanager
async def agent_client(
    hub: HubProcess, channel: str = "demo", *, key: str = KEY, url: str = ""
) -> AsyncGenerator[Any]:
    """An `AgentClient` of a channel."""
    async with sdk.AgentClient(agent_url=url or channel_url(hub, channel), credential=key) as agent:
        yield agent


@asynccontextmanager
async def management_client(hub: HubProcess, *, key: str = KEY) -> AsyncGenerator[Any]:
    """An `Everruns` client."""
    async with sdk.Everruns(api_key=key, base_url=f"{hub.url}/api") as client:
        yield client


async def stored(client: Any, session: str, *types: str) -> list[Any]:
    """The durable events of a session, of some types."""
    return list(await client.events.list(session, types=list(types)))
