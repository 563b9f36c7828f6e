"""Names of classes and attributes, made from the catalogs' own names."""

from __future__ import annotations

import keyword
import re

__all__ = ["attribute_name", "class_name", "everruns_event_name", "singular"]

_TAKEN = frozenset(
    {
        *("construct", "copy", "dict", "dump", "dump_json", "from_orm", "json", "parse_file"),
        *("parse_obj", "parse_raw", "schema", "schema_json", "update_forward_refs", "validate"),
    }
)
"""Methods of the models' base classes that a field of that name would hide."""


def attribute_name(member: str) -> str:
    """Spell a member's name as a Python attribute: `deltaContent` becomes `delta_content`."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", member)
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words)
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").lower()
    if not name or name[0].isdigit():
        raise ValueError(f"no attribute name for member {member!r}")
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name


def class_name(text: str) -> str:
    """Spell a type or member as a class name: `output.message.delta` → `OutputMessageDelta`."""
    words = re.split(r"[^A-Za-z0-9]+", text)
    return "".join(word[:1].upper() + word[1:] for word in words)


def everruns_event_name(event_type: str) -> str:
    """Name the model of an everruns event: `turn.started` → `TurnStartedEvent`."""
    return f"{class_name(event_type)}Event"


def singular(member: str) -> str:
    """Name one item of an array: `tool_calls` → `tool_call`."""
    if member.endswith("ies"):
        return f"{member[:-3]}y"
    return member[:-1] if member.endswith("s") and not member.endswith("ss") else member
