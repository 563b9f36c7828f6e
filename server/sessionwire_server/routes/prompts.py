"""`/v1/sessions/{sid}/prompts` and `/v1/prompts`: what is asked, and answers (protocol.md §8).

Reads bodies and parameters of HTTP; what is done with them is `prompt_calls`.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.answers import json_response
from sessionwire_server.bodies import read_model
from sessionwire_server.desk import Desk
from sessionwire_server.prompt_bodies import (
    AnswerPrompt,
    ClaimPrompt,
    ReleasePrompt,
    answerer,
    idempotency_key,
)
from sessionwire_server.prompt_calls import (
    OPEN_STATES,
    answer_prompt,
    claim_prompt,
    limit_of,
    list_prompts,
    look_at_prompt,
    prompt_shown,
    prompts_shown,
    statuses_of,
)
from sessionwire_server.prompt_search import OpenPromptQuery, find_open
from sessionwire_server.prompt_wait import next_change
from sessionwire_server.query import Query

__all__ = ["answer", "claim", "everywhere", "list_all", "release", "show"]

MAX_WAIT_S: Final = 30


async def list_all(request: Request) -> Response:
    """GET the prompts of a session, the open ones unless `status` says otherwise."""
    hub = Desk.of(request).hub
    sid = request.path_params["sid"]
    reader = await hub.access.authorize(request, "read", sid)
    return json_response(await list_prompts(hub, reader, sid, Query(request.query_params)))


async def everywhere(request: Request) -> Response:
    """GET the open prompts of every session that the token may read."""
    hub = Desk.of(request).hub
    reader = await hub.access.authorize(request, "read")
    query = Query(request.query_params)
    asked = OpenPromptQuery(
        statuses=statuses_of(query, OPEN_STATES) or OPEN_STATES,
        limit=limit_of(query),
        page_token=query.text("page_token", 2_048),
        visible=reader.sees,
    )
    page = await find_open(hub.prompts, asked)
    data = await prompts_shown(hub, reader, page.found)
    return json_response({"data": data, "next_page_token": page.next_page_token})


async def show(request: Request) -> Response:
    """GET a prompt: with `wait_s` at its next change, with `secrets=1` what was cut out of it."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    reader = await hub.access.authorize(request, "read", sid)
    query = Query(request.query_params)
    wait_s = query.integer("wait_s", 0, MAX_WAIT_S)
    secrets = query.flag("secrets")
    looked = await look_at_prompt(hub, reader, sid, rid, secrets=secrets)
    if wait_s and looked.kept.prompt.is_open:
        looked = await next_change(hub, sid, looked, wait_s, secrets=secrets)
    return json_response(await prompt_shown(hub, reader, sid, looked))


async def answer(request: Request) -> Response:
    """POST an answer: 200 with the prompt for the first, and for the same one again."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    who = await hub.access.authorize(request, "answer", sid)
    key = idempotency_key(request.headers.get("idempotency-key", ""))
    said = (await read_model(request, AnswerPrompt)).said(rid, key)
    by = answerer(who, "http", request.headers.get("user-agent", ""))
    return json_response(await answer_prompt(hub, who, sid, said, by))


async def claim(request: Request) -> Response:
    """POST a claim, or renew one: while it lasts only its holder may answer."""
    hub = Desk.of(request).hub
    sid, rid = request.path_params["sid"], request.path_params["rid"]
    who = await hub.access.authorize(request, "answer", sid)
    wanted = await read_model(request, ClaimPrompt)
    return json_response(await claim_prompt(hub, sid, rid, wanted, answerer(who, "http")))


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
