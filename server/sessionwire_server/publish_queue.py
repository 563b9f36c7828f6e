"""Joins requests to one session into as few script calls as possible.

At most one call is in flight per session; what arrives meanwhile goes together in the next, in
order of arrival. No task of its own: the first request drives the call, then hands the next one to
whoever waits first. Every wait is bounded, and a requester that is cancelled takes no one else's
answer with it: a call once begun is seen to its end (the link's timeouts bound it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from sessionwire_server.errors import HubError
from sessionwire_server.publish_call import PublishRequest
from sessionwire_server.redis_link import Reply, StorageFull, StoreUnavailable

__all__ = ["Call", "PublishQueue"]

CALL_REQUESTS = 64
CALL_BYTES = 4 * 2**20
"""A call holds up every other client of Redis while it runs: some milliseconds at this size."""

WAITING_REQUESTS = 256
"""Requests that may wait for one session."""

WAITING_BYTES = 64 * 2**20
"""Bytes that may wait in the process, over all sessions."""

Call = Callable[[str, Sequence[PublishRequest]], Awaitable[Sequence[Reply]]]
"""Publishes requests to a session, and gives one reply each, in order."""


@dataclass(slots=True, eq=False)
class _Ticket:
    request: PublishRequest
    woken: anyio.Event = field(default_factory=anyio.Event)
    drives: bool = False
    reply: Reply = None
    error: Exception | None = None


class PublishQueue:
    """The requests of one hub process on their way to Redis.

    Attributes:
        calls: script calls made so far.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._lanes: dict[str, deque[_Ticket]] = {}
        self._waiting_bytes = 0
        self.calls = 0

    async def submit(self, sid: str, request: PublishRequest) -> Reply:
        """Publish a request and return the script's reply to it.

        Raises:
            HubError: 503 `busy`, too much waits already; nothing of the request was sent. Or what
                the call itself raised.
        """
        ticket = _Ticket(request)
        lane = self._lanes.get(sid)
        if lane is None:
            lane = self._lanes[sid] = deque((ticket,))
            self._waiting_bytes += request.size
            ticket.drives = True
        else:
            self._wait_in(lane, ticket)
            await self._turn(sid, lane, ticket)
        if ticket.drives:
            # Shielded: the others of this call must get their verdicts, whatever becomes of us.
            with anyio.CancelScope(shield=True):
                await self._drive(sid, lane)
        if ticket.error is not None:
            raise _own(ticket.error)
        return ticket.reply

    def _wait_in(self, lane: deque[_Ticket], ticket: _Ticket) -> None:
        size = ticket.request.size
        if len(lane) >= WAITING_REQUESTS or self._waiting_bytes + size > WAITING_BYTES:
            detail = "too many events are waiting to be stored, try again shortly"
            raise HubError(503, "busy", detail, headers={"Retry-After": "1"})
        lane.append(ticket)
        self._waiting_bytes += size

    async def _turn(self, sid: str, lane: deque[_Ticket], ticket: _Ticket) -> None:
        """Wait until the ticket is answered, or it is its turn to drive."""
        try:
            await ticket.woken.wait()
        except BaseException:
            if ticket in lane:
                lane.remove(ticket)
                self._waiting_bytes -= ticket.request.size
                if ticket.drives:
                    self._hand_over(sid, lane)
            raise

    def _hand_over(self, sid: str, lane: deque[_Ticket]) -> None:
        if lane:
            lane[0].drives = True
            lane[0].woken.set()
        else:
            del self._lanes[sid]

    def _joined(self, lane: deque[_Ticket]) -> list[_Ticket]:
        """Take the requests of the next call off the lane, at least one."""
        joined: list[_Ticket] = []
        size = 0
        while lane and len(joined) < CALL_REQUESTS:
            size += lane[0].request.size
            if joined and size > CALL_BYTES:
                break
            joined.append(lane.popleft())
        return joined

    async def _drive(self, sid: str, lane: deque[_Ticket]) -> None:
        joined = self._joined(lane)
        self.calls += 1
        try:
            replies = await self._call(sid, [ticket.request for ticket in joined])
            for ticket, reply in zip(joined, replies, strict=True):
                ticket.reply = reply
        except BaseException as error:
            failed = error if isinstance(error, Exception) else StoreUnavailable("the hub stops")
            for ticket in joined:
                ticket.error = failed
            if failed is not error:
                raise
        finally:
            self._waiting_bytes -= sum(ticket.request.size for ticket in joined)
            for ticket in joined:
                ticket.woken.set()
            self._hand_over(sid, lane)


def _own(error: Exception) -> Exception:
    """Give each requester an exception of its own: a raised one collects tracebacks."""
    if isinstance(error, StoreUnavailable | StorageFull):
        return type(error)(error.detail)
    return error
