"""`/v1/channels/{channel}`: the paths under which a program calls one agent (protocol.md §4.8)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.access import Principal
from sessionwire_server.answers import json_response, streamed
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.event_stream import EventStream
from sessionwire_server.everruns_access import authorize_in_channel, runtime_token
from sessionwire_server.everruns_bodies import CreateChannelSession, everruns_body
from sessionwire_server.everruns_channel import Channel, card, channel_session, pending_input
from sessionwire_server.everruns_message import named_id
from sessionwire_server.everruns_turn import LOOK_BACK, latest_turn
from sessionwire_server.log_scan import LogScan
from sessionwire_server.prompt_bodies import idempotency_key
from sessionwire_server.query import Query
from sessionwire_server.routes.everruns_sessions import entered
from sessionwire_server.session_index import SessionQuery
from sessionwire_server.session_record import SessionFields, SessionRecord
from sessionwire_server.stream_request import StreamRequest

__all__ = [
    "authenticate",
    "create_session",
    "list_events",
    "list_sessions",
    "show_card",
    "show_session",
    "stream",
]

SESSIONS: Final = 50
MAX_SESSIONS: Final = 200
EVENTS: Final = 100
MAX_EVENTS: Final = 500

NEWEST: Final = 16
"""Events of a session looked at for the end of its latest turn while many are listed."""


async def show_card(request: Request) -> Response:
    """GET the card of a channel's agent."""
    _, channel = await authorize_in_channel(request, "read")
    return json_response(card(channel))


async def authenticate(request: Request) -> Response:
    """POST: a token for the browser of an end user."""
    return json_response(await runtime_token(request))


async def create_session(request: Request) -> Response:
    """POST: begin a session of the channel; with `Idempotency-Key` once, however often."""
    desk = Desk.of(request)
    # Whoever may talk to the agent may begin to; `publish` would let them speak in its place.
    who, channel = await authorize_in_channel(request, "steer")
    key = idempotency_key(request.headers.get("idempotency-key", ""))
    wanted, _ = await everruns_body(request, CreateChannelSession)
    sid = _session_id(channel, who, key)
    asked = {"title": wanted.title, "metadata": wanted.metadata}
    given = {name: value for name, value in asked.items() if value is not None}
    members = msgspec.json.encode({"catalog": "everruns", **given, **channel.members()})
    fields = SessionFields(catalog="everruns", title=wanted.title, given=members)
    try:
        session, _ = await desk.hub.store.create_session(sid, fields)
    except HubError as error:
        if error.code != "session_exists":
            raise
        detail = "another session was made with this Idempotency-Key"
        raise HubError(422, "idempotency_reused", detail) from error
    location = f"/v1/channels/{channel.id}/sessions/{sid}"
    return json_response(channel_session(session, None, ()), 201, {"Location": location})


def _session_id(channel: Channel, who: Principal, key: str) -> str:
    sid = (
        named_id("session", channel.id, channel.end_user, who.id, key)
        if key
        else f"session_{secrets.token_hex(16)}"
    )
    if not who.sees(sid):
        raise HubError(403, "forbidden", "the key's patterns cover no session that is made here")
    return sid


async def list_sessions(request: Request) -> Response:
    """GET the channel's sessions, the newest activity first."""
    desk = Desk.of(request)
    who, channel = await authorize_in_channel(request, "read")
    query = Query(request.query_params)
    page = await desk.hub.store.sessions(
        SessionQuery(
            given=channel.members(),
            limit=query.integer("limit", 1, MAX_SESSIONS) or SESSIONS,
            page_token=query.text("page_token"),
            visible=None if "*" in who.sessions else who.sees,
        )
    )
    data = [await _shown(desk, who, session, NEWEST) for session in page.data]
    token = page.next_page_token
    return json_response({"data": data, **({"next_page_token": token} if token else {})})


async def show_session(request: Request) -> Response:
    """GET a session, and what it waits on from a person."""
    desk, sid, who = await entered(request, "read")
    session = await desk.hub.store.session(sid)
    state = await desk.hub.prompts.open(sid)
    pending = [one for one in state.kept if one.prompt.state == "pending"]
    shown = await _shown(desk, who, session, LOOK_BACK)
    return json_response(shown | pending_input(pending))


async def _shown(
    desk: Desk, who: Principal, session: SessionRecord, look_back: int
) -> dict[str, Any]:
    kinds: list[str] = []
    if session.open_prompts:
        state = await desk.hub.prompts.open(session.id)
        kinds = [one.prompt.opening.kind for one in state.kept if one.prompt.state == "pending"]
    with desk.scan(session.id, who) as scan:
        turn = await latest_turn(scan, session.head.sequence, look_back)
    return channel_session(session, turn, kinds)


async def list_events(request: Request) -> Response:
    """GET durable events after a sequence, the oldest first; an empty page is the end."""
    desk, sid, who = await entered(request, "read")
    query = Query(request.query_params)
    limit = query.integer("limit", 1, MAX_EVENTS) or EVENTS
    after = query.integer("after_sequence", 0) or 0
    outlook = await desk.hub.store.look(sid)
    with desk.scan(sid, who) as scan:
        pieces = _page(scan, after, outlook.head.sequence, limit)
        return await streamed(pieces, scan, "application/json")


async def _page(scan: LogScan, after: int, until: int, limit: int) -> AsyncIterator[bytes]:
    separator, left = b"", limit
    yield b'{"data":['
    async for event in scan.events(after=after, until=until):
        yield separator + event.body
        separator, left = b",", left - 1
        if not left:
            break
    yield b"]}"


async def stream(request: Request) -> Response:
    """GET the session's stream; see `routes/sse.py`."""
    desk, sid, who = await entered(request, "read", tickets=True)
    default_from = desk.hub.settings.default_from
    wanted = StreamRequest.read(request.headers, request.query_params, default_from)
    return cast("Response", EventStream(desk.hub, sid, wanted, who))
