"""The part of the OpenAPI document about the verbs of everruns (protocol.md §4.8)."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import BaseModel

from sessionwire_server.everruns_bodies import (
    CreateBudget,
    CreateChannelSession,
    QuestionAnswers,
    SendMessage,
    ToolApprovals,
    ToolResults,
    TopUpBudget,
    UpdateBudget,
)
from sessionwire_server.openapi_parts import (
    COUNT,
    FLAG,
    SID,
    TEXT,
    TIME,
    Json,
    answer,
    body,
    object_of,
    operation,
    query,
    ref,
)

__all__ = ["EVERRUNS_SCHEMAS", "everruns_paths"]

_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Whatever is sent again under it happens once.",
    "schema": {"type": "string", "maxLength": 256},
}

_END_USER: Final[Json] = {
    "name": "End-User",
    "in": "header",
    "description": "The caller's user for whom it asks; only sessions of that user are there.",
    "schema": {"type": "string", "maxLength": 256},
}
_CHANNEL: Final[Json] = {
    "name": "channel",
    "in": "path",
    "required": True,
    "description": "The channel.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"},
}

_ANY: Final[Json] = {"type": "object", "additionalProperties": True}
_NUMBER: Final[Json] = {"type": "number"}
_LIST: Final[Json] = {"type": "array", "items": _ANY}


def _inlined(model: type[BaseModel]) -> Json:
    """Spell a body whose parts are referred to nowhere else."""
    schema = model.model_json_schema()
    parts = cast("Json", schema.pop("$defs", {}))

    def resolved(value: object) -> Any:
        if isinstance(value, dict):
            value = cast("Json", value)
            if "$ref" in value:
                return resolved(parts[str(value["$ref"]).rpartition("/")[2]])
            return {name: resolved(item) for name, item in value.items()}
        if isinstance(value, list):
            return [resolved(item) for item in cast("list[object]", value)]
        return value

    return cast("Json", resolved(schema))


def _channel_session() -> Json:
    words = ["started", "active", "idle", "waitingforinput", "failed"]
    return object_of(
        "id status created_at updated_at",
        {
            "id": TEXT,
            "title": TEXT,
            "status": {"enum": words},
            "last_turn_status": {"enum": ["completed", "failed", "cancelled"]},
            "created_at": TIME,
            "updated_at": TIME,
            "pending_questions": _LIST,
            "pending_approvals": _LIST,
        },
    )


def _budget() -> Json:
    return object_of(
        "id organization_id subject_type subject_id currency limit balance status created_at "
        "updated_at",
        {
            "id": TEXT,
            "organization_id": TEXT,
            "subject_type": {"const": "session"},
            "subject_id": TEXT,
            "currency": TEXT,
            "limit": _NUMBER,
            "balance": _NUMBER,
            "status": {"enum": ["active", "paused", "exhausted", "disabled"]},
            "created_at": TIME,
            "updated_at": TIME,
            "soft_limit": _NUMBER,
            "period": _ANY,
            "metadata": _ANY,
        },
    )


EVERRUNS_SCHEMAS: Final[Json] = {
    "SendMessage": _inlined(SendMessage),
    "ToolResults": _inlined(ToolResults),
    "QuestionAnswers": _inlined(QuestionAnswers),
    "ToolApprovals": _inlined(ToolApprovals),
    "CreateChannelSession": _inlined(CreateChannelSession),
    "ChannelSession": _channel_session(),
    "ChannelSessions": object_of(
        "data",
        {"data": {"type": "array", "items": ref("ChannelSession")}, "next_page_token": TEXT},
    ),
    "Card": object_of(
        "name streaming input auth links",
        {"name": TEXT, "streaming": FLAG, "input": _ANY, "auth": _LIST, "links": _ANY},
    ),
    "RuntimeToken": object_of(
        "access_token token_type expires_in virtual_user_id",
        {
            "access_token": TEXT,
            "token_type": {"const": "Bearer"},
            "expires_in": COUNT,
            "virtual_user_id": TEXT,
        },
    ),
    "ChannelEvents": object_of("data", {"data": {"type": "array", "items": ref("Event")}}),
    "CreateBudget": _inlined(CreateBudget),
    "UpdateBudget": _inlined(UpdateBudget),
    "TopUpBudget": _inlined(TopUpBudget),
    "Budget": _budget(),
    "BudgetCheck": object_of(
        "action",
        {
            "action": {"enum": ["continue", "warn", "pause", "stop"]},
            "message": TEXT,
            "budget_id": TEXT,
            "balance": _NUMBER,
            "currency": TEXT,
        },
    ),
    "Resumed": object_of(
        "resumed_budgets session_id", {"resumed_budgets": COUNT, "session_id": TEXT}
    ),
    "ResultsTaken": object_of("accepted status", {"accepted": COUNT, "status": TEXT}),
    "QuestionsTaken": object_of(
        "status answered_by session_status",
        {"status": TEXT, "answered_by": {"const": "user"}, "session_status": TEXT},
    ),
    "ApprovalsTaken": object_of("resolved status", {"resolved": _LIST, "status": TEXT}),
    "Message": object_of(
        "id role content created_at",
        {
            "id": TEXT,
            "role": {"enum": ["system", "user", "agent", "tool_result"]},
            "content": {"type": "array", "items": _ANY},
            "created_at": TIME,
            "controls": _ANY,
            "external_actor": _ANY,
            "metadata": _ANY,
            "phase": TEXT,
        },
    ),
    "MessageList": object_of("data", {"data": {"type": "array", "items": ref("Message")}}),
    "Cancelled": object_of(
        "status message", {"status": {"enum": ["cancelled", "no_op"]}, "message": TEXT}
    ),
}


def everruns_paths() -> Json:
    """Spell them."""
    session, channel = "/v1/sessions/{sid}", "/v1/channels/{channel}"
    ours = f"{channel}/sessions/{{sid}}"
    return {
        **_talk_paths(session, "", SID),
        **_answer_paths(session, "", SID),
        f"{session}/tool-results": {
            "parameters": [SID],
            "post": operation(
                "submitToolResults",
                "Answer calls of the client's own tools, all of them or none.",
                {"200": answer("Taken.", ref("ResultsTaken"))},
                body=body(ref("ToolResults")),
            ),
        },
        **_budget_paths(),
        **_of_session(session),
        **_channel_paths(channel, ours),
        **_talk_paths(ours, "InChannel", _CHANNEL, SID, _END_USER),
        **_answer_paths(ours, "InChannel", _CHANNEL, SID, _END_USER),
    }


def _talk_paths(base: str, under: str, *parameters: Json) -> Json:
    """Spell the verbs with which somebody talks to the host; `under` ends their ids."""
    messages: Json = {
        "parameters": list(parameters),
        "post": operation(
            f"sendMessage{under}",
            "Send a message: it begins a turn, or steers the one that runs.",
            {"201": answer("The message.", ref("Message"))},
            parameters=(_KEY,),
            body=body(ref("SendMessage")),
        ),
    }
    if not under:
        messages["get"] = operation(
            "listMessages",
            "List what was said, the oldest first.",
            {"200": answer("The messages.", ref("MessageList"))},
        )
    return {
        f"{base}/messages": messages,
        f"{base}/cancel": {
            "parameters": list(parameters),
            "post": operation(
                f"cancelTurn{under}",
                "Have the host stop the turn.",
                {"200": answer("Told, or there was nothing to stop.", ref("Cancelled"))},
            ),
        },
    }


def _answer_paths(base: str, under: str, *parameters: Json) -> Json:
    """Spell the verbs with which a person answers."""
    return {
        f"{base}/question-answers": {
            "parameters": list(parameters),
            "post": operation(
                f"answerQuestions{under}",
                "Answer a set of questions, or decline it.",
                {"200": answer("Taken.", ref("QuestionsTaken"))},
                body=body(ref("QuestionAnswers")),
            ),
        },
        f"{base}/tool-approvals": {
            "parameters": list(parameters),
            "post": operation(
                f"approveTools{under}",
                "Decide about calls that were held back, all of them or none.",
                {"200": answer("Decided.", ref("ApprovalsTaken"))},
                body=body(ref("ToolApprovals")),
            ),
        },
    }


def _of_session(session: str) -> Json:
    """Spell what else is asked of a session."""
    budgets: Json = {"type": "array", "items": ref("Budget")}
    return {
        f"{session}/pin": {
            "parameters": [SID],
            "put": operation("pinSession", "Pin it.", {"204": answer("Pinned.")}),
            "delete": operation(
                "unpinSession", "Pin it no longer.", {"204": answer("Not pinned.")}
            ),
        },
        f"{session}/resume": {
            "parameters": [SID],
            "post": operation(
                "resumeSession",
                "Let what was paused be spent again.",
                {"200": answer("How many budgets were paused.", ref("Resumed"))},
            ),
        },
        f"{session}/budgets": {
            "parameters": [SID],
            "get": operation(
                "listSessionBudgets", "List its budgets.", {"200": answer("They.", budgets)}
            ),
        },
        f"{session}/budget-check": {
            "parameters": [SID],
            "get": operation(
                "checkSessionBudgets",
                "Tell what its budgets let it do.",
                {"200": answer("The strictest.", ref("BudgetCheck"))},
            ),
        },
    }


def _budget_paths() -> Json:
    budget, budgets = ref("Budget"), {"type": "array", "items": ref("Budget")}
    name: Json = {"name": "budget_id", "in": "path", "required": True, "schema": TEXT}
    return {
        "/v1/budgets": {
            "get": operation(
                "listBudgets",
                "List the budgets of a session, or of all.",
                {"200": answer("They.", budgets)},
                parameters=(
                    query("subject_type", "`session`; of anything else there are none."),
                    query("subject_id", "The session."),
                ),
            ),
            "post": operation(
                "createBudget",
                "Make a budget for a session.",
                {"201": answer("It.", budget)},
                body=body(ref("CreateBudget")),
            ),
        },
        "/v1/budgets/{budget_id}": {
            "parameters": [name],
            "get": operation("getBudget", "Show a budget.", {"200": answer("It.", budget)}),
            "patch": operation(
                "updateBudget",
                "Change what is named.",
                {"200": answer("It.", budget)},
                body=body(ref("UpdateBudget")),
            ),
            "delete": operation("deleteBudget", "Drop it.", {"204": answer("Gone.")}),
        },
        "/v1/budgets/{budget_id}/top-up": {
            "parameters": [name],
            "post": operation(
                "topUpBudget",
                "Add to what may be spent.",
                {"200": answer("It.", budget)},
                body=body(ref("TopUpBudget")),
            ),
        },
        "/v1/budgets/{budget_id}/ledger": {
            "parameters": [name],
            "get": operation(
                "listBudgetLedger",
                "List what was added, the newest first.",
                {"200": answer("The entries.", _LIST)},
                parameters=(
                    query("limit", "Most entries.", _up_to(200, 50)),
                    query("offset", "Entries passed by.", COUNT),
                ),
            ),
        },
        "/v1/budgets/{budget_id}/check": {
            "parameters": [name],
            "get": operation(
                "checkBudget",
                "Tell what it lets its session do.",
                {"200": answer("What.", ref("BudgetCheck"))},
            ),
        },
    }


def _channel_paths(channel: str, ours: str) -> Json:
    shown = ref("ChannelSession")
    page = (
        query("limit", "Most sessions of the page.", _up_to(200, 50)),
        query("page_token", "`next_page_token` of the page before."),
    )
    after = query("after_sequence", "Begin after this sequence.", COUNT)
    return {
        channel: {
            "parameters": [_CHANNEL],
            "get": operation(
                "showCard", "What a caller needs to know.", {"200": answer("It.", ref("Card"))}
            ),
        },
        f"{channel}/sessions": {
            "parameters": [_CHANNEL, _END_USER],
            "get": operation(
                "listSessionsInChannel",
                "List the channel's sessions, the newest activity first.",
                {"200": answer("A page.", ref("ChannelSessions"))},
                parameters=page,
            ),
            "post": operation(
                "createSessionInChannel",
                "Begin a session.",
                {"201": answer("It.", shown)},
                parameters=(_KEY,),
                body=body(ref("CreateChannelSession"), required=False),
            ),
        },
        f"{channel}/runtime-auth": {
            "parameters": [_CHANNEL, _END_USER],
            "post": operation(
                "makeRuntimeToken",
                "Make a token for the browser of an end user.",
                {"200": answer("The token.", ref("RuntimeToken"))},
            ),
        },
        ours: {
            "parameters": [_CHANNEL, SID, _END_USER],
            "get": operation(
                "getSessionInChannel",
                "Show a session, and what it waits on from a person.",
                {"200": answer("It.", shown)},
            ),
        },
        f"{ours}/events": {
            "parameters": [_CHANNEL, SID, _END_USER],
            "get": operation(
                "listEventsInChannel",
                "List durable events, the oldest first; an empty page is the end.",
                {"200": answer("A page.", ref("ChannelEvents"))},
                parameters=(after, query("limit", "Most events.", _up_to(500, 100))),
            ),
        },
        f"{ours}/sse": {
            "parameters": [_CHANNEL, SID, _END_USER],
            "get": operation(
                "streamEventsInChannel",
                "Follow a session.",
                {"200": answer("An event stream.", TEXT, "text/event-stream")},
                parameters=(query("since_id", "Begin after this event id or cursor."), after),
            ),
        },
    }


def _up_to(most: int, default: int) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}
