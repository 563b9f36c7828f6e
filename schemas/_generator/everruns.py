"""The everruns catalog brought into the shape of the copilot one: named definitions.

Its pinned file prints every object where it is used. Here each distinct object becomes a definition
once, so that one renderer and one way to validate serve both catalogs.
"""

from __future__ import annotations

import json
from typing import Any

from _generator.names import class_name, everruns_event_name, singular

__all__ = ["definitions_of"]

_NAMED = {
    "act.started/tool_calls[]": "ToolCallSummary",
    "input.message/message": "Message",
    "input.message/message/content[]": "ContentPart",
    "llm.generation/metadata": "LlmMetadata",
    "output.message.completed/metadata": "ModelMetadata",
    "output.message.completed/usage": "TokenUsage",
    "task.created/task": "SessionTask",
    "task.message.sent/message": "TaskMessage",
    "tool.started/tool_call": "ToolCall",
}
"""Names of the shared objects, by where each is first met. All others are called after the object
around them and the member they stand in."""

_CONTEXT = {
    "type": "object",
    "properties": {
        name: {"type": "string"}
        for name in (
            "turn_id",
            "input_message_id",
            "exec_id",
            "trace_id",
            "span_id",
            "parent_span_id",
        )
    },
}


def definitions_of(catalog: dict[str, Any]) -> dict[str, Any]:
    """Return JSON Schema definitions: events, their data, what is nested, `SessionEvent`."""
    hoist = _Hoist()
    events: dict[str, Any] = {}
    for event_type, entry in catalog.items():
        name = everruns_event_name(event_type)
        data_name = f"{name.removesuffix('Event')}Data"
        events[name] = _envelope(event_type, data_name, entry["description"])
        hoist.definitions[data_name] = hoist.members(entry["data"], data_name, event_type)
    clashes = events.keys() & hoist.definitions.keys()
    if clashes:
        raise ValueError(f"names used twice: {sorted(clashes)}")
    union = {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in events]}
    return {"SessionEvent": union, "EventContext": _CONTEXT, **hoist.definitions, **events}


def _envelope(event_type: str, data_name: str, description: str) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "type": {"type": "string", "const": event_type},
            "ts": {"type": "string", "format": "date-time"},
            "session_id": {"type": "string"},
            "context": {"$ref": "#/definitions/EventContext"},
            "data": {"$ref": f"#/definitions/{data_name}"},
            "metadata": {},
            "tags": {"type": ["array", "null"], "items": {"type": "string"}},
            "sequence": {"type": "integer"},
        },
        "required": ["id", "type", "ts", "session_id", "context", "data"],
    }


class _Hoist:
    """Moves nested objects and unions into definitions; equal ones share one."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def members(self, schema: dict[str, Any], owner: str, path: str) -> dict[str, Any]:
        """Return an object's schema with what its members nest moved out."""
        if "properties" not in schema:
            return schema
        moved = {
            name: self._value(value, f"{owner}{class_name(name)}", f"{path}/{name}")
            for name, value in schema["properties"].items()
        }
        return {**schema, "properties": moved}

    def _value(self, schema: dict[str, Any], name: str, path: str) -> dict[str, Any]:
        if "anyOf" in schema:
            branches = [branch for branch in schema["anyOf"] if branch != {"type": "null"}]
            inner = branches[0] if len(branches) == 1 else {"anyOf": branches}
            moved = self._value(inner, name, path) if len(branches) == 1 else None
            moved = moved or self._union(inner, name, path)
            nullable = len(branches) < len(schema["anyOf"])
            return {"anyOf": [moved, {"type": "null"}]} if nullable else moved
        if schema.get("type") == "object" and "properties" in schema:
            return self._move(schema, name, path)
        if isinstance(schema.get("items"), dict):
            item = self._value(schema["items"], _item_name(name), f"{path}[]")
            return {**schema, "items": item}
        return schema

    def _move(self, schema: dict[str, Any], name: str, path: str) -> dict[str, Any]:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._names:
            name = self._claim(key, name, path)
            self.definitions[name] = self.members(schema, name, path)
        return {"$ref": f"#/definitions/{self._names[key]}"}

    def _union(self, schema: dict[str, Any], name: str, path: str) -> dict[str, Any]:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._names:
            name = self._claim(key, name, path)
            self.definitions[name] = {
                "anyOf": [self._branch(branch, name, path) for branch in schema["anyOf"]]
            }
        return {"$ref": f"#/definitions/{self._names[key]}"}

    def _branch(self, schema: dict[str, Any], union: str, path: str) -> dict[str, Any]:
        member = "kind" if "kind" in schema["properties"] else "type"
        (tag,) = schema["properties"][member]["enum"]
        tagged = {**schema["properties"], member: {"type": "string", "const": tag}}
        # Below a branch the path is of no use as a hint: several branches share it.
        return self._move({**schema, "properties": tagged}, union + class_name(tag), f"{path}|")

    def _claim(self, key: str, name: str, path: str) -> str:
        name = _NAMED.get(path, name)
        if name in self.definitions:
            raise ValueError(f"two different objects would be called {name!r}: see {path}")
        self._names[key] = name
        self.definitions[name] = {}
        return name


def _item_name(name: str) -> str:
    return singular(name)
