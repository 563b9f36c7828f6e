"""Fixtures of the fault tests: a Redis for each module, and what its hubs are told."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.contract.events import new_session
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess


@pytest.fixture
def session() -> str:
    return new_session()


@pytest.fixture(scope="module")
def redis() -> Generator[RedisProcess]:
    """A server that keeps its data over a restart, for the tests of one module."""
    with RedisProcess(persistent=True) as server:
        yield server


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    """Settings of the module's hubs; modules override it."""
    return {}


@pytest.fixture(scope="module")
def hub(redis: RedisProcess, settings: dict[str, object]) -> Generator[HubProcess]:
    with running_hub(redis.url, env=settings) as hub:
        yield hub


@pytest.fixture(scope="module")
def other(redis: RedisProcess, settings: dict[str, object]) -> Generator[HubProcess]:
    """A second process on the same Redis."""
    with running_hub(redis.url, env=settings) as hub:
        yield hub
