"""Events that open, close and end prompts, published through the hub's own ingest, and answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from sessionwire_schemas.prompt import Answerer
from sessionwire_server.entries import Entry, Verdict
from sessionwire_server.ingest import Ingest
from sessionwire_server.metrics import Metrics
from sessionwire_server.prompt_kept import Answered, Said
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore

__all__ = [
    "ANN",
    "ANSWERS",
    "Event",
    "answer",
    "ask",
    "ask_calls",
    "closer",
    "entries_of",
    "event",
    "publish",
    "refusal",
]

Event = dict[str, Any]

ANN = Answerer("ann", human=True, via="test")

TIME = "2026-08-21T09:00:00.123Z"

ANSWERS: dict[str, Any] = {
    "user_input": {"answer": "yes", "wasFreeform": True},
    "permission": {"kind": "approve-once"},
    "external_tool": {"result": "done"},
    "mcp_oauth": {"kind": "token", "accessToken": "t0p-s3cret"},
    "command": None,
    "tool": {"result": {"rows": 3}},
}
"""An answer that fits, by kind."""

_INGEST = Ingest(Settings(), Metrics())

_ASKED: dict[str, Event] = {
    "user_input": {"question": "?"},
    "permission": {
        "permissionRequest": {
            "kind": "read",
            "toolCallId": "c-{}",
            "path": "/x",
            "intention": "look",
        },
    },
    "external_tool": {"sessionId": "x", "toolCallId": "c-{}", "toolName": "t"},
    "mcp_oauth": {
        "serverName": "s",
        "serverUrl": "https://mcp.example.test",
        "reason": "initial",
        "staticClientConfig": {"clientId": "me", "clientSecret": "hu5h"},
    },
    "command": {"command": "/deploy", "commandName": "deploy", "args": ""},
}

_TYPES = {
    "user_input": ("user_input.requested", "user_input.completed"),
    "permission": ("permission.requested", "permission.completed"),
    "external_tool": ("external_tool.requested", "external_tool.completed"),
    "mcp_oauth": ("mcp.oauth_required", "mcp.oauth_completed"),
    "command": ("command.execute", "command.completed"),
}


def event(event_type: str, data: Event, **members: Any) -> Event:
    """Make an event of the copilot catalog, complete and with an id of its own."""
    one = {"id": str(uuid.uuid4()), "timestamp": TIME, "type": event_type, **members}
    return {**one, "data": data}


def ask(kind: str, name: str, agent: str = "", **data: Any) -> Event:
    """Make the event that asks something."""
    text = json.dumps(_ASKED[kind]).replace("c-{}", f"c-{name}")
    members = {"agentId": agent} if agent else {}
    return event(_TYPES[kind][0], {"requestId": name, **json.loads(text), **data}, **members)


def closer(kind: str, name: str, word: str = "", **members: Any) -> Event:
    """Make the host's completed event; without a word it carries no answer where it need not."""
    data: Event = {"requestId": name}
    if kind == "permission":
        data["result"] = {"kind": word or "cancelled"}
    elif kind == "user_input" and word:
        data["answer"] = word
    elif kind == "mcp_oauth":
        data["outcome"] = word or "cancelled"
    return event(_TYPES[kind][1], data, **members)


def ask_calls(*names: str, turn: str = "", expires_at: str = "") -> Event:
    """Make the everruns event that asks for some calls."""
    arguments = {"expires_at": expires_at} if expires_at else {}
    calls = [{"id": name, "name": "lookup", "arguments": arguments} for name in names]
    return {
        "id": f"event_{uuid.uuid4().hex}",
        "type": "tool.call_requested",
        "ts": TIME,
        "context": {"turn_id": turn} if turn else {},
        "data": {"tool_calls": calls},
    }


def entries_of(sid: str, *events: Event, catalog: Any = "copilot") -> list[Entry]:
    """Prepare events as the hub does."""
    return _INGEST.prepare(json.dumps(events).encode(), sid, catalog).entries


async def publish(
    store: EventStore, sid: str, *events: Event, catalog: Any = "copilot"
) -> list[Verdict]:
    """Publish events as the hub does."""
    entries = entries_of(sid, *events, catalog=catalog)
    return await store.publish(sid, catalog, entries, create=True)


async def answer(
    store: EventStore, sid: str, kind: str, *names: str, by: Answerer = ANN, **members: Any
) -> Sequence[Answered]:
    """Answer prompts of one kind with what fits them."""
    value = members.pop("answer", ANSWERS[kind])
    secrets = members.pop("secrets", True)
    said = [Said(name, value, **members) for name in names]
    return await store.prompts.answer(sid, said, by, secrets=secrets)


def refusal(error: Any) -> tuple[int, str]:
    """Give status and code of a refusal that pytest has caught."""
    return error.value.status, error.value.code
