"""The blocking face, and the hub for tests: the same objects, from a thread without a loop."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import pytest

from sessionwire import Event, sync
from sessionwire.errors import InvalidRequest, NotFound
from sessionwire.testing import RunningHub, hub, hub_in_thread
from tests.client.sdk import external_tool, message, permission

ONCE = {"kind": "approve-once"}


@pytest.fixture(scope="module")
def running(redis_url: str) -> Generator[RunningHub]:
    with hub_in_thread(redis_url=redis_url) as running:
        yield running


@pytest.fixture
def session(running: RunningHub, sid: str) -> Generator[sync.Session]:
    with running.sync_client() as client, client.session(sid, catalog="copilot") as session:
        session.create(title="a title")
        yield session


def test_a_session_is_published_to_and_followed(session: sync.Session) -> None:
    first = session.publish(message(1))
    more = session.publish([message(2), message(3)])
    with session.publisher() as publisher:
        sent = publisher.send(message(4))
        assert sent.stored(timeout_s=10).sequence == 4
        publisher.flush()
    assert (publisher.stored, publisher.duplicates, publisher.refused) == (1, 0, 0)
    with session.follow() as events:
        found = [events.get(timeout_s=10) for _ in range(4)]
        with pytest.raises(TimeoutError):
            events.get(timeout_s=0.1)
        session.publish(message(5))
        assert next(events).data.content == "5"
        events.switch("sse")
        session.publish(message(6))
        assert next(events).data.content == "6"
        assert events.transport == "sse"
    assert [event.cursor for event in found][:3] == [first.cursor, *(each.cursor for each in more)]
    assert list(events) == []
    assert session.info()["title"] == "a title"
    assert len(session.events(limit=2)["data"]) == 2


def test_everything_that_a_hub_tells_can_be_watched(session: sync.Session) -> None:
    session.publish(message(1))
    with session.watch() as items:
        while not isinstance(item := items.get(timeout_s=10), Event):
            pass
    assert item.data.content == "1"


def test_errors_are_the_same(session: sync.Session) -> None:
    with pytest.raises(InvalidRequest) as caught:
        session.publish({"type": "no type!", "data": {}})
    assert caught.value.code == "invalid_type"
    with pytest.raises(NotFound):
        session.prompt("unknown")


def test_the_agent_is_steered_and_asks(session: sync.Session) -> None:
    threads: set[int] = set()

    @session.on_permission
    def decide(prompt: sync.Prompt) -> Any:
        threads.add(threading.get_ident())
        assert prompt.asked["requestId"] == prompt.request_id
        return ONCE

    with session.host(host_id="me") as host:
        receipt = session.send("hello", now=True)
        commands = host.commands()
        command = commands.get(timeout_s=10)
        assert command.data["prompt"] == "hello"
        receipt.delivered(timeout_s=10)
        host.acknowledge(command, event_id="e1")
        assert receipt.consumed(timeout_s=10).event_id == "e1"
        assert host.lease > 0
        assert host.ask(permission("r1"), timeout_s=10).value == ONCE
        with pytest.raises(TimeoutError):
            host.ask(external_tool("r2"), timeout_s=0.3)
        with session.prompts("external_tool") as prompts:
            prompt = prompts.get(timeout_s=10)
            with prompt.claim():
                prompt.answer({"result": "done"})
        assert prompt.closed(timeout_s=10).answer == {"result": "done"}
    assert threads
    assert threading.get_ident() not in threads


def test_nothing_runs_on_when_the_client_is_closed(running: RunningHub, sid: str) -> None:
    before = set(threading.enumerate())
    with running.sync_client() as client, client.session(sid) as session:
        session.publish({**message(1), "timestamp": "2026-01-01T00:00:00Z"})
        session.follow().get(timeout_s=10)
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before


@pytest.mark.anyio
async def test_a_hub_for_tests_brings_its_own_server() -> None:
    async with (
        hub(heartbeat_s=1) as running,
        running.client() as client,
        client.session("s", catalog="copilot") as session,
    ):
        await session.publish(message(1))
        event = await anext(session.follow())
    assert event.data.content == "1"
    assert running.key not in repr(running)
