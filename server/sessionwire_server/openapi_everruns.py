"""The part of the OpenAPI document about the verbs of everruns (protocol.md §4.8)."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import BaseModel

from sessionwire_server.everruns_bodies import SendMessage
from sessionwire_server.openapi_parts import (
    SID,
    TEXT,
    TIME,
    Json,
    answer,
    body,
    object_of,
    operation,
    ref,
)

__all__ = ["EVERRUNS_SCHEMAS", "everruns_paths"]

_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Whatever is sent again under it happens once.",
    "schema": {"type": "string", "maxLength": 256},
}

_ANY: Final[Json] = {"type": "object", "additionalProperties": True}


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


EVERRUNS_SCHEMAS: Final[Json] = {
    "SendMessage": _inlined(SendMessage),
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
    return _talk_paths("/v1/sessions/{sid}", "", SID)


def _talk_paths(base: str, under: str, *parameters: Json) -> Json:
    """Spell the verbs with which somebody talks to the host; `under` ends their ids."""
    return {
        f"{base}/messages": {
            "parameters": list(parameters),
            "get": operation(
                f"listMessages{under}",
                "List what was said, the oldest first.",
                {"200": answer("The messages.", ref("MessageList"))},
            ),
            "post": operation(
                f"sendMessage{under}",
                "Send a message: it begins a turn, or steers the one that runs.",
                {"201": answer("The message.", ref("Message"))},
                parameters=(_KEY,),
                body=body(ref("SendMessage")),
            ),
        },
        f"{base}/cancel": {
            "parameters": list(parameters),
            "post": operation(
                f"cancelTurn{under}",
                "Have the host stop the turn.",
                {"200": answer("Told, or there was nothing to stop.", ref("Cancelled"))},
            ),
        },
    }
