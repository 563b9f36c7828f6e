"""The part of the OpenAPI document that describes prompts (protocol.md §8)."""

from __future__ import annotations

from typing import Final, get_args

from sessionwire_schemas.prompt import PromptState
from sessionwire_schemas.prompt_rules import PromptKind
from sessionwire_server.openapi_parts import (
    COUNT,
    FLAG,
    OFF,
    SID,
    TEXT,
    TIME,
    Json,
    answer,
    body,
    object_of,
    operation,
    or_null,
    query,
    ref,
)
from sessionwire_server.prompt_bodies import AnswerPrompt, ClaimPrompt, ReleasePrompt

__all__ = ["PROMPT_SCHEMAS", "prompt_paths"]

_RID: Final[Json] = {
    "name": "rid",
    "in": "path",
    "required": True,
    "description": "The producer's request id, percent-encoded; `%2F` for a slash.",
    "schema": TEXT,
}

_PAGE: Final = (
    query(
        "limit",
        "Most prompts of the page.",
        {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
    ),
    query("page_token", "`next_page_token` of the page before."),
)


def _statuses(text: str, words: list[str]) -> Json:
    return query("status", text, {"type": "array", "items": {"enum": words}})


def prompt_paths() -> Json:
    """Build the paths of the document that concern prompts."""
    every, open_ones = _STATUS["enum"], ["pending", "claimed", "answered"]
    return {
        "/v1/prompts": {
            "get": operation(
                "listOpenPrompts",
                "List the open prompts of every session that the token may read.",
                {"200": answer("A page; it may hold few, and another follow.", ref("PromptPage"))},
                parameters=(_statuses("Only these; repeat it for more.", open_ones), *_PAGE),
            )
        },
        "/v1/sessions/{sid}/prompts": {
            "parameters": [SID],
            "get": operation(
                "listPrompts",
                "List the prompts of a session.",
                {"200": answer("A page.", ref("PromptPage"))},
                parameters=(
                    _statuses("Only these, repeat it for more; by default the open ones.", every),
                    *_PAGE,
                ),
            ),
        },
        "/v1/sessions/{sid}/prompts/{rid}": {
            "parameters": [SID, _RID],
            "get": operation(
                "getPrompt",
                "Show a prompt, at once or when it has changed.",
                {"200": answer("It.", ref("Prompt"))},
                parameters=(
                    query(
                        "wait_s",
                        "Wait so long for its next change, unless it is closed.",
                        {"type": "integer", "minimum": 0, "maximum": 30, "default": 0},
                    ),
                    query("secrets", "With what was cut out of it; needs the mark.", OFF),
                ),
            ),
        },
        "/v1/sessions/{sid}/prompts/{rid}/answer": {
            "parameters": [SID, _RID],
            "post": operation(
                "answerPrompt",
                "Answer a prompt; the first answer wins.",
                {"200": answer("It was the first, or is the first again.", ref("Prompt"))},
                parameters=(
                    {
                        "name": "Idempotency-Key",
                        "in": "header",
                        "description": "Makes the same answer safe to send again.",
                        "schema": {"type": "string", "maxLength": 256},
                    },
                ),
                body=body(ref("AnswerPrompt"), required=False),
            ),
        },
        "/v1/sessions/{sid}/prompts/{rid}/claim": {
            "parameters": [SID, _RID],
            "post": operation(
                "claimPrompt",
                "Claim a prompt that a program answers, or renew the claim.",
                {"200": answer("While it lasts only its holder may answer.", ref("PromptClaim"))},
                body=body(ref("ClaimPrompt"), required=False),
            ),
            "delete": operation(
                "releasePrompt",
                "Give a claim back.",
                {"204": answer("Given back.")},
                parameters=(query("claim_id", "The claim, where no body names it."),),
                body=body(ref("ReleasePrompt"), required=False),
            ),
        },
    }


_STATUS: Final[Json] = {"enum": ["pending", "claimed", *get_args(PromptState)[1:]]}

_BY: Final = object_of(
    "",
    {
        "host": {"const": True, "description": "The host's own completed event."},
        "name": or_null(TEXT),
        "human": FLAG,
        "via": {"type": "string", "description": "The transport, and what the program is called."},
    },
)


def _prompt() -> Json:
    always: Json = {
        "request_id": TEXT,
        "session_id": TEXT,
        "kind": {"enum": list(get_args(PromptKind))},
        "status": ref("PromptStatus"),
        "event": or_null(ref("Event")),
        "opened_at": TIME,
        "expires_at": or_null(TIME),
        "claim": or_null(object_of("by expires_at", {"by": TEXT, "expires_at": TIME})),
        "answer": {"description": "Any value; `{redacted: true}` for credentials."},
        "answered_by": or_null(_BY),
        "answered_at": or_null(TIME),
        "unattended": {
            "type": ["boolean", "null"],
            "description": "Nobody able to answer is connected; null where it does not wait.",
        },
    }
    sometimes: Json = {
        "claimable": FLAG,
        "human": {"type": "boolean", "description": "A person has to answer."},
        "secret": {"type": "boolean", "description": "The answer carries credentials."},
        "tool_call_id": TEXT,
        "agent_id": TEXT,
        "turn_id": TEXT,
        "comment": TEXT,
        "closed_at": TIME,
        "took_ms": COUNT,
        "outcome": TEXT,
        "reason": TEXT,
        "closer_id": TEXT,
        "overruled": FLAG,
        "overruled_outcome": TEXT,
        "detail": TEXT,
        "secrets": {"type": "object", "description": "What was cut out of the event's `data`."},
    }
    return object_of(" ".join(always), {**always, **sometimes})


PROMPT_SCHEMAS: Final[Json] = {
    "PromptStatus": _STATUS,
    "Prompt": _prompt(),
    "PromptPage": object_of(
        "data next_page_token",
        {
            "data": {"type": "array", "items": ref("Prompt")},
            "next_page_token": or_null(TEXT),
        },
    ),
    "AnswerPrompt": AnswerPrompt.model_json_schema(),
    "ClaimPrompt": ClaimPrompt.model_json_schema(),
    "ReleasePrompt": ReleasePrompt.model_json_schema(),
    "PromptClaim": object_of("claim_id expires_at", {"claim_id": TEXT, "expires_at": TIME}),
}
