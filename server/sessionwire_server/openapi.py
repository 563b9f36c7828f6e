"""The OpenAPI 3.1 document of what this version serves (protocol.md §4.9).

Written by hand in tables, and held against the route table by a test: an operation that is missing
here or there fails.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any, Final

from sessionwire_server.openapi_schemas import SCHEMAS

__all__ = ["document"]

Json = dict[str, Any]

DOCUMENT_VERSION: Final = "3.1.0"


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, text: str, schema: Json | None = None) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": text,
        "schema": schema or {"type": "string"},
    }


_INTEGER: Final[Json] = {"type": "integer", "minimum": 0}
_STRINGS: Final[Json] = {"type": "array", "items": {"type": "string"}}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_FLAG: Final[Json] = {"type": "boolean", "default": False}

_TYPES: Final = (
    _query("types", "Keep only these event types.", _STRINGS),
    _query("exclude", "Leave these event types out, after `types`.", _STRINGS),
)
_REWOUND: Final = _query("include_rewound", "Show what a rewind has hidden.", _FLAG)
_TICKET: Final = _query("ticket", "A ticket, instead of a key.")
_LIST_SESSIONS: Final = (
    _query("status", "Only these.", {"enum": list(SCHEMAS["Status"]["enum"])}),
    _query("catalog", "Only these.", {"enum": ["copilot", "everruns"]}),
    _query("q", "Part of the title or id, in any case."),
    _query("search", "The same as `q`."),
)

_LIST_EVENTS: Final = (
    _query("since_id", "Begin after this event id or cursor."),
    _query("after_sequence", "Begin after this sequence; `limit` then keeps the first.", _INTEGER),
    _query("before_sequence", "End before this sequence.", _INTEGER),
    _query("around", "Id of the event in the middle; excludes the three above."),
    _query(
        "window",
        "Sequences on each side of `around`.",
        {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    ),
    *_TYPES,
    _query("from_ts", "The event's own time is not before this.", _TIME),
    _query("to_ts", "The event's own time is not after this.", _TIME),
    _query("turn_id", "Equal to `context.turn_id`."),
    _query("exec_id", "Equal to `context.exec_id`."),
    _query("trace_id", "Equal to `context.trace_id`."),
    _query("tags", "Has any of these tags.", {**_STRINGS, "maxItems": 20}),
    _query("tool_name", "Equal to the tool's name in `data`."),
    _query("q", "Every word of it stands in `data`, in any case."),
    _query(
        "limit",
        "Keep the last of them (the first, after `after_sequence`); absent: all.",
        {"type": "integer", "minimum": 1, "maximum": 1000},
    ),
    _query("order_desc", "The newest first.", _FLAG),
    _REWOUND,
)

_STREAM: Final = (
    {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "Cursor of the last event received; a browser sends it by itself.",
        "schema": {"type": "string"},
    },
    _query("lastEventId", "Like the header."),
    _query("last_event_id", "Like the header."),
    _query("since_id", "Begin after this event id or cursor."),
    _query("after_sequence", "Begin after this sequence, 0 for the whole session.", _INTEGER),
    _query("from", "`start`, `now` or `-N`, where no place is given."),
    *_TYPES,
    _query("agents", "Keep events of these agents (`primary` or an id; copilot).", _STRINGS),
    _query("control", "Send the hub's own frames.", _FLAG),
    _query("names", "Whether frames carry `event:`.", {"type": "boolean", "default": True}),
    _TICKET,
)


def _answer(text: str, schema: Json | None = None, media: str = "application/json") -> Json:
    content = {} if schema is None else {"content": {media: {"schema": schema}}}
    return {"description": text, **content}


def _body(schema: Json, *more: str, required: bool = True) -> Json:
    content = {"application/json": {"schema": schema}}
    content |= {media: {"schema": {"type": "string"}} for media in more}
    return {"required": required, "content": content}


def _operation(
    name: str,
    summary: str,
    answers: Json,
    *,
    parameters: tuple[Json, ...] = (),
    body: Json | None = None,
    is_open: bool = False,
) -> Json:
    operation: Json = {
        "operationId": name,
        "summary": summary,
        "responses": {**answers, "default": {"$ref": "#/components/responses/Problem"}},
    }
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = body
    if is_open:
        operation["security"] = []
    return operation


_SID: Final[Json] = {
    "name": "sid",
    "in": "path",
    "required": True,
    "description": "The session.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
}

_EVENT_STREAM: Final = _answer("An event stream.", {"type": "string"}, "text/event-stream")
_EVENT_PAGE: Final[Json] = {
    **_answer("Durable events, the oldest first.", _ref("EventPage")),
    "headers": {
        "X-Total-Count": {
            "description": "With `limit`: durable events but for the types excluded.",
            "schema": _INTEGER,
        }
    },
}


def _session_paths() -> Json:
    return {
        "/v1/sessions": {
            "get": _operation(
                "listSessions",
                "List sessions, the newest activity first.",
                {"200": _answer("A page.", _ref("SessionPage"))},
                parameters=(
                    *_LIST_SESSIONS,
                    _query("agent_id", "Only sessions created with it."),
                    _query(
                        "limit",
                        "Most sessions of the page.",
                        {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
                    ),
                    _query("page_token", "`next_page_token` of the page before."),
                ),
            ),
            "post": _operation(
                "createSession",
                "Create a session.",
                {
                    "200": _answer("It is there already, the same.", _ref("Session")),
                    "201": _answer("Created.", _ref("Session")),
                },
                body=_body(_ref("CreateSession"), required=False),
            ),
        },
        "/v1/sessions/sse": {
            "get": _operation(
                "streamSessions",
                "Follow the list: a snapshot, then changes.",
                {"200": _EVENT_STREAM},
                parameters=(*_LIST_SESSIONS, _TICKET),
            )
        },
        "/v1/sessions/{sid}": {
            "parameters": [_SID],
            "get": _operation(
                "getSession", "Show a session.", {"200": _answer("It.", _ref("Session"))}
            ),
            "delete": _operation("deleteSession", "Delete a session.", {"204": _answer("Gone.")}),
        },
    }


def _event_paths() -> Json:
    return {
        "/v1/sessions/{sid}/events": {
            "parameters": [_SID],
            "get": _operation(
                "listEvents",
                "List durable events.",
                {"200": _EVENT_PAGE},
                parameters=_LIST_EVENTS,
            ),
            "post": _operation(
                "publishEvents",
                "Publish an event, an array of them (all or none), or lines of any length.",
                {
                    "200": _answer(
                        "Stored; lines are answered with a tally.",
                        {"oneOf": [_ref("Verdicts"), _ref("Tally")]},
                    )
                },
                body=_body(
                    {
                        "oneOf": [
                            _ref("Event"),
                            {"type": "array", "items": _ref("Event"), "maxItems": 256},
                        ]
                    },
                    "application/x-ndjson",
                ),
            ),
        },
        "/v1/sessions/{sid}/events/summary": {
            "parameters": [_SID],
            "get": _operation(
                "summarizeEvents",
                "Count durable events by type.",
                {"200": _answer("The counts.", _ref("Summary"))},
            ),
        },
        "/v1/sessions/{sid}/export": {
            "parameters": [_SID],
            "get": _operation(
                "exportEvents",
                "All durable events, one a line.",
                {"200": _answer("The log.", {"type": "string"}, "application/x-ndjson")},
                parameters=(_REWOUND,),
            ),
        },
        "/v1/sessions/{sid}/sse": {
            "parameters": [_SID],
            "get": _operation(
                "streamEvents",
                "Follow a session.",
                {"200": _EVENT_STREAM, "204": _answer("The session was deleted.")},
                parameters=_STREAM,
            ),
        },
    }


_CID: Final[Json] = {
    "name": "cid",
    "in": "path",
    "required": True,
    "description": "The command.",
    "schema": {"type": "string"},
}

_HOST: Final = (
    _STREAM[0],
    *(_query(name, "Like the header.") for name in ("lastEventId", "last_event_id", "since_id")),
    _query("host_id", "The host's own name; the key's by default."),
    _query("takeover", "Replace another host.", _FLAG),
    _TICKET,
)


def _command_paths() -> Json:
    return {
        "/v1/sessions/{sid}/commands": {
            "parameters": [_SID],
            "post": _operation(
                "sendCommand",
                "Send a command to the session's host.",
                {"202": _answer("It is kept until the host acknowledges it.", _ref("Accepted"))},
                body=_body(_ref("SendCommand")),
            ),
        },
        "/v1/sessions/{sid}/commands/sse": {
            "parameters": [_SID],
            "get": _operation(
                "hostSession",
                "Be the host: read the commands that are not acknowledged, then what comes.",
                {"200": _EVENT_STREAM},
                parameters=_HOST,
            ),
        },
        "/v1/sessions/{sid}/commands/{cid}": {
            "parameters": [_SID, _CID],
            "get": _operation(
                "getCommand",
                "Show a command, at once or when it has changed.",
                {"200": _answer("It.", _ref("Command"))},
                parameters=(
                    _query(
                        "wait_s",
                        "Wait so long for its next change, unless it has finished.",
                        {"type": "integer", "minimum": 0, "maximum": 30, "default": 0},
                    ),
                ),
            ),
        },
        "/v1/sessions/{sid}/commands/{cid}/ack": {
            "parameters": [_SID, _CID],
            "post": _operation(
                "acknowledgeCommand",
                "Say what the host made of a command.",
                {"200": _answer("The command.", _ref("Command"))},
                body=_body(_ref("Acknowledge")),
            ),
        },
    }


def _other_paths() -> Json:
    plain = {"type": "string"}
    return {
        "/v1/tickets": {
            "post": _operation(
                "createTicket",
                "Make a ticket for the URL of a stream.",
                {"201": _answer("The ticket.", _ref("Ticket"))},
                body=_body(_ref("TicketRequest"), required=False),
            )
        },
        "/v1/sign-in": {
            "post": _operation(
                "signIn", "Trade the key for a cookie.", {"204": _answer("With `Set-Cookie`.")}
            ),
            "delete": _operation(
                "signOut", "Drop the cookie.", {"204": _answer("Dropped.")}, is_open=True
            ),
        },
        "/v1/ws": {
            "get": _operation(
                "openWebSocket",
                "Follow and publish sessions over a WebSocket: JSON-RPC 2.0, see the protocol, §7.",
                {"101": _answer("Subprotocol `sessionwire.v1.jsonrpc`.")},
            )
        },
        "/livez": {
            "get": _operation(
                "live", "The process answers.", {"200": _answer("Alive.", _ref("Ok"))}, is_open=True
            )
        },
        "/readyz": {
            "get": _operation(
                "ready",
                "Redis answers and the live path is proven.",
                {"200": _answer("Ready.", _ref("Ok"))},
                is_open=True,
            )
        },
        "/metrics": {
            "get": _operation(
                "metrics",
                "Counters for Prometheus; open where the settings say so.",
                {"200": _answer("The counters.", plain, "text/plain")},
            )
        },
        "/openapi.json": {
            "get": _operation(
                "openapi",
                "This document.",
                {"200": _answer("OpenAPI 3.1.", {"type": "object"})},
                is_open=True,
            )
        },
    }


@cache
def document() -> Json:
    """Build the document."""
    return {
        "openapi": DOCUMENT_VERSION,
        "info": {
            "title": "sessionwire",
            "version": version("sessionwire"),
            "description": "The event bus for AI agent sessions.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}, {"url": "/api", "description": "The same."}],
        "security": [{"bearer": []}, {"bare": []}, {"cookie": []}],
        "paths": {**_session_paths(), **_event_paths(), **_command_paths(), **_other_paths()},
        "components": {
            "schemas": SCHEMAS,
            "responses": {
                "Problem": _answer("An error.", _ref("Problem"), "application/problem+json")
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "bare": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "The key itself.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "sessionwire_8787",
                    "description": "The console's cookie; its name ends with the hub's port.",
                },
            },
        },
    }
