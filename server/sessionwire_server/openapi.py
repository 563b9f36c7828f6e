"""The OpenAPI 3.1 document of what this version serves (protocol.md §4.9).

Written by hand in tables, and held against the route table by a test: an operation that is missing
here or there fails.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Final

from sessionwire_server.openapi_everruns import EVERRUNS_SCHEMAS, everruns_paths
from sessionwire_server.openapi_parts import (
    COUNT,
    OFF,
    SID,
    STRINGS,
    TIME,
    Json,
    answer,
    body,
    operation,
    query,
    ref,
)
from sessionwire_server.openapi_prompts import PROMPT_SCHEMAS, prompt_paths
from sessionwire_server.openapi_schemas import SCHEMAS

__all__ = ["document"]

DOCUMENT_VERSION: Final = "3.1.0"


_TYPES: Final = (
    query("types", "Keep only these event types.", STRINGS),
    query("exclude", "Leave these event types out, after `types`.", STRINGS),
)
_REWOUND: Final = query("include_rewound", "Show what a rewind has hidden.", OFF)
_TICKET: Final = query("ticket", "A ticket, instead of a key.")
_LIST_SESSIONS: Final = (
    query("status", "Only these.", {"enum": list(SCHEMAS["Status"]["enum"])}),
    query("catalog", "Only these.", {"enum": ["copilot", "everruns"]}),
    query("q", "Part of the title or id, in any case."),
    query("search", "The same as `q`."),
)

_LIST_EVENTS: Final = (
    query("since_id", "Begin after this event id or cursor."),
    query("after_sequence", "Begin after this sequence; `limit` then keeps the first.", COUNT),
    query("before_sequence", "End before this sequence.", COUNT),
    query("around", "Id of the event in the middle; excludes the three above."),
    query(
        "window",
        "Sequences on each side of `around`.",
        {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    ),
    *_TYPES,
    query("from_ts", "The event's own time is not before this.", TIME),
    query("to_ts", "The event's own time is not after this.", TIME),
    query("turn_id", "Equal to `context.turn_id`."),
    query("exec_id", "Equal to `context.exec_id`."),
    query("trace_id", "Equal to `context.trace_id`."),
    query("tags", "Has any of these tags.", {**STRINGS, "maxItems": 20}),
    query("tool_name", "Equal to the tool's name in `data`."),
    query("q", "Every word of it stands in `data`, in any case."),
    query(
        "limit",
        "Keep the last of them (the first, after `after_sequence`); absent: all.",
        {"type": "integer", "minimum": 1, "maximum": 1000},
    ),
    query("order_desc", "The newest first.", OFF),
    _REWOUND,
)

_STREAM: Final = (
    {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "Cursor of the last event received; a browser sends it by itself.",
        "schema": {"type": "string"},
    },
    query("lastEventId", "Like the header."),
    query("last_event_id", "Like the header."),
    query("since_id", "Begin after this event id or cursor."),
    query("after_sequence", "Begin after this sequence, 0 for the whole session.", COUNT),
    query("from", "`start`, `now` or `-N`, where no place is given."),
    *_TYPES,
    query("agents", "Keep events of these agents (`primary` or an id; copilot).", STRINGS),
    query("control", "Send the hub's own frames.", OFF),
    query("names", "Whether frames carry `event:`.", {"type": "boolean", "default": True}),
    _TICKET,
)


_EVENT_STREAM: Final = answer("An event stream.", {"type": "string"}, "text/event-stream")
_EVENT_PAGE: Final[Json] = {
    **answer("Durable events, the oldest first.", ref("EventPage")),
    "headers": {
        "X-Total-Count": {
            "description": "With `limit`: durable events but for the types excluded.",
            "schema": COUNT,
        }
    },
}


def _session_paths() -> Json:
    return {
        "/v1/sessions": {
            "get": operation(
                "listSessions",
                "List sessions, the newest activity first.",
                {"200": answer("A page.", ref("SessionPage"))},
                parameters=(
                    *_LIST_SESSIONS,
                    query("agent_id", "Only sessions created with it."),
                    query(
                        "limit",
                        "Most sessions of the page.",
                        {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
                    ),
                    query("page_token", "`next_page_token` of the page before."),
                ),
            ),
            "post": operation(
                "createSession",
                "Create a session.",
                {
                    "200": answer("It is there already, the same.", ref("Session")),
                    "201": answer("Created.", ref("Session")),
                },
                body=body(ref("CreateSession"), required=False),
            ),
        },
        "/v1/sessions/sse": {
            "get": operation(
                "streamSessions",
                "Follow the list: a snapshot, then changes.",
                {"200": _EVENT_STREAM},
                parameters=(*_LIST_SESSIONS, _TICKET),
            )
        },
        "/v1/sessions/{sid}": {
            "parameters": [SID],
            "get": operation(
                "getSession", "Show a session.", {"200": answer("It.", ref("Session"))}
            ),
            "delete": operation("deleteSession", "Delete a session.", {"204": answer("Gone.")}),
        },
    }


def _event_paths() -> Json:
    return {
        "/v1/sessions/{sid}/events": {
            "parameters": [SID],
            "get": operation(
                "listEvents",
                "List durable events.",
                {"200": _EVENT_PAGE},
                parameters=_LIST_EVENTS,
            ),
            "post": operation(
                "publishEvents",
                "Publish an event, an array of them (all or none), or lines of any length.",
                {
                    "200": answer(
                        "Stored; lines are answered with a tally.",
                        {"oneOf": [ref("Verdicts"), ref("Tally")]},
                    )
                },
                body=body(
                    {
                        "oneOf": [
                            ref("Event"),
                            {"type": "array", "items": ref("Event"), "maxItems": 256},
                        ]
                    },
                    "application/x-ndjson",
                ),
            ),
        },
        "/v1/sessions/{sid}/events/summary": {
            "parameters": [SID],
            "get": operation(
                "summarizeEvents",
                "Count durable events by type.",
                {"200": answer("The counts.", ref("Summary"))},
            ),
        },
        "/v1/sessions/{sid}/export": {
            "parameters": [SID],
            "get": operation(
                "exportEvents",
                "All durable events, one a line.",
                {"200": answer("The log.", {"type": "string"}, "application/x-ndjson")},
                parameters=(_REWOUND,),
            ),
        },
        "/v1/sessions/{sid}/sse": {
            "parameters": [SID],
            "get": operation(
                "streamEvents",
                "Follow a session.",
                {"200": _EVENT_STREAM, "204": answer("The session was deleted.")},
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
    *(query(name, "Like the header.") for name in ("lastEventId", "last_event_id", "since_id")),
    query("host_id", "The host's own name; the key's by default."),
    query("takeover", "Replace another host.", OFF),
    _TICKET,
)


def _command_paths() -> Json:
    return {
        "/v1/sessions/{sid}/commands": {
            "parameters": [SID],
            "post": operation(
                "sendCommand",
                "Send a command to the session's host.",
                {"202": answer("It is kept until the host acknowledges it.", ref("Accepted"))},
                body=body(ref("SendCommand")),
            ),
        },
        "/v1/sessions/{sid}/commands/sse": {
            "parameters": [SID],
            "get": operation(
                "hostSession",
                "Be the host: read the commands that are not acknowledged, then what comes.",
                {"200": _EVENT_STREAM},
                parameters=_HOST,
            ),
        },
        "/v1/sessions/{sid}/commands/{cid}": {
            "parameters": [SID, _CID],
            "get": operation(
                "getCommand",
                "Show a command, at once or when it has changed.",
                {"200": answer("It.", ref("Command"))},
                parameters=(
                    query(
                        "wait_s",
                        "Wait so long for its next change, unless it has finished.",
                        {"type": "integer", "minimum": 0, "maximum": 30, "default": 0},
                    ),
                ),
            ),
        },
        "/v1/sessions/{sid}/commands/{cid}/ack": {
            "parameters": [SID, _CID],
            "post": operation(
                "acknowledgeCommand",
                "Say what the host made of a command.",
                {"200": answer("The command.", ref("Command"))},
                body=body(ref("Acknowledge")),
            ),
        },
    }


def _other_paths() -> Json:
    plain = {"type": "string"}
    return {
        "/v1/tickets": {
            "post": operation(
                "createTicket",
                "Make a ticket for the URL of a stream.",
                {"201": answer("The ticket.", ref("Ticket"))},
                body=body(ref("TicketRequest"), required=False),
            )
        },
        "/v1/sign-in": {
            "post": operation(
                "signIn", "Trade the key for a cookie.", {"204": answer("With `Set-Cookie`.")}
            ),
            "delete": operation(
                "signOut", "Drop the cookie.", {"204": answer("Dropped.")}, is_open=True
            ),
        },
        "/v1/ws": {
            "get": operation(
                "openWebSocket",
                "Follow and publish sessions over a WebSocket: JSON-RPC 2.0, see the protocol, §7.",
                {"101": answer("Subprotocol `sessionwire.v1.jsonrpc`.")},
            )
        },
        "/livez": {
            "get": operation(
                "live", "The process answers.", {"200": answer("Alive.", ref("Ok"))}, is_open=True
            )
        },
        "/readyz": {
            "get": operation(
                "ready",
                "Redis answers and the live path is proven.",
                {"200": answer("Ready.", ref("Ok"))},
                is_open=True,
            )
        },
        "/metrics": {
            "get": operation(
                "metrics",
                "Counters for Prometheus; open where the settings say so.",
                {"200": answer("The counters.", plain, "text/plain")},
            )
        },
        "/openapi.json": {
            "get": operation(
                "openapi",
                "This document.",
                {"200": answer("OpenAPI 3.1.", {"type": "object"})},
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
        "paths": {
            **_session_paths(),
            **_event_paths(),
            **_command_paths(),
            **prompt_paths(),
            **everruns_paths(),
            **_other_paths(),
        },
        "components": {
            "schemas": {**SCHEMAS, **PROMPT_SCHEMAS, **EVERRUNS_SCHEMAS},
            "responses": {
                "Problem": answer("An error.", ref("Problem"), "application/problem+json")
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
