"""Checks the content of an elicitation against its `requestedSchema` (MCP elicitation, form mode).

Such a schema is flat: an object of strings, numbers, booleans and lists of strings. This knows the
keywords that are defined for those, and nothing else: what it does not know it lets pass, a
`pattern` among it, for an agent's regular expression could stall the hub.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Final, cast

from sessionwire_schemas.answer_faults import Fault, pointer
from sessionwire_schemas.outcomes import canonical

__all__ = ["content_faults"]

Schema = Mapping[str, object]

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
"""RFC 3986 as far as a form needs it: a scheme, and no spaces."""


def content_faults(
    schema: object, content: Mapping[str, object], *, at: tuple[str, ...] = ()
) -> Iterator[Fault]:
    """Yield what is wrong with the content of a form.

    Args:
        schema: the `requestedSchema`; anything but an object asks for nothing.
        content: the members that were filled in.
        at: where the content stands in the answer.
    """
    if not isinstance(schema, Mapping):
        return
    known = cast("Schema", schema)
    properties = known.get("properties")
    fields: Schema = cast("Schema", properties) if isinstance(properties, Mapping) else {}
    required = known.get("required")
    for name in cast("list[object]", required) if isinstance(required, list) else []:
        if isinstance(name, str) and name not in content:
            yield Fault(pointer(*at, name), "is required")
    for name, value in content.items():
        field = fields.get(name)
        if isinstance(field, Mapping):
            yield from _value_faults(cast("Schema", field), value, (*at, name))
        elif known.get("additionalProperties") is False:
            yield Fault(pointer(*at, name), "is not asked for")


def _value_faults(schema: Schema, value: object, at: tuple[str | int, ...]) -> Iterator[Fault]:
    types = schema.get("type")
    names = cast("list[object]", types) if isinstance(types, list) else [types]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if known and not any(_TYPES[name](value) for name in known):
        yield Fault(pointer(*at), f"must be of type {' or '.join(known)}")
        return
    choices = _choices(schema)
    if choices is not None and canonical(value) not in choices:
        yield Fault(pointer(*at), "is none of the choices")
    if isinstance(value, str):
        yield from _text_faults(schema, value, at)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_faults(schema, value, at)
    elif isinstance(value, list):
        yield from _list_faults(schema, cast("list[object]", value), at)


def _choices(schema: Schema) -> set[str] | None:
    """Return the values that are allowed, spelled canonically; None for any."""
    if "const" in schema:
        return {canonical(schema["const"])}
    values = schema.get("enum")
    if isinstance(values, list):
        return {canonical(value) for value in cast("list[object]", values)}
    for keyword in ("oneOf", "anyOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            titled = [cast("Schema", b) for b in cast("list[object]", branches) if _is_const(b)]
            if len(titled) == len(cast("list[object]", branches)):
                return {canonical(branch["const"]) for branch in titled}
    return None


def _is_const(branch: object) -> bool:
    return isinstance(branch, Mapping) and "const" in branch


def _limit(schema: Schema, keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length_faults(
    schema: Schema, names: tuple[str, str], size: int, unit: str, at: tuple[str | int, ...]
) -> Iterator[Fault]:
    least, most = (_limit(schema, name) for name in names)
    if least is not None and size < least:
        yield Fault(pointer(*at), f"must have at least {least} {unit}")
    if most is not None and size > most:
        yield Fault(pointer(*at), f"must have at most {most} {unit}")


def _text_faults(schema: Schema, value: str, at: tuple[str | int, ...]) -> Iterator[Fault]:
    yield from _length_faults(schema, ("minLength", "maxLength"), len(value), "characters", at)
    name = schema.get("format")
    fits = _FORMATS.get(name) if isinstance(name, str) else None
    if fits is not None and not fits(value):
        yield Fault(pointer(*at), f"must have the format {name}")


def _number_faults(schema: Schema, value: float, at: tuple[str | int, ...]) -> Iterator[Fault]:
    least, above = _limit(schema, "minimum"), _limit(schema, "exclusiveMinimum")
    most, below = _limit(schema, "maximum"), _limit(schema, "exclusiveMaximum")
    if least is not None and value < least:
        yield Fault(pointer(*at), f"must be at least {least}")
    if above is not None and value <= above:
        yield Fault(pointer(*at), f"must be above {above}")
    if most is not None and value > most:
        yield Fault(pointer(*at), f"must be at most {most}")
    if below is not None and value >= below:
        yield Fault(pointer(*at), f"must be below {below}")


def _list_faults(schema: Schema, value: list[object], at: tuple[str | int, ...]) -> Iterator[Fault]:
    yield from _length_faults(schema, ("minItems", "maxItems"), len(value), "items", at)
    if schema.get("uniqueItems") is True and len({canonical(v) for v in value}) < len(value):
        yield Fault(pointer(*at), "must not repeat an item")
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            yield from _value_faults(cast("Schema", items), item, (*at, index))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return _is_number(value) and float(cast("float", value)).is_integer()


def _is_email(value: str) -> bool:
    name, at, host = value.rpartition("@")
    return bool(name and at and host) and not any(char.isspace() for char in value)


def _is_uri(value: str) -> bool:
    return _URI.fullmatch(value) is not None


def _is_date(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return len(value) == len("2026-01-31")


def _is_date_time(value: str) -> bool:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return False
    return time.tzinfo is not None and "T" in value.upper()


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, Mapping),
    "string": lambda value: isinstance(value, str),
}

_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "email": _is_email,
    "uri": _is_uri,
}
