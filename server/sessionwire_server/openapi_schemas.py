"""The schemas that the OpenAPI document refers to."""

from __future__ import annotations

from typing import Final, get_args

from sessionwire_server.api_keys import SCOPES
from sessionwire_server.commands import Acknowledge, SendCommand, Status
from sessionwire_server.openapi_parts import COUNT, FLAG, TEXT, TIME, Json, object_of, or_null
from sessionwire_server.session_resource import STATUSES, CreateSession
from sessionwire_server.tickets import TicketRequest

__all__ = ["SCHEMAS"]

_CURSOR: Final[Json] = {
    "type": "string",
    "description": "A place just after an event; opaque.",
    "examples": ["k2jdyh6q.4.9.osrr2"],
}
_PLACE: Final = "Where a body is broken, as far as it can be told."


def _event() -> Json:
    text = "An event as its producer writes it; every other member is kept."
    return {
        **object_of(
            "type data",
            {
                "id": TEXT,
                "type": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"},
                "data": {"type": "object"},
                "ephemeral": FLAG,
                "timestamp": TEXT,
                "parentId": or_null(TEXT),
                "ts": TEXT,
                "session_id": TEXT,
                "context": {"type": "object"},
            },
            more=True,
        ),
        "description": text,
    }


def _session() -> Json:
    return object_of(
        "id catalog title status created_at updated_at cursor sequence pending_prompts viewers "
        "host steerable organization_id harness_id",
        {
            "id": TEXT,
            "catalog": or_null({"enum": ["copilot", "everruns"]}),
            "title": or_null(TEXT),
            "status": {"$ref": "#/components/schemas/Status"},
            "created_at": TIME,
            "updated_at": TIME,
            "cursor": _CURSOR,
            "sequence": COUNT,
            "pending_prompts": COUNT,
            "viewers": {**COUNT, "description": "Streams of this hub process."},
            "host": object_of("connected since", {"connected": FLAG, "since": or_null(TIME)}),
            "steerable": FLAG,
            "organization_id": TEXT,
            "harness_id": TEXT,
            "tags": {"type": "array", "items": TEXT},
            "last": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Event"},
                "description": "Last values, of one copilot session.",
            },
        },
        more=True,
    )


def _problem() -> Json:
    return object_of(
        "type title status detail code error",
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer"},
            "detail": TEXT,
            "code": {"type": "string", "description": "Stable; for programs."},
            "error": object_of("code message", {"code": TEXT, "message": TEXT}),
            "index": {**COUNT, "description": f"The event. {_PLACE}"},
            "line": {**COUNT, "description": f"The line. {_PLACE}"},
            "offset": {**COUNT, "description": f"The byte. {_PLACE}"},
            "pointer": {"type": "string", "description": f"A JSON Pointer. {_PLACE}"},
            "parameter": {"type": "string", "description": "The query parameter."},
        },
        more=True,
    )


_COMMAND_STATUS: Final[Json] = {"enum": list(get_args(Status))}


def _command() -> Json:
    members: Json = {
        "id": TEXT,
        "cursor": {"type": "string", "description": "A place just after a command; opaque."},
        "type": TEXT,
        "status": _COMMAND_STATUS,
        "by": object_of("id name human", {"id": TEXT, "name": or_null(TEXT), "human": FLAG}),
        "attempt": {**COUNT, "description": "How often it was handed to a host."},
        "created_at": TIME,
        "delivered_at": or_null(TIME),
        "finished_at": or_null(TIME),
        "expires_at": or_null(TIME),
        "detail": or_null(TEXT),
        "event_id": or_null(TEXT),
    }
    return object_of(" ".join(members), members)


_TALLY: Final[Json] = {
    "stored": COUNT,
    "duplicates": COUNT,
    "first_sequence": or_null(COUNT),
    "last_sequence": or_null(COUNT),
    "cursor": or_null(_CURSOR),
}

SCHEMAS: Final[Json] = {
    "Ok": object_of("status", {"status": {"const": "ok"}}),
    "Status": {"enum": list(STATUSES)},
    "Scope": {"enum": sorted(SCOPES)},
    "Event": _event(),
    "EventPage": object_of(
        "data first_sequence last_sequence cursor",
        {
            "data": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
            "first_sequence": or_null(COUNT),
            "last_sequence": or_null(COUNT),
            "cursor": _CURSOR,
            "gap": object_of(
                "reason after_sequence resumed_sequence",
                {"reason": TEXT, "after_sequence": COUNT, "resumed_sequence": COUNT},
            ),
        },
    ),
    "Verdicts": object_of(
        "data",
        {
            "data": {
                "type": "array",
                "items": object_of(
                    "id cursor sequence duplicate",
                    {
                        "id": TEXT,
                        "cursor": _CURSOR,
                        "sequence": or_null(COUNT),
                        "duplicate": FLAG,
                    },
                ),
            }
        },
    ),
    "Tally": object_of(" ".join(_TALLY), _TALLY),
    "Summary": object_of(
        "total by_type turn_count error_count",
        {
            "total": COUNT,
            "by_type": {
                "type": "array",
                "items": object_of("event_type count", {"event_type": TEXT, "count": COUNT}),
            },
            "first_ts": TIME,
            "last_ts": TIME,
            "turn_count": COUNT,
            "error_count": COUNT,
        },
    ),
    "Session": _session(),
    "SessionPage": object_of(
        "data next_page_token total offset limit",
        {
            "data": {"type": "array", "items": {"$ref": "#/components/schemas/Session"}},
            "next_page_token": or_null(TEXT),
            "total": COUNT,
            "offset": COUNT,
            "limit": COUNT,
        },
    ),
    "SendCommand": SendCommand.model_json_schema(),
    "Accepted": object_of(
        "id status cursor", {"id": TEXT, "status": _COMMAND_STATUS, "cursor": TEXT}
    ),
    "Acknowledge": Acknowledge.model_json_schema(),
    "Command": _command(),
    "CreateSession": CreateSession.model_json_schema(),
    "TicketRequest": TicketRequest.model_json_schema(),
    "Ticket": object_of("ticket expires_at", {"ticket": TEXT, "expires_at": TIME}),
    "Problem": _problem(),
}
