"""`/v1/sessions` and `/v1/sessions/{sid}` (protocol.md §4)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.answers import json_response
from sessionwire_server.api_keys import Principal
from sessionwire_server.bodies import read_model_and_bytes
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.query import Query
from sessionwire_server.raw_path import checked_session_id
from sessionwire_server.redaction import shown
from sessionwire_server.session_index import SessionQuery
from sessionwire_server.session_record import SessionFields, SessionRecord
from sessionwire_server.session_resource import STATUSES, CreateSession, session_members

__all__ = ["create", "delete", "list_all", "show"]

MAX_LIMIT = 200
LIMIT = 50


async def create(request: Request) -> Response:
    """POST `/v1/sessions`: make a session, or find the same one."""
    desk = Desk.of(request)
    principal = await desk.hub.access.authorize(request, "publish")
    wanted, given = await read_model_and_bytes(request, CreateSession)
    sid = _minted(principal) if wanted.id is None else checked_session_id(wanted.id)
    principal.require("publish", sid)
    fields = SessionFields(
        catalog=wanted.catalog or "",
        title=wanted.title,
        given=given,
        completion=wanted.completion or "",
    )
    session, made = await desk.hub.store.create_session(sid, fields)
    headers = {"Location": f"/v1/sessions/{sid}"}
    (shown,) = await _shown(desk, [session])
    return json_response(shown, 201 if made else 200, headers)


def _minted(principal: Principal) -> str:
    sid = f"session_{secrets.token_hex(16)}"
    if not principal.sees(sid):
        raise HubError(403, "forbidden", "give the session an id that the key's patterns cover")
    return sid


async def list_all(request: Request) -> Response:
    """GET `/v1/sessions`: sessions by activity, newest first."""
    desk = Desk.of(request)
    principal = await desk.hub.access.authorize(request, "read")
    query = Query(request.query_params)
    limit = query.integer("limit", 1, MAX_LIMIT)
    page = await desk.hub.store.sessions(
        SessionQuery(
            status=query.choice("status", STATUSES),
            catalog=query.choice("catalog", ("copilot", "everruns")),
            q=query.text("q") or query.text("search"),
            agent_id=query.text("agent_id"),
            limit=LIMIT if limit is None else limit,
            page_token=query.text("page_token"),
            visible=None if "*" in principal.sessions else principal.sees,
        )
    )
    return json_response(
        {
            "data": await _shown(desk, page.data),
            "next_page_token": page.next_page_token,
            "total": page.total,
            "offset": page.offset,
            "limit": page.limit,
        }
    )


async def show(request: Request) -> Response:
    """GET `/v1/sessions/{sid}`: one session; a copilot one with its last values."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    principal = await desk.hub.access.authorize(request, "read", sid)
    session = await desk.hub.store.session(sid)
    lasts = await desk.hub.store.lasts(sid) if session.catalog == "copilot" else None
    if lasts is not None and desk.hub.redacts(principal):
        lasts = [seen for event in lasts if (seen := shown(event)) is not None]
    presence = await desk.hub.presence.of(sid)
    return json_response(session_members(session, viewers=presence.viewers, lasts=lasts))


async def delete(request: Request) -> Response:
    """DELETE `/v1/sessions/{sid}`: end it and everything that is kept of it."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    await desk.hub.access.authorize(request, "admin", sid)
    await desk.hub.store.delete_session(sid)
    return Response(status_code=204)


async def _shown(desk: Desk, sessions: Sequence[SessionRecord]) -> list[dict[str, object]]:
    present = await desk.hub.presence.of_all([session.id for session in sessions])
    return [
        session_members(session, viewers=there.viewers)
        for session, there in zip(sessions, present, strict=True)
    ]
