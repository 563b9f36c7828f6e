"""Keeps every watched channel fed: one task and one connection to Redis (protocol.md §4.9, ready).

A healthy connection proves nothing, so the feed proves itself: after some silence it publishes to
itself and expects to hear it. After anything that may have lost a message (a new connection, an
unasked unsubscription) it subscribes again and reads the heads; channels that fell short begin
anew, and their viewers pull what they missed. A viewer never learns of it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable

import anyio
from redis.exceptions import RedisError

from sessionwire_schemas.cursor import check_of
from sessionwire_server.channel import Channel
from sessionwire_server.entries import Head
from sessionwire_server.errors import HubError
from sessionwire_server.fan_out import FanOut
from sessionwire_server.feed_connection import FeedConnection, Push
from sessionwire_server.keys import FEED, live_channel, probe_channel
from sessionwire_server.live_message import EpochMessage, LiveBatch, decode
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.redis_link import RedisLink, StoreUnavailable
from sessionwire_server.store import EventStore

__all__ = ["LiveFeed"]

logger = logging.getLogger(__name__)

RETRY_S = (0.05, 2.0)
"""First and last bound of the full-jitter backoff between connections."""
MISSES = 2
"""Probes that may be lost before the connection counts as dead: one may cross a reconnection."""
TICK_S = 1.0
HEADS_PER_READ = 256


class LiveFeed:
    """The subscriptions of this process."""

    def __init__(self, link: RedisLink, store: EventStore, fan_out: FanOut, hub_id: str) -> None:
        self._link = link
        self._store = store
        self._fan_out = fan_out
        self._settings = fan_out.settings
        self._probe = probe_channel(hub_id)
        self._listening = anyio.Event()
        """Redis has confirmed the probe's own channel."""
        self._connection: FeedConnection | None = None
        self._names: dict[bytes, Channel] = {}
        self._confirmed: dict[Channel, anyio.Event] = {}
        self._leaving: dict[bytes, int] = {}
        self._heard_at = float("-inf")
        self._probed_at = float("-inf")
        self._misses = 0
        self._checked_at: dict[Channel, float] = {}
        self._hints: set[str] = set()
        self._hinted = anyio.Event()

    @property
    def proven(self) -> bool:
        """Whether a message came through lately, so that the live path is known to work."""
        if self._connection is None:
            return False
        bound = self._settings.probe_s * (MISSES + 1) + TICK_S
        return anyio.current_time() - self._heard_at <= bound

    def channel(self, sid: str) -> Channel:
        """Give the channel of a session; it is not fed before `confirm` has returned."""
        channel = self._fan_out.channels.get(sid)
        if channel is None:
            channel = self._fan_out.channels[sid] = Channel(sid, self._fan_out)
            channel.idle_since = anyio.current_time()
            self._names[live_channel(sid).encode()] = channel
            self._confirmed[channel] = anyio.Event()
        return channel

    async def confirm(self, channel: Channel) -> None:
        """Wait until Redis has confirmed the subscription of a channel.

        Raises:
            StoreUnavailable: it has not within `redis_timeout_s`.
        """
        confirmed = self._confirmed.get(channel)
        if confirmed is None:
            raise StoreUnavailable("the session's channel was just closed")
        if confirmed.is_set():
            return
        with anyio.move_on_after(self._settings.redis_timeout_s):
            if self._connection is not None:
                await self._ask([channel])
            await confirmed.wait()
            return
        raise StoreUnavailable("Redis has not confirmed the subscription")

    async def _ask(self, channels: Iterable[Channel]) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            await connection.subscribe([live_channel(channel.sid) for channel in channels])
        except (RedisError, OSError) as error:
            # The reading task meets the same fault and reconnects.
            logger.debug("subscribing failed: %r", error)

    async def hints(self) -> set[str]:
        """Wait for hints of the session list, as `u <sid>` or `d <sid>`, and take them."""
        await self._hinted.wait()
        self._hinted = anyio.Event()
        hints, self._hints = self._hints, set()
        return hints

    async def run(self) -> None:
        """Feed the channels for ever, over as many connections as it takes."""
        attempt = 0
        while True:
            try:
                await self._connected()
            except* (HubError, RedisError, OSError, TimeoutError) as lost:
                for error in lost.exceptions:
                    logger.warning("the live feed lost Redis: %r", error)
            attempt = 0 if self._misses == 0 and self._was_heard() else attempt + 1
            bound = min(RETRY_S[0] * 2**attempt, RETRY_S[1])
            await anyio.sleep(random.uniform(0, bound))

    async def _connected(self) -> None:
        connection = FeedConnection(self._link.feed_connection())
        try:
            with anyio.fail_after(self._settings.redis_timeout_s):
                await connection.open()
                await connection.subscribe([FEED], sharded=False)
            await self._feed(connection)
        finally:
            self._connection = None
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await connection.close()

    def _was_heard(self) -> bool:
        return anyio.current_time() - self._heard_at < self._settings.probe_s * MISSES

    async def _feed(self, connection: FeedConnection) -> None:
        self._misses, self._probed_at = 0, float("-inf")
        for channel, confirmed in self._confirmed.items():
            if confirmed.is_set():  # those who still wait keep their event
                self._confirmed[channel] = anyio.Event()
        self._leaving.clear()
        self._listening = anyio.Event()
        self._connection = connection
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_over, connection)
            tasks.start_soon(self._tick, connection)
            while True:
                for push in await connection.read():
                    self._take(push)

    async def _take_over(self, connection: FeedConnection) -> None:
        """Subscribe to everything watched, then find out what was missed."""
        watched = list(self._fan_out.channels.values())
        await connection.subscribe([self._probe, *(live_channel(c.sid) for c in watched)])
        # Probed at once: nobody is to wait for readiness longer than it takes to prove it.
        await self._listening.wait()
        await self._prove(anyio.current_time())
        with anyio.fail_after(self._settings.redis_timeout_s):
            for channel in watched:
                confirmed = self._confirmed.get(channel)
                if confirmed is not None:
                    await confirmed.wait()
                channel.tell(None)
        await self._check(watched, sure=True)

    def _take(self, push: Push) -> None:
        kind, name, payload = push
        if kind == b"smessage":
            self._heard_at, self._misses = anyio.current_time(), 0
            channel = self._names.get(name)
            if channel is not None:
                self._deliver(channel, payload)
        elif kind == b"message":
            self._hints.add(payload.decode())
            self._hinted.set()
        elif kind == b"ssubscribe":
            channel = self._names.get(name)
            if channel is not None:
                self._confirmed[channel].set()
            elif name == self._probe.encode():
                self._listening.set()
        elif kind == b"sunsubscribe":
            self._left(name)

    def _left(self, name: bytes) -> None:
        asked = self._leaving.get(name, 0)
        if asked > 1:
            self._leaving[name] = asked - 1
        elif asked == 1:
            del self._leaving[name]
        elif name in self._names or name == self._probe.encode():
            # Nobody asked: the slot moved. A new connection finds the right node.
            raise OSError(f"Redis ended the subscription of {name.decode()}")

    def _deliver(self, channel: Channel, payload: bytes) -> None:
        self._fan_out.stats.messages += 1
        try:
            message = decode(payload)
        except ValueError as error:
            logger.warning("unreadable live message of %s: %s", channel.sid, error)
            channel.suspect()
            return
        if not isinstance(message, LiveBatch | EpochMessage):
            channel.tell(message)
        elif isinstance(message, EpochMessage):
            if message.deleted:
                self.close(channel)
            else:
                channel.suspect()
        elif channel.epoch and message.epoch != channel.epoch:
            channel.suspect()
        else:
            channel.append(message)

    def close(self, channel: Channel) -> None:
        """End a session's viewers: it was deleted."""
        channel.end()
        channel.tell(None)

    async def _tick(self, connection: FeedConnection) -> None:
        while True:
            await anyio.sleep(TICK_S)
            now = anyio.current_time()
            await self._prove(now)
            await self._release(connection, now)
            suspects = [c for c in self._fan_out.suspects if c.sid in self._fan_out.channels]
            self._fan_out.suspects.clear()
            await self._check(suspects, sure=True)
            await self._check(self._due(now), sure=False)

    async def _prove(self, now: float) -> None:
        """Publish to ourselves when it has been quiet; two misses end the connection."""
        if now - max(self._heard_at, self._probed_at) < self._settings.probe_s:
            return
        if self._probed_at > self._heard_at:
            self._misses += 1
            if self._misses >= MISSES:
                raise OSError("the live path is dead: probes do not come back")
        self._probed_at = now
        try:
            await self._link.spublish(self._probe, b"probe")
        except HubError as error:
            # A probe that could not be sent says nothing about what we hear.
            self._misses = 0
            logger.debug("the probe could not be sent: %s", error)

    async def _release(self, connection: FeedConnection, now: float) -> None:
        bound = now - self._settings.channel_linger_s
        left = [c for c in self._fan_out.channels.values() if c.is_idle_since(bound)]
        for channel in left:
            name = live_channel(channel.sid).encode()
            self._names.pop(name, None)
            # Nobody watches it, but a new connection may be waiting for its confirmation.
            self._confirmed.pop(channel).set()
            self._checked_at.pop(channel, None)
            self._fan_out.forget(channel)
            self._leaving[name] = self._leaving.get(name, 0) + 1
        if left:
            await connection.unsubscribe([live_channel(channel.sid) for channel in left])

    def _due(self, now: float) -> list[Channel]:
        due: list[Channel] = []
        for channel in self._fan_out.channels.values():
            wait = TICK_S if channel.behind_at is not None else self._settings.head_check_s
            if now - self._checked_at.setdefault(channel, now) >= wait:
                due.append(channel)
        return due

    async def _check(self, channels: list[Channel], *, sure: bool) -> None:
        """Read the heads of channels and mend those that differ from ours.

        Args:
            sure: whether a message may not just be on its way: then what we lack is lost. Otherwise
                it is only counted as lost if it has not come by the next tick.
        """
        for at in range(0, len(channels), HEADS_PER_READ):
            batch = channels[at : at + HEADS_PER_READ]
            tips = [channel.tip for channel in batch]
            try:
                heads = await self._store.heads([channel.sid for channel in batch])
            except HubError as error:
                logger.debug("heads could not be read: %s", error)
                self._fan_out.suspects.update(batch if sure else ())
                return
            now = anyio.current_time()
            for channel, before in zip(batch, tips, strict=True):
                self._checked_at[channel] = now
                found = heads.get(channel.sid)
                if found is None:
                    await self._missing(channel)
                elif before is not None:
                    await self._compare(channel, before, *found, sure=sure)

    async def _missing(self, channel: Channel) -> None:
        """A session without state: deleted, or lost. The latter may come back in a new epoch."""
        try:
            await self._store.look(channel.sid)
        except SessionDeleted:
            self.close(channel)
        except HubError as error:
            logger.debug("session %s is missing: %s", channel.sid, error.code)

    async def _compare(
        self, channel: Channel, before: Head, epoch: str, head: Head, *, sure: bool
    ) -> None:
        """Mend a channel.

        Args:
            before: the newest place we had when the head was asked for; what Redis has less of it
                is lost, while what we have heard since then may be newer than its answer.
        """
        if epoch != channel.epoch:
            self._fan_out.stats.resets += 1
            channel.restart(epoch, head)
        elif head.offset < before.offset or await self._differs(channel, before, head, sure=sure):
            await self._renew(channel, head)
        elif channel.tip is not None and head.offset > channel.tip.offset:
            self._fall_short(channel, channel.tip, head, sure=sure)
        else:
            channel.behind_at = None

    async def _differs(self, channel: Channel, before: Head, head: Head, *, sure: bool) -> bool:
        """Whether Redis holds another event than we saw at our newest sequence."""
        if head.sequence == before.sequence:
            return head.check != before.check
        if not sure or before.sequence == 0:
            return False
        outlook = await self._store.look(channel.sid, before.sequence)
        return outlook.id_at is not None and check_of(outlook.id_at) != before.check

    @staticmethod
    def _fall_short(channel: Channel, tip: Head, head: Head, *, sure: bool) -> None:
        if sure or (channel.behind_at is not None and channel.behind_at > tip.offset):
            channel.behind_at = None
            channel.skip_to(head)
        else:
            channel.behind_at = head.offset

    async def _renew(self, channel: Channel, head: Head) -> None:
        """Redis lost writes that viewers have seen: their numbers must not be trusted again."""
        logger.warning("Redis lost writes of session %s: a new epoch begins", channel.sid)
        epoch = await self._store.renew_epoch(channel.sid, channel.epoch, head)
        self._fan_out.stats.resets += 1
        channel.restart(epoch, head)
