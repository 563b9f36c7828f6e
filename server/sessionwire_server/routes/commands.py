"""`/v1/sessions/{sid}/commands`: steering a session's host (protocol.md §9)."""

from __future__ import annotations

from functools import partial
from typing import Final, cast

import anyio
from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.answers import json_response
from sessionwire_server.bodies import read_json, read_model
from sessionwire_server.commands import Acknowledge, CommandCursor, Receipt
from sessionwire_server.desk import Desk
from sessionwire_server.event_response import RAW_HEADERS
from sessionwire_server.host_stream import HostStream
from sessionwire_server.hub import Hub
from sessionwire_server.live_message import CommandNews, News
from sessionwire_server.minting import now_ms
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.query import Query
from sessionwire_server.steering import taken, written_command
from sessionwire_server.stream_request import LAST_EVENT_ID_NAMES

__all__ = ["acknowledge", "host_stream", "send", "show"]

MAX_WAIT_S: Final = 30


async def send(request: Request) -> Response:
    """POST a command: 202 once it cannot be lost any more."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    sender = await desk.hub.access.authorize(request, "steer", sid)
    command = written_command(await read_json(request), sender)
    return json_response(taken(await desk.hub.commands.send(sid, command)), 202)


async def show(request: Request) -> Response:
    """GET a command, and with `wait_s` wait for its next change."""
    hub = Desk.of(request).hub
    sid, cid = request.path_params["sid"], request.path_params["cid"]
    reader = await hub.access.authenticate(request)
    # The sender and the host; what is asked of an agent is not for everybody who watches it.
    reader.require("publish" if reader.has("publish") else "steer", sid)
    wait_s = Query(request.query_params).integer("wait_s", 0, MAX_WAIT_S)
    receipt = await hub.commands.look(sid, cid)
    if wait_s and not receipt.is_final:
        receipt = await _changed(hub, sid, receipt, wait_s)
    return json_response(receipt.members())


async def _changed(hub: Hub, sid: str, seen: Receipt, wait_s: float) -> Receipt:
    """Wait until a command is in another state; the hub's end is none to wait for."""
    until = anyio.current_time() + wait_s
    channel = hub.feed.channel(sid)
    with channel.bell(partial(_concerns, seen.id)) as bell:
        await hub.feed.confirm(channel)
        while True:
            try:
                receipt = await hub.commands.look(sid, seen.id)
            except SessionDeleted:
                return seen.expired(now_ms())
            left = until - anyio.current_time()
            if receipt.status != seen.status or left <= 0 or hub.draining:
                return receipt
            await bell.heard(left)


def _concerns(command_id: str, news: News) -> bool:
    return isinstance(news, CommandNews) and any(c.id == command_id for c in news.changes)


async def acknowledge(request: Request) -> Response:
    """POST what the host made of a command."""
    hub = Desk.of(request).hub
    sid, cid = request.path_params["sid"], request.path_params["cid"]
    await hub.access.authorize(request, "publish", sid)
    said = await read_model(request, Acknowledge)
    receipt = await hub.commands.acknowledge(sid, cid, said)
    return json_response(receipt.members())


async def host_stream(request: Request) -> Response:
    """GET the commands as their host.

    409 `host_conflict` while the session has another one; 404 for a session that is not there.
    """
    hub = Desk.of(request).hub
    sid = request.path_params["sid"]
    reader = await hub.access.authorize(request, "publish", sid, tickets=True)
    query = Query(request.query_params)
    host, takeover = query.text("host_id", 256) or reader.id, query.flag("takeover")
    cursor = _cursor(request, query)
    if request.method == "HEAD":
        head = Response()
        head.raw_headers = list(RAW_HEADERS)
        return head
    stream = HostStream(hub, sid, host, reader, takeover=takeover, cursor=cursor)
    return cast("Response", stream)


def _cursor(request: Request, query: Query) -> CommandCursor | None:
    names = (*LAST_EVENT_ID_NAMES, "since_id")
    given = [request.headers.get("last-event-id", ""), *map(query.text, names)]
    text = next((text for text in given if text), "")
    return CommandCursor.parse(text) if text else None
