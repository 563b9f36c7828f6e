"""The schemas that the OpenAPI document refers to."""

from __future__ import annotations

from typing import Any, Final, get_args

from sessionwire_server.api_keys import SCOPES
from sessionwire_server.commands import Acknowledge, SendCommand, Status
from sessionwire_server.session_resource import STATUSES, CreateSession
from sessionwire_server.tickets import TicketRequest

__all__ = ["SCHEMAS"]

Json = dict[str, Any]


def _object(required: str, properties: Json, *, more: bool = False) -> Json:
    schema: Json = {"type": "object", "properties": properties, "required": required.split()}
    return schema if more else {**schema, "additionalProperties": False}


def _or_null(schema: Json) -> Json:
    return {"oneOf": [schema, {"type": "null"}]}


_TEXT: Final[Json] = {"type": "string"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_FLAG: Final[Json] = {"type": "boolean"}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_CURSOR: Final[Json] = {
    "type": "string",
    "description": "A place just after an event; opaque.",
    "examples": ["k2jdyh6q.4.9.osrr2"],
}
_PLACE: Final = "Where a body is broken, as far as it can be told."


def _event() -> Json:
    text = "An event as its producer writes it; every other member is kept."
    return {
        **_object(
            "type data",
            {
                "id": _TEXT,
                "type": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"},
                "data": {"type": "object"},
                "ephemeral": _FLAG,
                "timestamp": _TEXT,
                "parentId": _or_null(_TEXT),
                "ts": _TEXT,
                "session_id": _TEXT,
                "context": {"type": "object"},
            },
            more=True,
        ),
        "description": text,
    }


def _session() -> Json:
    return _object(
        "id catalog title status created_at updated_at cursor sequence pending_prompts viewers "
        "host steerable organization_id harness_id",
        {
            "id": _TEXT,
            "catalog": _or_null({"enum": ["copilot", "everruns"]}),
            "title": _or_null(_TEXT),
            "status": {"$ref": "#/components/schemas/Status"},
            "created_at": _TIME,
            "updated_at": _TIME,
            "cursor": _CURSOR,
            "sequence": _COUNT,
            "pending_prompts": _COUNT,
            "viewers": {**_COUNT, "description": "Streams of this hub process."},
            "host": _object("connected since", {"connected": _FLAG, "since": _or_null(_TIME)}),
            "steerable": _FLAG,
            "organization_id": _TEXT,
            "harness_id": _TEXT,
            "tags": {"type": "array", "items": _TEXT},
            "last": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Event"},
                "description": "Last values, of one copilot session.",
            },
        },
        more=True,
    )


def _problem() -> Json:
    return _object(
        "type title status detail code error",
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": {"type": "string", "description": "Stable; for programs."},
            "error": _object("code message", {"code": _TEXT, "message": _TEXT}),
            "index": {**_COUNT, "description": f"The event. {_PLACE}"},
            "line": {**_COUNT, "description": f"The line. {_PLACE}"},
            "offset": {**_COUNT, "description": f"The byte. {_PLACE}"},
            "pointer": {"type": "string", "description": f"A JSON Pointer. {_PLACE}"},
            "parameter": {"type": "string", "description": "The query parameter."},
        },
        more=True,
    )


_COMMAND_STATUS: Final[Json] = {"enum": list(get_args(Status))}


def _command() -> Json:
    members: Json = {
        "id": _TEXT,
        "cursor": {"type": "string", "description": "A place just after a command; opaque."},
        "type": _TEXT,
        "status": _COMMAND_STATUS,
        "by": _object("id name human", {"id": _TEXT, "name": _or_null(_TEXT), "human": _FLAG}),
        "attempt": {**_COUNT, "description": "How often it was handed to a host."},
        "created_at": _TIME,
        "delivered_at": _or_null(_TIME),
        "finished_at": _or_null(_TIME),
        "expires_at": _or_null(_TIME),
        "detail": _or_null(_TEXT),
        "event_id": _or_null(_TEXT),
    }
    return _object(" ".join(members), members)


_TALLY: Final[Json] = {
    "stored": _COUNT,
    "duplicates": _COUNT,
    "first_sequence": _or_null(_COUNT),
    "last_sequence": _or_null(_COUNT),
    "cursor": _or_null(_CURSOR),
}

SCHEMAS: Final[Json] = {
    "Ok": _object("status", {"status": {"const": "ok"}}),
    "Status": {"enum": list(STATUSES)},
    "Scope": {"enum": sorted(SCOPES)},
    "Event": _event(),
    "EventPage": _object(
        "data first_sequence last_sequence cursor",
        {
            "data": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
            "first_sequence": _or_null(_COUNT),
            "last_sequence": _or_null(_COUNT),
            "cursor": _CURSOR,
            "gap": _object(
                "reason after_sequence resumed_sequence",
                {"reason": _TEXT, "after_sequence": _COUNT, "resumed_sequence": _COUNT},
            ),
        },
    ),
    "Verdicts": _object(
        "data",
        {
            "data": {
                "type": "array",
                "items": _object(
                    "id cursor sequence duplicate",
                    {
                        "id": _TEXT,
                        "cursor": _CURSOR,
                        "sequence": _or_null(_COUNT),
                        "duplicate": _FLAG,
                    },
                ),
            }
        },
    ),
    "Tally": _object(" ".join(_TALLY), _TALLY),
    "Summary": _object(
        "total by_type turn_count error_count",
        {
            "total": _COUNT,
            "by_type": {
                "type": "array",
                "items": _object("event_type count", {"event_type": _TEXT, "count": _COUNT}),
            },
            "first_ts": _TIME,
            "last_ts": _TIME,
            "turn_count": _COUNT,
            "error_count": _COUNT,
        },
    ),
    "Session": _session(),
    "SessionPage": _object(
        "data next_page_token total offset limit",
        {
            "data": {"type": "array", "items": {"$ref": "#/components/schemas/Session"}},
            "next_page_token": _or_null(_TEXT),
            "total": _COUNT,
            "offset": _COUNT,
            "limit": _COUNT,
        },
    ),
    "SendCommand": SendCommand.model_json_schema(),
    "Accepted": _object(
        "id status cursor", {"id": _TEXT, "status": _COMMAND_STATUS, "cursor": _TEXT}
    ),
    "Acknowledge": Acknowledge.model_json_schema(),
    "Command": _command(),
    "CreateSession": CreateSession.model_json_schema(),
    "TicketRequest": TicketRequest.model_json_schema(),
    "Ticket": _object("ticket expires_at", {"ticket": _TEXT, "expires_at": _TIME}),
    "Problem": _problem(),
}
