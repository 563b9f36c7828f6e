"""A hub for pages, and for clients that know nothing of this project."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import pytest
from playwright.async_api import Browser

from tests.chromium import headless
from tests.contract.events import new_session
from tests.hub_process import HubProcess, running_hub


@pytest.fixture(scope="package")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url, env={"heartbeat_s": 1}) as hub:
        yield hub


@pytest.fixture(scope="package")
async def browser() -> AsyncGenerator[Browser]:
    """One browser for all pages; each test has a profile of its own in it."""
    async with headless() as running:
        yield running


@pytest.fixture
def session() -> str:
    return new_session("session")
