"""One event stream: a response that goes on until somebody ends it (protocol.md §6).

Two ways to send, chosen at run time. Under uvicorn the frames go to the server's transport, the
request's task sleeping meanwhile; on any other ASGI server, and where somebody else's middleware
holds messages back, an `EventResponse` pulls the same frames out of a generator. Replay, filters
and order are the viewer's in both.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from sessionwire_schemas.frames import HEARTBEAT, control_frame
from sessionwire_server.api_keys import Principal
from sessionwire_server.audience import Spelling, Taste, plain
from sessionwire_server.errors import HubError
from sessionwire_server.event_response import RAW_HEADERS, EventResponse, told_of_the_end
from sessionwire_server.opening import Opening, open_at
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.redaction import redacted_taste
from sessionwire_server.sender import TransportSender, offered_transport
from sessionwire_server.stream_request import StreamRequest
from sessionwire_server.viewer import EndReason, Viewer, gap_frame

if TYPE_CHECKING:
    from sessionwire_server.hub import Hub

__all__ = ["RETRY_MS", "EndReason", "EventStream", "disconnecting"]

RETRY_MS: Final = (1_000, 3_000)
"""The client's reconnection time, drawn per connection lest a crowd come back at once."""
CYCLE_RETRY_MS: Final = (100, 500)
"""After a planned close the hub is there; still not everybody in the same moment."""
UNAVAILABLE: Final = 503


def disconnecting(reason: EndReason) -> bytes:
    """Frame the last words of a stream."""
    bounds = CYCLE_RETRY_MS if reason in ("connection_cycle", "reset") else RETRY_MS
    retry_ms = random.randint(*bounds)
    return control_frame(
        "disconnecting", {"reason": reason, "retry_ms": retry_ms}, retry_ms=retry_ms
    )


