"""`/v1/budgets`, and what of budgets and pins is asked of a session (protocol.md §4.8).

Reads requests and spells answers; what a budget is, is `everruns_budget`.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.access import Principal
from sessionwire_server.answers import json_response
from sessionwire_server.api_keys import Scope
from sessionwire_server.commands import NewCommand
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.everruns_bodies import (
    CreateBudget,
    TopUpBudget,
    UpdateBudget,
    everruns_body,
)
from sessionwire_server.everruns_budget import (
    LEDGER,
    Budget,
    LedgerEntry,
    budget_session,
    checked,
)
from sessionwire_server.everruns_budgets import Budgets, budget_not_found
from sessionwire_server.everruns_message import event_id_of, named_id
from sessionwire_server.minting import now_ms
from sessionwire_server.query import Query
from sessionwire_server.raw_path import checked_session_id

__all__ = [
    "check",
    "check_session",
    "create",
    "delete",
    "ledger",
    "list_all",
    "list_of_session",
    "pin",
    "resume",
    "show",
    "top_up",
    "unpin",
    "update",
]

LEDGER_PAGE: Final = 50


def _budgets(desk: Desk) -> Budgets:
    return Budgets(desk.hub.link, desk.hub.store)


async def _entered(request: Request, scope: Scope) -> tuple[Budgets, str, str]:
    """Let a request at the budget it names, whose session the token must see."""
    desk, budget_id = Desk.of(request), request.path_params["budget_id"]
    who = await desk.hub.access.authorize(request, scope)
    sid = budget_session(budget_id)
    if not sid or not who.sees(sid):
        raise budget_not_found(budget_id)
    return _budgets(desk), budget_id, sid


async def create(request: Request) -> Response:
    """POST a budget of a session; those of anything else are a platform's business."""
    desk = Desk.of(request)
    who = await desk.hub.access.authorize(request, "steer")
    asked, _ = await everruns_body(request, CreateBudget)
    if asked.subject_type != "session":
        raise HubError(404, "not_found", "a hub has budgets of sessions and of nothing else")
    who.require("steer", checked_session_id(asked.subject_id))
    budget = await _budgets(desk).create(asked)
    return json_response(budget.members(asked.subject_id), 201)


async def list_all(request: Request) -> Response:
    """GET the budgets of a session, or of all that the token sees, as a bare list."""
    desk = Desk.of(request)
    who = await desk.hub.access.authorize(request, "read")
    query = Query(request.query_params)
    subject, sid = query.text("subject_type"), query.text("subject_id")
    if subject not in ("", "session"):
        return json_response([])
    budgets = _budgets(desk)
    if sid:
        who.require("read", checked_session_id(sid))
        return json_response([one.members(sid) for one in await budgets.of(sid)])
    data: list[dict[str, Any]] = []
    for each in await budgets.sessions():
        if who.sees(each):
            data += await _of_one(budgets, each)
    return json_response(data)


async def _of_one(budgets: Budgets, sid: str) -> list[dict[str, Any]]:
    try:
        found = await budgets.of(sid)
    except HubError as error:
        if error.status != 404:
            raise
        found = []
    if not found:
        await budgets.forget(sid)
    return [one.members(sid) for one in found]


async def show(request: Request) -> Response:
    """GET a budget."""
    budgets, budget_id, sid = await _entered(request, "read")
    return json_response((await budgets.get(budget_id)).members(sid))


async def update(request: Request) -> Response:
    """PATCH a budget: what is named is changed."""
    budgets, budget_id, sid = await _entered(request, "steer")
    asked, _ = await everruns_body(request, UpdateBudget)
    changed = await budgets.change(budget_id, lambda one: one.updated(asked, now_ms()))
    return json_response(changed.members(sid))


async def delete(request: Request) -> Response:
    """DELETE a budget."""
    budgets, budget_id, _ = await _entered(request, "steer")
    await budgets.delete(budget_id)
    return Response(status_code=204)


