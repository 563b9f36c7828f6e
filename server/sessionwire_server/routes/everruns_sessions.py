"""The verbs of everruns sessions, also under a channel (protocol.md §4.8).

Reads requests and spells answers; what a verb does is `everruns_inbox`.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.access import Principal
from sessionwire_server.answers import json_response, streamed
from sessionwire_server.api_keys import Scope
from sessionwire_server.desk import Desk
from sessionwire_server.everruns_access import authorize_in_channel
from sessionwire_server.everruns_bodies import SendMessage, everruns_body
from sessionwire_server.everruns_inbox import cancel_turn, listed_messages, send_message
from sessionwire_server.everruns_message import NewMessage
from sessionwire_server.prompt_bodies import idempotency_key

__all__ = ["cancel", "entered", "list_messages", "send"]


async def entered(
    request: Request, scope: Scope, *, tickets: bool = False
) -> tuple[Desk, str, Principal]:
    """Let a request at its session, under a channel only at one of that channel.

    Raises:
        HubError: as `Access.authorize`; 404 `session_not_found`.
    """
    desk, sid = Desk.of(request), request.path_params["sid"]
    if "channel" not in request.path_params:
        return desk, sid, await desk.hub.access.authorize(request, scope, sid, tickets=tickets)
    who, channel = await authorize_in_channel(request, scope, sid, tickets=tickets)
    channel.require(await desk.hub.store.session(sid))
    return desk, sid, who


async def send(request: Request) -> Response:
    """POST a message: 201 with the message; with `Idempotency-Key` once, however often."""
    desk, sid, who = await entered(request, "steer")
    key = idempotency_key(request.headers.get("idempotency-key", ""))
    said, body = await everruns_body(request, SendMessage)
    words = (sid, who.id, request.headers.get("end-user", ""), key) if key else ()
    message = NewMessage.of(said, body, words)
    return json_response(await send_message(desk, sid, message, who), 201)


async def list_messages(request: Request) -> Response:
    """GET the messages of a session, the oldest first."""
    desk, sid, who = await entered(request, "read")
    with desk.scan(sid, who) as scan:
        return await streamed(listed_messages(desk, sid, scan), scan, "application/json")


async def cancel(request: Request) -> Response:
    """POST: have the host stop the turn; 200 also where there is none."""
    desk, sid, who = await entered(request, "steer")
    with desk.scan(sid, who) as scan:
        is_running = await cancel_turn(desk, sid, scan, who)
    if not is_running:
        return json_response({"status": "no_op", "message": "no turn is running"})
    return json_response({"status": "cancelled", "message": "the host is told to stop the turn"})
