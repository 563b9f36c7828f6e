"""All channels of this process: who is watched, what was touched, what the rings may hold.

The feed appends to channels; the first one touched in an iteration of the event loop schedules one
flush for all of them. So a quiet hub writes at once, a busy one joins by itself, and there is no
timer in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sessionwire_server.channel import Channel
from sessionwire_server.settings import Settings

__all__ = ["FanOut", "Stats"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Stats:
    """Counts since the process began; `metrics.py` shows them.

    Attributes:
        messages: live messages received.
        delivered: events handed to viewers' sockets.
        writes: writes that carried them.
        lagged: times that a viewer's socket was full.
        breaks: times that a ring began anew after a hole or a message without bodies.
        pages: pages read from Redis for viewers.
        gaps: gaps told to viewers.
        resets: epochs that ended under viewers.
        slow_closed: viewers closed because a write was stuck.
    """

    messages: int = 0
    delivered: int = 0
    writes: int = 0
    lagged: int = 0
    breaks: int = 0
    pages: int = 0
    gaps: int = 0
    resets: int = 0
    slow_closed: int = 0


class FanOut:
    """The channels that this process watches.

    Attributes:
        channels: by session id.
        suspects: channels whose epoch and head must be read again.
        outdated: is told of a channel whose states are to be read; None where nobody reads them.
        doubted: is told of a session of which Redis may have lost something.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stats = Stats()
        self.channels: dict[str, Channel] = {}
        self.suspects: set[Channel] = set()
        self.outdated: Callable[[Channel], None] | None = None
        self.doubted: Callable[[str], None] | None = None
        self._touched: list[Channel] = []
        self._marked: set[Channel] = set()
        self._rings: OrderedDict[Channel, None] = OrderedDict()
        """Channels with a ring, the one written to longest ago first."""
        self._rings_bytes = 0

    def mark(self, channel: Channel) -> None:
        """Have a channel flushed in this iteration of the event loop."""
        if channel in self._marked:
            return
        if not self._marked:
            asyncio.get_running_loop().call_soon(self._flush)
        self._marked.add(channel)
        self._touched.append(channel)

    def _flush(self) -> None:
        now = asyncio.get_running_loop().time()
        touched, self._touched = self._touched, []
        self._marked.clear()
        for channel in touched:
            try:
                channel.flush(now)
            except Exception:
                # One session's fault must not keep the others of this turn from their events.
                logger.exception("the fan-out of session %s failed", channel.sid)
                channel.fail()

    def account(self, channel: Channel, change: int) -> None:
        """Note how a ring grew or shrank; drop the oldest rings while all are over the budget."""
        self._rings_bytes += change
        if change > 0:
            self._rings[channel] = None
            self._rings.move_to_end(channel)
        elif channel.ring_bytes + change <= 0:
            self._rings.pop(channel, None)
        while self._rings_bytes > self.settings.rings_bytes and len(self._rings) > 1:
            oldest, _ = self._rings.popitem(last=False)
            oldest.drop_ring()

    def forget(self, channel: Channel) -> None:
        """Stop keeping a channel that nobody watches."""
        channel.drop_ring()
        self._rings.pop(channel, None)
        if self.channels.get(channel.sid) is channel:
            del self.channels[channel.sid]

    @property
    def viewers(self) -> int:
        """Number of viewers of all channels."""
        return sum(len(channel.viewers) for channel in self.channels.values())
