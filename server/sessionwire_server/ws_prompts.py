"""Prompts over a WebSocket (protocol.md §7.2, §8): answered, claimed and read as over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.datastructures import QueryParams

from sessionwire_schemas.prompt import Answerer
from sessionwire_server.access import Principal
from sessionwire_server.bodies import model_of
from sessionwire_server.prompt_bodies import (
    AnswerPrompt,
    ClaimPrompt,
    ReleasePrompt,
    answerer,
    idempotency_key,
)
from sessionwire_server.prompt_calls import (
    answer_prompt,
    claim_prompt,
    list_prompts,
    look_at_prompt,
    prompt_shown,
)
from sessionwire_server.query import Query
from sessionwire_server.rpc_call import other_params, read_params
from sessionwire_server.ws_call import Answer, Method, allowed, answer

if TYPE_CHECKING:
    from sessionwire_server.ws_connection import Connection

__all__ = ["PROMPT_METHODS"]


class _Prompt(msgspec.Struct):
    session_id: str
    request_id: str


class _Answered(_Prompt):
    idempotency_key: str = ""


class _Looked(_Prompt):
    secrets: bool = False


class _List(msgspec.Struct):
    session_id: str
    status: tuple[str, ...] = ()
    limit: int | None = None
    page_token: str = ""


_PROMPT: Final = msgspec.json.Decoder(_Prompt)
_ANSWERED: Final = msgspec.json.Decoder(_Answered)
_LOOKED: Final = msgspec.json.Decoder(_Looked)
_LIST: Final = msgspec.json.Decoder(_List)
_PLACE: Final = ("session_id", "request_id")


async def answer_one(connection: Connection, params: bytes) -> Answer:
    """Answer a prompt."""
    given = read_params(params, _ANSWERED)
    who = allowed(connection, "answer", given.session_id)
    key = idempotency_key(given.idempotency_key)
    body = other_params(params, *_PLACE, "idempotency_key")
    said = model_of(body, AnswerPrompt).said(given.request_id, key)
    hub, by = connection.desk.hub, _by(connection, who)
    return answer(await answer_prompt(hub, who, given.session_id, said, by))


async def claim(connection: Connection, params: bytes) -> Answer:
    """Claim a prompt, or renew a claim."""
    given = read_params(params, _PROMPT)
    who = allowed(connection, "answer", given.session_id)
    wanted = model_of(other_params(params, *_PLACE), ClaimPrompt)
    hub, by = connection.desk.hub, _by(connection, who)
    return answer(await claim_prompt(hub, given.session_id, given.request_id, wanted, by))


async def release(connection: Connection, params: bytes) -> Answer:
    """Give a claim back."""
    given = read_params(params, _PROMPT)
    allowed(connection, "answer", given.session_id)
    named = model_of(other_params(params, *_PLACE), ReleasePrompt)
    prompts = connection.desk.hub.prompts
    await prompts.release(given.session_id, given.request_id, named.claim_id)
    return Answer()


async def look(connection: Connection, params: bytes) -> Answer:
    """Show a prompt."""
    given = read_params(params, _LOOKED)
    hub, sid = connection.desk.hub, given.session_id
    reader = allowed(connection, "read", sid)
    looked = await look_at_prompt(hub, reader, sid, given.request_id, secrets=given.secrets)
    return answer(await prompt_shown(hub, reader, sid, looked))


async def list_all(connection: Connection, params: bytes) -> Answer:
    """List the prompts of a session."""
    given = read_params(params, _LIST)
    reader = allowed(connection, "read", given.session_id)
    return answer(await list_prompts(connection.desk.hub, reader, given.session_id, _query(given)))


def _query(given: _List) -> Query:
    """Spell a list's params as a query, which is read in one way only."""
    limit = [] if given.limit is None else [("limit", str(given.limit))]
    statuses = [("status", status) for status in given.status]
    return Query(QueryParams([("page_token", given.page_token), *limit, *statuses]))


def _by(connection: Connection, who: Principal) -> Answerer:
    return answerer(who, "websocket", connection.program)


PROMPT_METHODS: Final[Mapping[str, Method]] = {
    "prompt.answer": answer_one,
    "prompt.claim": claim,
    "prompt.get": look,
    "prompt.list": list_all,
    "prompt.release": release,
}
