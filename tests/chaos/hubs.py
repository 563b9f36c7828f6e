"""Hubs, publishers and viewers for fault tests, without blocking the loop that a proxy runs in."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import anyio
import anyio.to_thread
from redis.asyncio import Redis

from tests.contract.events import Event, Reading, note
from tests.contract.wire import EventStream, Frame, Server, open_stream, request
from tests.hub_process import HubProcess, running_hub

__all__ = ["Publisher", "Watcher", "admin", "hub_on"]


@asynccontextmanager
async def hub_on(
    redis_url: str, settings: Mapping[str, object] | None = None, *, wait_ready: bool = True
) -> AsyncGenerator[HubProcess]:
    """`running_hub` with settings by name, started and ended in a thread."""
    manager = running_hub(redis_url, env=settings, wait_ready=wait_ready)
    hub = await anyio.to_thread.run_sync(manager.__enter__)
    end = partial(anyio.to_thread.run_sync, abandon_on_cancel=False)
    try:
        yield hub
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await end(partial(manager.__exit__, type(error), error, error.__traceback__))
        raise
    with anyio.CancelScope(shield=True):
        await end(partial(manager.__exit__, None, None, None))


async def admin(url: str, *words: object, decode: bool = True) -> Any:
    """Send one command to a Redis."""
    client = cast("Any", Redis).from_url(url, decode_responses=decode)
    try:
        return await client.execute_command(*words)
    finally:
        await client.aclose()


@dataclass
class Publisher:
    """Publishes numbered events, each until it is stored: what a careful producer does.

    Attributes:
        ids: ids of the events stored, in order.
        refusals: status and code of every refused try; retry_after: its Retry-After.
        duplicates: events that were stored by an earlier try.
    """

    server: Server
    session: str
    ids: list[str] = field(default_factory=list[str])
    refusals: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    retry_after: list[str] = field(default_factory=list[str])
    duplicates: int = 0

    async def one(self, event: Event | None = None) -> None:
        """Store one event, trying again until it is there."""
        await self.batch([event or note(str(len(self.ids)))])

    async def batch(self, events: list[Event]) -> None:
        body = json.dumps(events).encode()
        with anyio.fail_after(60):
            while True:
                try:
                    verdicts = await self._try(body)
                except (OSError, EOFError):
                    verdicts = None
                if verdicts is not None:
                    break
                await anyio.sleep(0.1)
        self.duplicates += sum(verdict["duplicate"] for verdict in verdicts)
        self.ids += [str(verdict["id"]) for verdict in verdicts if verdict["sequence"] is not None]

    async def _try(self, body: bytes) -> list[Any] | None:
        path = f"/v1/sessions/{self.session}/events"
        answer = await request(self.server, "POST", path, body=body)
        if answer.status == 200:
            verdicts: list[Any] = answer.json()["data"]
            return verdicts
        self.refusals.append((answer.status, answer.code))
        self.retry_after.append(answer.headers.get("retry-after", ""))
        return None


class Watcher:
    """A viewer that stays on one connection and checks continuity as it reads.

    async with Watcher(hub, session) as watcher: …; await watcher.sees(ids)
    """

    def __init__(self, server: Server, session: str, query: str = "") -> None:
        self.path = f"/v1/sessions/{session}/sse?{query}"
        self.server = server
        self.frames: list[Frame] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.stream: EventStream = await self._stack.enter_async_context(
            open_stream(self.server, self.path)
        )
        self.connected = await self.stream.next()
        self.reading = Reading(self.connected)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def sees(self, ids: list[str], *, timeout: float = 20) -> None:
        """Read until the last of `ids` is there; then everything must be, once and in order."""
        with anyio.fail_after(timeout):
            while not self.reading.durable or self.reading.durable[-1] != ids[-1]:
                frame = await self.stream.next(timeout=timeout)
                self.frames.append(frame)
                self.reading.take([frame])
        assert self.reading.durable == ids

    async def sees_frame(self, name: str, *, timeout: float = 20) -> Frame:
        """Read up to the hub's own frame `name`."""
        frames = await self.stream.until(name, timeout=timeout)
        self.frames += frames
        self.reading.take(frames[:-1])
        return frames[-1]