async def top_up(request: Request) -> Response:
    """POST an amount that may be spent beside what is left."""
    budgets, budget_id, sid = await _entered(request, "steer")
    asked, _ = await everruns_body(request, TopUpBudget)
    entry = LedgerEntry(
        id=f"ledger_{secrets.token_hex(16)}",
        amount=-asked.amount,
        created_ms=now_ms(),
        description=asked.description,
    )
    changed = await budgets.change(budget_id, lambda one: one.topped_up(entry))
    return json_response(changed.members(sid))


async def ledger(request: Request) -> Response:
    """GET what was added to a budget, the newest first, as a bare list."""
    budgets, budget_id, _ = await _entered(request, "read")
    query = Query(request.query_params)
    limit = query.integer("limit", 1, LEDGER)
    offset = query.integer("offset", 0) or 0
    entries = (await budgets.get(budget_id)).ledger_members()
    return json_response(entries[offset : offset + (limit or LEDGER_PAGE)])


async def check(request: Request) -> Response:
    """GET what a budget lets its session do."""
    budgets, budget_id, _ = await _entered(request, "read")
    return json_response(checked([await budgets.get(budget_id)]))


async def list_of_session(request: Request) -> Response:
    """GET a session's budgets, as a bare list."""
    desk, sid, _ = await _at_session(request, "read")
    return json_response([one.members(sid) for one in await _budgets(desk).of(sid)])


async def check_session(request: Request) -> Response:
    """GET what a session's budgets let it do."""
    desk, sid, _ = await _at_session(request, "read")
    return json_response(checked(await _budgets(desk).of(sid)))


async def resume(request: Request) -> Response:
    """POST: what was paused may be spent again; the host is told, and so is who watches."""
    desk, sid, who = await _at_session(request, "steer")
    budgets = _budgets(desk)
    paused = [one for one in await budgets.of(sid) if one.status == "paused"]
    if paused:
        await desk.hub.commands.send(sid, _resume(sid, paused, who))
        events = [_resumed(sid, one) for one in paused]
        await desk.publishing.publish(sid, msgspec.json.encode(events))
        for one in paused:
            if budget_session(one.id) == sid:
                await budgets.change(one.id, partial(Budget.resumed, now_ms=now_ms()))
    return json_response({"resumed_budgets": len(paused), "session_id": sid})


def _pause(budget: Budget) -> str:
    """Name the pause that a budget is in."""
    return budget.paused_by or str(budget.updated_ms)


def _resume(sid: str, paused: list[Budget], who: Principal) -> NewCommand:
    words = [word for one in paused for word in (one.id, _pause(one))]
    return NewCommand(
        id=named_id("resume", sid, *words),
        type="x.everruns.resume",
        data=msgspec.json.encode({"budget_ids": [one.id for one in paused]}),
        by={"id": who.id, "name": who.name or None, "human": who.human},
    )


def _resumed(sid: str, budget: Budget) -> dict[str, Any]:
    said = {
        "budget_id": budget.id,
        "balance": budget.balance,
        "currency": budget.currency,
        "limit": budget.limit,
        "soft_limit": budget.soft_limit,
    }
    return {
        "id": event_id_of(f"resume {sid} {budget.id} {_pause(budget)}"),
        "type": "budget.resumed",
        "context": {},
        "data": {name: value for name, value in said.items() if value is not None},
    }


async def pin(request: Request) -> Response:
    """PUT: pin a session."""
    desk, sid, _ = await _at_session(request, "steer")
    await desk.hub.store.pin(sid, pinned=True)
    return Response(status_code=204)


async def unpin(request: Request) -> Response:
    """DELETE the pin of a session."""
    desk, sid, _ = await _at_session(request, "steer")
    await desk.hub.store.pin(sid, pinned=False)
    return Response(status_code=204)


async def _at_session(request: Request, scope: Scope) -> tuple[Desk, str, Principal]:
    desk, sid = Desk.of(request), request.path_params["sid"]
    return desk, sid, await desk.hub.access.authorize(request, scope, sid)