class EventStream:
    """The response to a request for a session's stream.

    Args:
        hub: the hub.
        sid: the session, which the reader may read.
        request: what is asked.
        reader: who asks.
    """

    def __init__(self, hub: Hub, sid: str, request: StreamRequest, reader: Principal) -> None:
        self._hub = hub
        self._sid = sid
        self._request = request
        self._reader = reader
        self._viewer: Viewer | None = None
        self._failed: EndReason | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer: 204 for a deleted session, an error for one that cannot be read, else stream.

        Raises:
            HubError: before the response has started; see `routes/sse.py`.
        """
        try:
            catalog = await self._catalog()
        except SessionDeleted:
            await Response(status_code=204)(scope, receive, send)
            return
        self._request.filter(catalog or "copilot")
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": RAW_HEADERS})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._hub.admitted(self._sid, self._reader):
            sender = None
            if self._hub.settings.send_mode == "auto":
                sender = offered_transport(scope)
            if sender is not None:
                await send({"type": "http.response.start", "status": 200, "headers": RAW_HEADERS})
                if sender.started:
                    await self._written(sender, receive, send)
                    return
                # Middleware passes it on in its own time, and would everything that follows it.
                send = _after_start(send)
            await EventResponse(self._pulled(), self._hub.settings)(scope, receive, send)

    async def _catalog(self) -> str | None:
        """The session's catalog, None while Redis is away: the stream is opened all the same."""
        try:
            return (await self._hub.store.look(self._sid)).catalog
        except HubError as error:
            if error.status == UNAVAILABLE:
                return None
            raise

    async def _written(self, sender: TransportSender, receive: Receive, send: Send) -> None:
        sender.limit_silence(self._hub.settings.send_timeout_s)
        framing = sender.framing
        try:
            async with aclosing(self._opened(framing, sender)) as opened:
                async for data in opened:
                    sender.write(data)
                    if sender.closed:
                        break
            if (viewer := self._viewer) is not None and self._failed is None:
                await _serve(viewer, sender, receive)
        finally:
            reason = self._left()
            if reason is not None and not sender.closed:
                sender.write(framing(disconnecting(reason)))
        if sender.closed:
            await told_of_the_end(receive)
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pulled(self) -> AsyncGenerator[bytes, None]:
        try:
            async for data in self._opened(plain, None):
                yield data
            if (viewer := self._viewer) is not None and self._failed is None:
                async with aclosing(viewer.chunks()) as chunks:
                    async for data in chunks:
                        yield data
        finally:
            reason = self._left()
        if reason is not None:
            yield disconnecting(reason)

    async def _opened(
        self, framing: Callable[[bytes], bytes], sender: TransportSender | None
    ) -> AsyncGenerator[bytes, None]:
        """Register a viewer and find its place; heartbeats while Redis is away; `connected`."""
        hub, request = self._hub, self._request
        deadline = anyio.current_time() + hub.settings.stream_wait_s
        beat = anyio.current_time()
        while (opening := await self._try_to_open(framing, sender)) is None:
            if self._reason() is not None:
                return
            now = anyio.current_time()
            if now >= deadline:
                self._failed = "error"
                return
            if now - beat >= min(hub.settings.heartbeat_s, hub.settings.stream_wait_s / 2):
                beat = now
                yield framing(HEARTBEAT)
            await anyio.sleep(random.uniform(0.1, 0.5))
        yield framing(self._connected(opening))
        if opening.gap is not None:
            hub.fan_out.stats.gaps += 1
            yield framing(gap_frame(opening.gap, control=request.control))

    async def _try_to_open(
        self, framing: Callable[[bytes], bytes], sender: TransportSender | None
    ) -> Opening | None:
        hub, request = self._hub, self._request
        try:
            catalog = (await hub.store.look(self._sid)).catalog
            own_ids = catalog == "everruns" and not request.control
            taste = Taste(
                request.filter(catalog),
                Spelling(cursors=not own_ids, names=request.names),
                request.control,
                framing,
            )
            if hub.redacts(self._reader):
                taste = redacted_taste(taste)
            if self._viewer is None:
                channel = hub.feed.channel(self._sid)
                self._viewer = Viewer(channel, taste, hub.pages, sender)
                hub.watch_clock(self._viewer, _seconds_left(self._reader))
            await hub.feed.confirm(self._viewer.channel)
            opening = await open_at(
                hub.store, self._sid, request.start, now_ms=int(time.time() * 1000)
            )
            self._viewer.begin(opening, ephemeral_replay=not (own_ids and request.by_header))
            return opening
        except HubError as error:
            if error.status == UNAVAILABLE:
                return None
            self._failed = "deleted" if isinstance(error, SessionDeleted) else "error"
            return None

    def _connected(self, opening: Opening) -> bytes:
        outlook = opening.outlook
        head = outlook.head
        cursor = str(opening.cursor)
        gap = None if opening.gap is None else opening.gap.members()
        return control_frame(
            "connected",
            {
                "status": "connected",
                "session_id": self._sid,
                "epoch": outlook.epoch,
                "cursor": cursor,
                "head": f"{outlook.epoch}.{head.sequence}.{head.offset}.{head.check}",
                "resumed": opening.resumed,
                "gap": gap,
                "pending_prompts": outlook.open_prompts,
            },
            event_id=cursor,
            retry_ms=random.randint(*RETRY_MS),
        )

    def _reason(self) -> EndReason | None:
        """Why the hub ends the stream, None while it does not."""
        viewer = self._viewer
        return self._failed or (viewer.ending if viewer is not None else None)

    def _left(self) -> EndReason | None:
        """Take the viewer out; why it ended, None if the client left."""
        if (viewer := self._viewer) is not None:
            self._hub.forget_clock(viewer)
            viewer.channel.leave(viewer, anyio.current_time())
        return self._reason()


def _after_start(send: Send) -> Send:
    """Send what follows a response's start that has been sent."""

    async def passed_on(message: Message) -> None:
        if message["type"] != "http.response.start":
            await send(message)

    return passed_on


def _seconds_left(reader: Principal) -> float | None:
    return None if reader.expires_at is None else reader.expires_at - time.time()


async def _serve(viewer: Viewer, sender: TransportSender, receive: Receive) -> None:
    """Pull to the head, sleep while live, pull again when behind, until it ends or is gone."""
    while viewer.ending is None and not sender.closed:
        await viewer.pull()
        if viewer.is_live and await viewer.sleep(receive):
            return
