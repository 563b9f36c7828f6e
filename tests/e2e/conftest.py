"""A hub for clients that know nothing of this project."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.contract.events import new_session
from tests.hub_process import HubProcess, running_hub


@pytest.fixture(scope="package")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url, env={"heartbeat_s": 1}) as hub:
        yield hub


@pytest.fixture
def session() -> str:
    return new_session("session")
