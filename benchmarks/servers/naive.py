"""The plain way to stream sessions: sse-starlette and an `asyncio.Queue` per viewer.

What one writes first with the libraries' documented interfaces: Starlette, `EventSourceResponse`,
redis-py; a stream and a channel per session. XADD and PUBLISH on publish, one `listen()` loop that
puts each event into the queue of every viewer, XRANGE for the replay. It parses each body once and
checks nothing else: no access control, no catalogs, no duplicates, no limits.
`SESSIONWIRE_REDIS_URL` names the Redis, as for the hub.
"""

# redis-py leaves many of its parameters and results without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import anyio
from redis.asyncio import Redis
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["app"]

PAGE = 500


class Event(NamedTuple):
    """One event as a viewer's queue holds it."""

    place: tuple[int, int]
    id: str
    type: str
    body: str

    @classmethod
    def of(cls, id_: str, type_: str, body: str) -> Event:
        milliseconds, _, number = id_.partition("-")
        return cls((int(milliseconds), int(number)), id_, type_, body)


_viewers: defaultdict[str, set[asyncio.Queue[Event]]] = defaultdict(set)
_redis: Redis = Redis.from_url(os.environ.get("SESSIONWIRE_REDIS_URL", ""), decode_responses=True)


async def _listen() -> None:
    async with _redis.pubsub() as pubsub:
        await pubsub.psubscribe("naive:*")
        async for message in pubsub.listen():
            if message["type"] != "pmessage":
                continue
            given = json.loads(message["data"])
            event = Event.of(given["id"], given["type"], given["body"])
            for queue in _viewers[message["channel"]]:
                queue.put_nowait(event)


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen)
        yield
        tasks.cancel_scope.cancel()


async def _bodies(request: Request) -> list[tuple[str, str]]:
    """Type and text of each event of the request."""
    text = (await request.body()).decode()
    if request.headers.get("content-type") == "application/x-ndjson":
        return [(json.loads(line)["type"], line) for line in text.splitlines()]
    given: Any = json.loads(text)
    if isinstance(given, list):
        return [(event["type"], json.dumps(event, separators=(",", ":"))) for event in given]
    return [(given["type"], text)]


async def _publish(request: Request) -> Response:
    key = f"naive:{request.path_params['session']}"
    events = await _bodies(request)
    async with _redis.pipeline(transaction=False) as pipeline:
        for type_, body in events:
            pipeline.xadd(key, {"type": type_, "body": body})
        ids = await pipeline.execute()
        for id_, (type_, body) in zip(ids, events, strict=True):
            pipeline.publish(key, json.dumps({"id": id_, "type": type_, "body": body}))
        await pipeline.execute()
    return JSONResponse({"data": [{"id": id_} for id_ in ids]})


async def _replay(key: str) -> AsyncGenerator[Event]:
    start = "-"
    while True:
        page: list[tuple[str, dict[str, str]]]
        page = cast(Any, await _redis.xrange(key, min=start, count=PAGE))
        if not page:
            return
        for id_, fields in page:
            yield Event.of(id_, fields["type"], fields["body"])
        start = f"({page[-1][0]}"


def _frame(event: Event) -> ServerSentEvent:
    return ServerSentEvent(event.body, event=event.type, id=event.id, sep="\n")


async def _events(
    key: str, queue: asyncio.Queue[Event], *, live_only: bool
) -> AsyncGenerator[ServerSentEvent]:
    last = (0, 0)
    try:
        if not live_only:
            async for event in _replay(key):
                last = event.place
                yield _frame(event)
        while True:
            event = await queue.get()
            if event.place > last:
                yield _frame(event)
    finally:
        _viewers[key].discard(queue)


async def _stream(request: Request) -> Response:
    key = f"naive:{request.path_params['session']}"
    queue: asyncio.Queue[Event] = asyncio.Queue()
    _viewers[key].add(queue)
    live_only = request.query_params.get("from") == "now"
    return EventSourceResponse(_events(key, queue, live_only=live_only))


async def _livez(_: Request) -> Response:
    await _redis.ping()
    return Response()


app = Starlette(
    routes=[
        Route("/v1/sessions/{session}/events", _publish, methods=["POST"]),
        Route("/v1/sessions/{session}/sse", _stream),
        Route("/livez", _livez),
    ],
    lifespan=_lifespan,
)
