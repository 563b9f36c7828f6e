"""The requests of one hub on their way to Redis: one call at a time for each session.

What arrives for a session while its call is in flight goes together in the next, in order of
arrival; what may wait is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from sessionwire_server.errors import HubError
from sessionwire_server.joined_calls import CallBrokenOff, JoinedCalls
from sessionwire_server.publish_call import PublishRequest
from sessionwire_server.redis_link import Reply, StorageFull, StoreUnavailable

__all__ = ["Call", "PublishQueue"]

CALL_REQUESTS = 64
CALL_BYTES = 4 * 2**20
"""A call holds up every other client of Redis while it runs: some milliseconds at this size."""

SESSION_REQUESTS = 256
"""Requests of one session that may be on their way."""

PROCESS_BYTES = 64 * 2**20
"""Bytes that may be on their way, over all sessions."""

MAX_WAIT_S = 30.0
"""How long a request waits for its verdict while Redis is slow."""

Call = Callable[[str, Sequence[PublishRequest]], Awaitable[Sequence[Reply]]]
"""Publishes requests to a session, and gives one reply each, in order."""


class PublishQueue:
    """The requests of one hub process on their way to Redis.

    Attributes:
        calls: script calls made so far.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._sessions: dict[str, JoinedCalls[PublishRequest, Reply]] = {}
        self._requests: Counter[str] = Counter()
        self._bytes = 0
        self.calls = 0

    async def submit(self, sid: str, request: PublishRequest) -> Reply:
        """Publish a request and return the script's reply to it.

        Raises:
            HubError: 503 `busy`, too much is on its way already; nothing of the request was sent.
                Or what the call itself raised.
        """
        idle = self._bytes == 0
        if self._requests[sid] >= SESSION_REQUESTS or (
            self._bytes + request.size > PROCESS_BYTES and not idle
        ):
            detail = "too many events are waiting to be stored, try again shortly"
            raise HubError(503, "busy", detail, headers={"Retry-After": "1"})
        self._requests[sid] += 1
        self._bytes += request.size
        try:
            return await self._of(sid).submit(request)
        except (CallBrokenOff, TimeoutError) as error:
            raise StoreUnavailable("Redis does not answer in time") from error
        except (StoreUnavailable, StorageFull) as error:
            # Each requester gets an exception of its own: a raised one collects tracebacks.
            raise type(error)(error.detail) from error
        finally:
            self._bytes -= request.size
            self._requests[sid] -= 1
            if not self._requests[sid]:
                del self._requests[sid], self._sessions[sid]

    def _of(self, sid: str) -> JoinedCalls[PublishRequest, Reply]:
        session = self._sessions.get(sid)
        if session is None:
            session = self._sessions[sid] = JoinedCalls(
                partial(self._counted, sid),
                in_flight=1,
                max_items=CALL_REQUESTS,
                max_bytes=CALL_BYTES,
                max_wait_s=MAX_WAIT_S,
                size_of=_size,
            )
        return session

    async def _counted(self, sid: str, requests: Sequence[PublishRequest]) -> Sequence[Reply]:
        self.calls += 1
        return await self._call(sid, requests)


def _size(request: PublishRequest) -> int:
    return request.size
