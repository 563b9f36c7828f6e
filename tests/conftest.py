"""Fixtures for everything that runs on a real Redis.

`redis_server` lives for the whole run and is shared, so tests use session ids of their own (`sid`).
A test that stops, fills or counts a server takes `own_redis`, which is its alone.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Generator

import pytest

from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.redis_process import RedisProcess


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio, which uvicorn and redis-py stand on."""
    return "asyncio"


@pytest.fixture(scope="session")
def redis_server() -> Generator[RedisProcess]:
    """The server that all tests of a run share."""
    with RedisProcess() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(redis_server: RedisProcess) -> str:
    """Its URL."""
    return redis_server.url


@pytest.fixture
def own_redis() -> Generator[RedisProcess]:
    """A persistent server of the test's own, which it may stop and start."""
    with RedisProcess(persistent=True) as server:
        yield server


@pytest.fixture
def sid() -> str:
    """A session id that no other test uses."""
    return f"session_{secrets.token_hex(16)}"


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """Default settings over the shared server."""
    return Settings(redis_url=redis_url)


@pytest.fixture
async def redis_link(settings: Settings) -> AsyncGenerator[RedisLink]:
    """A link to the shared server."""
    async with RedisLink(settings) as link:
        yield link


@pytest.fixture
async def store(redis_link: RedisLink, settings: Settings) -> EventStore:
    """A store over the shared server; override `settings` to change its limits."""
    return EventStore(redis_link, settings)
