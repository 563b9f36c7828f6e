"""A hub says at its start what makes its Redis less than fit (docs/operations.md)."""

from __future__ import annotations

import pytest

from tests.contract.wire import eventually
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


async def test_a_redis_that_keeps_nothing_is_warned_of_at_start(hub: HubProcess) -> None:
    async def is_warned() -> bool:
        return any(
            "WARNING" in line and "appendonly" in line for line in hub.log_text().split("\n")
        )

    await eventually(is_warned, "a warning about appendonly in the hub's log")
