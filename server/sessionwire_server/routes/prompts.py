"""`/v1/sessions/{sid}/prompts` and `/v1/prompts`: what is asked, and answers (protocol.md §8).

Reads bodies and parameters, and spells what the store decides; decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_schemas.prompt import ShownState
from sessionwire_server.access import Principal
from sessionwire_server.answers import json_response
from sessionwire_server.bodies import read_model
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.hub import Hub
from sessionwire_server.minting import rfc3339
from sessionwire_server.prompt_bodies import (
    AnswerPrompt,
    ClaimPrompt,
    ReleasePrompt,
    answerer,
    idempotency_key,
)
from sessionwire_server.prompt_kept import Kept
from sessionwire_server.prompt_search import Found, OpenPromptQuery, find_open
from sessionwire_server.prompt_view import prompt_members
from sessionwire_server.prompt_wait import next_change
from sessionwire_server.query import Query, invalid
from sessionwire_server.redaction import shown

__all__ = ["answer", "claim", "everywhere", "list_all", "release", "show"]

LIMIT: Final = 50
MAX_LIMIT: Final = 200
MAX_WAIT_S: Final = 30

STATES: Final[tuple[ShownState, ...]] = (
    "pending",
    "claimed",
    "answered",
    "completed",
    "expired",
    "cancelled",
    "orphaned",
    "withdrawn",
    "rewound",
)
OPEN_STATES: Final = frozenset[str]({"pending", "claimed", "answered"})


async def list_all(request: Request) -> Response:
    """GET the prompts of a session, the open ones unless `status` says otherwise."""
    hub = Desk.of(request).hub
    sid = request.path_params["sid"]
    reader = await hub.access.authorize(request, "read", sid)
    query = Query(request.query_params)
    statuses = _statuses(query, frozenset(STATES))
    limit = query.integer("limit", 1, MAX_LIMIT) or LIMIT
    token = query.text("page_token", 2_048) or None
    page = await hub.prompts.find(sid, statuses or None, limit, token)
    data = await _shown(hub, reader, [Found(sid, page.kept, page.now_ms)])
    return json_response({"data": data, "next_page_token": page.next_page_token})


async def everywhere(request: Request) -> Response:
    """GET the open prompts of every session that the token may read."""
    hub = Desk.of(request).hub
    reader = await hub.access.authorize(request, "read")
    query = Query(request.query_params)
    asked = OpenPromptQuery(
        statuses=_statuses(query, OPEN_STATES) or OPEN_STATES,
        limit=query.integer("limit", 1, MAX_LIMIT) or LIMIT,
        page_token=query.text("page_token", 2_048),
        visible=reader.sees,
    )
    page = await find_open(hub.prompts, asked)
    data = await _shown(hub, reader, page.found)
    return json_response({"data": data, "next_page_token": page.next_page_token})


async def show(request: Request) -> Response:
    """GET a prompt: with `wait_s` at its next change, with `secrets=1` what was cut out of it."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    reader = await hub.access.authorize(request, "read", sid)
    query = Query(request.query_params)
    wait_s = query.integer("wait_s", 0, MAX_WAIT_S)
    secrets = query.flag("secrets")
    if secrets and not reader.secrets:
        raise HubError(403, "secrets_required", "reading credentials needs the mark 'secrets'")
    looked = await hub.prompts.look(sid, rid, secrets=secrets)
    if wait_s and looked.kept.prompt.is_open:
        looked = await next_change(hub, sid, looked, wait_s, secrets=secrets)
    (members,) = await _shown(hub, reader, [Found(sid, (looked.kept,), looked.now_ms)])
    if looked.secrets is not None:
        members["secrets"] = looked.secrets
    return json_response(members)


async def answer(request: Request) -> Response:
    """POST an answer: 200 with the prompt for the first, and for the same one again."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    who = await hub.access.authorize(request, "answer", sid)
    key = idempotency_key(request.headers.get("idempotency-key", ""))
    said = (await read_model(request, AnswerPrompt)).said(rid, key)
    by = answerer(who, "http", request.headers.get("user-agent", ""))
    (answered,) = await hub.prompts.answer(sid, [said], by, secrets=who.secrets)
    # It waits no longer, so nobody asks who could answer.
    seen = _seen_by(hub, who, answered.kept)
    return json_response(prompt_members(sid, seen, now_ms=answered.now_ms))


async def claim(request: Request) -> Response:
    """POST a claim, or renew one: while it lasts only its holder may answer."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    who = await hub.access.authorize(request, "answer", sid)
    wanted = await read_model(request, ClaimPrompt)
    held = await hub.prompts.claim(
        sid,
        rid,
        claim_id=wanted.claim_id,
        lease_s=wanted.lease_s,
        by=answerer(who, "http").name,
    )
    return json_response({"claim_id": held.claim_id, "expires_at": rfc3339(held.until_ms)})


async def release(request: Request) -> Response:
    """DELETE a claim; one that has lapsed is given back as well."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    await hub.access.authorize(request, "answer", sid)
    # Many clients and proxies send no body with DELETE.
    named = Query(request.query_params).text("claim_id", 128)
    if not named:
        named = (await read_model(request, ReleasePrompt)).claim_id
    await hub.prompts.release(sid, rid, named)
    return Response(status_code=204)


def _statuses(query: Query, known: frozenset[str]) -> frozenset[str]:
    wanted = frozenset(query.many("status", len(STATES)))
    odd = sorted(wanted - known)
    if odd:
        words = ", ".join(word for word in STATES if word in known)
        raise invalid("status", f"must be of {words}, not {odd[0][:40]!r}")
    return wanted


async def _shown(hub: Hub, reader: Principal, found: Sequence[Found]) -> list[dict[str, Any]]:
    """Spell prompts of some sessions for a reader."""
    asking = [one.sid for one in found if any(kept.prompt.is_open for kept in one.kept)]
    present = dict(zip(asking, await hub.presence.of_all(asking), strict=True)) if asking else {}
    return [
        prompt_members(
            one.sid,
            _seen_by(hub, reader, kept),
            now_ms=one.now_ms,
            unattended=present[one.sid].can_answer == 0 if one.sid in present else None,
        )
        for one in found
        for kept in one.kept
    ]


def _seen_by(hub: Hub, reader: Principal, kept: Kept) -> Kept:
    """Hold back from the opener what this reader is not shown of any event."""
    if kept.opener is None or not hub.redacts(reader):
        return kept
    return replace(kept, opener=shown(kept.opener))
