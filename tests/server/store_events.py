"""Makes entries and reads stores in the short words that the store's tests use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio

from sessionwire_schemas.catalog import Effects
from sessionwire_schemas.cursor import check_of
from sessionwire_server.entries import Entry, Page, Position, StoredEvent, Verdict
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.store import EventStore

__all__ = ["START", "delta", "durable", "ids", "passing", "pushes", "read_all", "send", "until"]

START = Position(0, 0)


def durable(event_id: str, body: bytes = b"{}", **members: Any) -> Entry:
    """Make a durable event."""
    return _entry(event_id, True, body, members)


def passing(event_id: str, body: bytes = b"{}", **members: Any) -> Entry:
    """Make an ephemeral event."""
    return _entry(event_id, False, body, members)


def delta(event_id: str, message: str, text: str = "x") -> Entry:
    """Make a delta of a message."""
    return passing(event_id, text.encode(), message_key=message)


def _entry(event_id: str, is_durable: bool, body: bytes, members: dict[str, Any]) -> Entry:
    kind = members.pop("type", "assistant.message" if is_durable else "assistant.message_delta")
    check = check_of(event_id)
    effects = {name: members.pop(name) for name in Effects._fields if name in members}
    return Entry(event_id, kind, is_durable, check, body, effects=Effects(**effects), **members)


async def send(store: EventStore, sid: str, *entries: Entry) -> list[Verdict]:
    """Publish to a copilot session, which is made if need be."""
    return await store.publish(sid, "copilot", entries, create=True)


async def read_all(
    store: EventStore,
    sid: str,
    position: Position = START,
    *,
    max_events: int = 512,
    max_bytes: int = 2**20,
) -> tuple[list[StoredEvent], list[Page]]:
    """Read pages until one is not cut short."""
    events: list[StoredEvent] = []
    pages: list[Page] = []
    while True:
        page = await store.page(sid, position, max_events=max_events, max_bytes=max_bytes)
        assert page.position.offset > position.offset or not page.more, "no progress"
        pages.append(page)
        events += page.events
        position = page.position
        if not page.more:
            assert position == page.head[:2]
            return events, pages


@asynccontextmanager
async def pushes(
    link: RedisLink, channel: str, command: str = "SSUBSCRIBE"
) -> AsyncGenerator[Callable[[], Awaitable[bytes]]]:
    """Subscribe to a channel; the function given waits for its next message."""
    connection = cast("Any", link.feed_connection())
    await connection.connect()

    async def next_push() -> bytes:
        with anyio.fail_after(5):
            return bytes((await connection.read_response(push_request=True))[2])

    try:
        await connection.send_command(command, channel)
        await connection.read_response(push_request=True)
        yield next_push
    finally:
        await connection.disconnect(nowait=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something observable in Redis or the system holds."""
    with anyio.fail_after(10):
        while not await condition():  # noqa: ASYNC110 - another process changes it
            await anyio.sleep(0.01)


def ids(events: Iterable[StoredEvent]) -> list[str]:
    """List their ids."""
    return [event.id for event in events]
