"""Two hubs on one Redis for the whole folder; a test that needs other settings starts its own."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.contract.events import new_session
from tests.hub_process import HubProcess, running_hub

HEARTBEAT_S = 1.0


@pytest.fixture(scope="package")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url, env={"heartbeat_s": HEARTBEAT_S}) as hub:
        yield hub


@pytest.fixture(scope="package")
def other_hub(redis_url: str) -> Generator[HubProcess]:
    """A second process on the same Redis."""
    with running_hub(redis_url) as hub:
        yield hub


@pytest.fixture(scope="package")
def short_hub(redis_url: str) -> Generator[HubProcess]:
    """A hub that keeps little: its log and tail are trimmed after a few hundred events."""
    settings = {"log_max_events": 200, "tail_max": 100, "filtered_cursor_every": 10}
    with running_hub(redis_url, env=settings) as hub:
        yield hub


@pytest.fixture
def session() -> str:
    return new_session()
