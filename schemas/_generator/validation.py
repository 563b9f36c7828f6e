"""JSON Schemas that validate one event by its type, `_copilot.schema.json` and its sister.

A plain union tells of a bad event only that no branch fits. Here the type is looked up first, by
halves, with the deltas ahead of all others; then exactly one definition judges the event, and an
error names its place. Types that are in no branch pass.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["render_schema"]

_EVENT = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}


def render_schema(title: str, definitions: dict[str, Any], hot: frozenset[str]) -> str:
    """Write the JSON Schema (draft-07) of one event, one definition a line.

    Args:
        title: what the schema calls itself.
        definitions: the catalog's, with a `SessionEvent` union.
        hot: the types that nearly all events have.
    """
    refs = [branch["$ref"] for branch in definitions["SessionEvent"]["anyOf"]]
    types = {_type_of(definitions, ref): ref for ref in refs}
    streamed = {name: ref for name, ref in types.items() if name in hot}
    others = {name: ref for name, ref in types.items() if name not in hot}
    root = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        **_EVENT,
        "if": _has_type(list(streamed)),
        "then": _choose(list(streamed.items())),
        "else": _choose(list(others.items())),
    }
    lines = [f"  {_compact(name)}: {_compact(value)}" for name, value in root.items()]
    named = [
        f"    {_compact(name)}: {_compact(value)}"
        for name, value in definitions.items()
        if name != "SessionEvent"
    ]
    body = ",\n".join([*lines, '  "definitions": {\n' + ",\n".join(named) + "\n  }"])
    return f"{{\n{body}\n}}\n"


def _choose(types: list[tuple[str, str]]) -> dict[str, Any]:
    if len(types) == 1:
        ((name, ref),) = types
        return {"if": {"properties": {"type": {"const": name}}}, "then": {"$ref": ref}}
    half = len(types) // 2
    return {
        "if": _has_type([name for name, _ in types[:half]]),
        "then": _choose(types[:half]),
        "else": _choose(types[half:]),
    }


def _has_type(names: list[str]) -> dict[str, Any]:
    return {"properties": {"type": {"enum": names}}}


def _type_of(definitions: dict[str, Any], ref: str) -> str:
    event = definitions[ref.rsplit("/", 1)[-1]]
    return str(event["properties"]["type"]["const"])


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
