"""Answers to an everruns session, several at once, also under a channel (protocol.md §4.8).

Reads requests and spells answers; which prompts are meant is `everruns_answering`.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server.answers import json_response
from sessionwire_server.everruns_answering import Answering
from sessionwire_server.everruns_bodies import (
    QuestionAnswers,
    ToolApprovals,
    ToolResults,
    everruns_body,
)
from sessionwire_server.everruns_inbox import check_catalog
from sessionwire_server.prompt_bodies import answerer
from sessionwire_server.routes.everruns_sessions import entered

__all__ = ["answer_questions", "answer_tools", "approve_tools"]


async def answer_tools(request: Request) -> Response:
    """POST what a client's tools returned."""
    answering = await _answering(request)
    body, _ = await everruns_body(request, ToolResults)
    return json_response(await answering.tool_results(body))


async def answer_questions(request: Request) -> Response:
    """POST the answers to a set of questions."""
    answering = await _answering(request)
    body, _ = await everruns_body(request, QuestionAnswers)
    return json_response(await answering.questions(body))


async def approve_tools(request: Request) -> Response:
    """POST decisions about tool calls that were held back."""
    answering = await _answering(request)
    body, _ = await everruns_body(request, ToolApprovals)
    return json_response(await answering.approvals(body))


async def _answering(request: Request) -> Answering:
    desk, sid, who = await entered(request, "answer")
    session = await desk.hub.store.session(sid)
    check_catalog(session)
    by = answerer(who, "http", request.headers.get("user-agent", ""))
    return Answering(desk.hub.prompts, sid, session.status, by, secrets=who.secrets)
