"""The hub: everything a process holds, started and ended together.

Owns the tasks that run while it lives (the feed, the clock, the sweeper, the session list) in one
task group, and the order in which it drains: streams are told before the server stops waiting.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections import Counter
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Protocol, Self

import anyio

from sessionwire_server.access import Access, Principal
from sessionwire_server.command_store import CommandStore
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.embedded import embedded
from sessionwire_server.errors import HubError
from sessionwire_server.fan_out import FanOut
from sessionwire_server.host_lease import HostLeases
from sessionwire_server.live_feed import LiveFeed
from sessionwire_server.metrics import Metrics
from sessionwire_server.pages import Pages
from sessionwire_server.presence import Attendance
from sessionwire_server.prompt_store import PromptStore
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.session_list import SessionList
from sessionwire_server.settings import Settings
from sessionwire_server.shutdown_signals import told_of_shutdown
from sessionwire_server.state_board import StateBoard
from sessionwire_server.store import EventStore
from sessionwire_server.sweeper import sweep
from sessionwire_server.viewer import EndReason

__all__ = ["Clocked", "Hub"]

logger = logging.getLogger(__name__)

JITTER = 0.2
"""Connections are cycled after `max_connection_s` ± this share of it."""
DRAIN_PER_S = 50
"""Streams ended per second while draining, as long as that fits into `drain_s`: few end at once,
many do not all come back in the same moment."""


_COUNTS = {
    "messages": "Live messages received from Redis.",
    "delivered": "Events handed to viewers' sockets.",
    "writes": "Writes that carried them.",
    "lagged": "Times that a viewer's socket was full.",
    "breaks": "Times that a ring of frames began anew.",
    "pages": "Pages asked for by viewers behind the ring.",
    "gaps": "Gaps told to viewers.",
    "resets": "Epochs that ended under viewers.",
    "slow_closed": "Viewers closed because a write was stuck.",
}


_PROMPT_COUNTS = {
    "opened": "Prompts opened.",
    "answered": "Answers taken.",
    "completed": "Prompts closed with an answer.",
    "expired": "Prompts whose time was over, or whose answer no host fetched.",
    "cancelled": "Prompts cancelled.",
    "orphaned": "Prompts nobody waited for any more.",
    "withdrawn": "Prompts closed without an answer.",
    "rewound": "Prompts rewound.",
    "overruled": "Answers that the host decided otherwise.",
    "lost": "Prompts lost with their records.",
}


class Clocked(Protocol):
    """A stream or connection that ends in time. Times are those of the event loop.

    Attributes:
        deadline, drain_at, expires_at: when it is cycled, is drained, or loses its token.
    """

    deadline: float | None
    drain_at: float | None
    expires_at: float | None

    def end(self, reason: EndReason) -> None:
        """Have it end; returns at once."""
        ...


class Hub:
    """One hub process. `async with Hub(settings) as hub:` runs it.

    Attributes:
        settings, link, store, fan_out, feed, pages, access, metrics: its parts.
        prompts: the prompts of sessions.
        commands, hosts: the commands of sessions, and who reads them.
        presence, states: who watches sessions, and what viewers are told of them.
        session_list: the session list as it changes.
        draining: whether it is about to end; new streams are ended at once.
    """

    link: RedisLink
    store: EventStore
    prompts: PromptStore
    commands: CommandStore
    hosts: HostLeases
    presence: Attendance
    states: StateBoard
    feed: LiveFeed
    pages: Pages
    access: Access
    metrics: Metrics
    session_list: SessionList

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.hub_id = secrets.token_hex(8)
        self.fan_out = FanOut(settings)
        self.draining = False
        self._stack = AsyncExitStack()
        self._streams: set[Clocked] = set()
        self._timed: set[Clocked] = set()
        self._by_session: Counter[str] = Counter()
        self._by_holder: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            url = self.settings.redis_url
            if not url:
                url = await stack.enter_async_context(embedded(self.settings))
            self.link = await stack.enter_async_context(RedisLink(self.settings, url))
            self.store = EventStore(self.link, self.settings)
            self.prompts = self.store.prompts
            deadlines = Deadlines(self.link, self.settings.orphan_after_s)
            deadlines.also_end(self.prompts.end_due)
            self.commands = CommandStore(self.link, self.settings, deadlines, self.prompts.rejected)
            self.hosts = HostLeases(self.link, self.settings, deadlines)
            self.presence = Attendance(self.link, self.settings, self.hub_id)
            self.pages = Pages(self.store, self.settings, self.fan_out.stats)
            self.states = StateBoard(self.prompts, self.presence, self.fan_out)
            self.feed = LiveFeed(self.link, self.store, self.fan_out, self.hub_id)
            self.session_list = SessionList(self.feed, self.link, self.presence)
            self.access = Access(self.settings, self.link)
            self.metrics = self._metrics()
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(self.feed.run)
            tasks.start_soon(self._tick)
            tasks.start_soon(self.session_list.run)
            tasks.start_soon(self.store.run)
            tasks.start_soon(deadlines.run)
            tasks.start_soon(self.presence.run)
            tasks.start_soon(self.states.run)
            tasks.start_soon(sweep, self.store, self.settings)
            tasks.start_soon(self._warn_of_redis)
            stack.enter_context(told_of_shutdown(self.begin_drain))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.begin_drain()
        await self._stack.aclose()

    def redacts(self, reader: Principal) -> bool:
        """Tell whether private members and internal events are held back from somebody."""
        return self.settings.redact and not reader.has("publish")

    def _metrics(self) -> Metrics:
        metrics, stats, fan_out = Metrics(), self.fan_out.stats, self.fan_out
        metrics.gauges["viewers"] = ("Open session streams.", lambda: fan_out.viewers)
        metrics.gauges["channels"] = ("Sessions watched.", lambda: len(fan_out.channels))
        metrics.gauges["live"] = ("Whether the live path is proven.", lambda: self.feed.proven)
        counts = self.prompts.counts
        for name, text in _PROMPT_COUNTS.items():
            metrics.counters[f"prompts_{name}"] = (text, partial(counts.__getitem__, name))
        for name, text in _COUNTS.items():
            metrics.counters[name] = (text, partial(getattr, stats, name))
        return metrics

    @contextmanager
    def admitted(self, sid: str, reader: Principal) -> Generator[None]:
        """Count a stream while it is open.

        Raises:
            HubError: 429 `too_many_viewers` for the session, `too_many_connections` for the token.
        """
        with self.watching(sid, reader), self.connected(reader.id):
            yield

    @contextmanager
    def watching(self, sid: str, reader: Principal) -> Generator[None]:
        """Count a viewer of a session, and whether it may answer there as it comes.

        Raises:
            HubError: 429 `too_many_viewers`.
        """
        if self._by_session[sid] >= self.settings.max_viewers_per_session:
            raise _full("too_many_viewers", "the session has as many viewers as it may")
        can_answer = reader.may("answer", sid)
        with _counted(self._by_session, sid), self.presence.counted(sid, can_answer=can_answer):
            yield

    @contextmanager
    def connected(self, holder: str) -> Generator[None]:
        """Count a connection of a token.

        Raises:
            HubError: 429 `too_many_connections`.
        """
        if self._by_holder[holder] >= self.settings.max_connections_per_token:
            raise _full("too_many_connections", "the token has as many connections as it may")
        with _counted(self._by_holder, holder):
            yield

    def watch_clock(self, stream: Clocked, expires_s: float | None) -> None:
        """Have a stream ended in time: when its token ends, when it is old, when the hub drains."""
        if self.settings.max_connection_s:
            spread = random.uniform(1 - JITTER, 1 + JITTER)
            stream.deadline = anyio.current_time() + self.settings.max_connection_s * spread
        self._streams.add(stream)
        self.renew_clock(stream, expires_s)
        if self.draining:
            stream.end("shutdown")

    def renew_clock(self, stream: Clocked, expires_s: float | None) -> None:
        """Have a stream end when another token ends, None for never."""
        stream.expires_at = None if expires_s is None else anyio.current_time() + expires_s
        if stream.deadline is not None or stream.expires_at is not None:
            self._timed.add(stream)

    def forget_clock(self, stream: Clocked) -> None:
        """Stop watching the time of a stream that is over."""
        self._streams.discard(stream)
        self._timed.discard(stream)

    def begin_drain(self) -> None:
        """Have every stream end, spread over up to `drain_s`; returns at once."""
        if self.draining:
            return
        self.draining = True
        now = asyncio.get_running_loop().time()  # a signal calls this from outside of any task
        spread = min(self.settings.drain_s, len(self._streams) / DRAIN_PER_S)
        logger.info("draining %d streams over %.1f s", len(self._streams), spread)
        for stream in self._streams:
            stream.drain_at = now + random.uniform(0, spread)
            self._timed.add(stream)
        for channel in self.fan_out.channels.values():
            channel.tell(None)  # those who wait for news must not be waited for
        self.session_list.end()

    async def _warn_of_redis(self) -> None:
        """Log what makes this Redis less than fit; `sessionwire check` says the same and more."""
        try:
            found = await self.link.fitness()
        except HubError as error:
            logger.debug("Redis was not looked at: %s", error.code)
            return
        for finding in found:
            if finding.level != "ok":
                logger.warning("Redis, %s: %s", finding.subject, finding.detail)

    async def _tick(self) -> None:
        """One timer for all connections: heartbeats, cycling, expiry, drain."""
        step = min(1.0, self.settings.heartbeat_s / 4, self.settings.max_connection_s / 4 or 1.0)
        while True:
            await anyio.sleep(0.05 if self.draining else step)
            now = anyio.current_time()
            self._beat(now)
            for stream in tuple(self._timed):
                _end_in_time(stream, now)

    def _beat(self, now: float) -> None:
        due = now - self.settings.heartbeat_s
        for channel in self.fan_out.channels.values():
            for audience in channel.audiences.values():
                heartbeat = audience.taste.spelling.heartbeat
                if heartbeat and audience.live and audience.written_at <= due:
                    audience.written_at = now
                    beat = audience.taste.framing(heartbeat)
                    for viewer in audience.write(beat):
                        channel.lag(viewer)


@contextmanager
def _counted(counter: Counter[str], key: str) -> Generator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


def _end_in_time(stream: Clocked, now: float) -> None:
    if stream.drain_at is not None and stream.drain_at <= now:
        stream.end("shutdown")
    elif stream.expires_at is not None and stream.expires_at <= now:
        stream.end("token_expired")
    elif stream.deadline is not None and stream.deadline <= now:
        stream.end("connection_cycle")


def _full(code: str, detail: str) -> HubError:
    retry_after = str(random.randint(5, 15))
    return HubError(429, code, detail, headers={"Retry-After": retry_after})
