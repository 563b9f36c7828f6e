"""What the OpenAPI document is spelled with: schemas, parameters, answers, operations."""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "COUNT",
    "FLAG",
    "OFF",
    "SID",
    "STRINGS",
    "TEXT",
    "TIME",
    "Json",
    "answer",
    "body",
    "object_of",
    "operation",
    "or_null",
    "query",
    "ref",
]

Json = dict[str, Any]

TEXT: Final[Json] = {"type": "string"}
COUNT: Final[Json] = {"type": "integer", "minimum": 0}
FLAG: Final[Json] = {"type": "boolean"}
TIME: Final[Json] = {"type": "string", "format": "date-time"}
STRINGS: Final[Json] = {"type": "array", "items": TEXT}

OFF: Final[Json] = {"type": "boolean", "default": False}
"""A flag that is off unless it is given."""

SID: Final[Json] = {
    "name": "sid",
    "in": "path",
    "required": True,
    "description": "The session.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
}
"""The parameter that names the session of a path."""


def ref(name: str) -> Json:
    """Refer to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(required: str, properties: Json, *, more: bool = False) -> Json:
    """Spell the schema of an object.

    Args:
        required: the members it always has, apart by spaces.
        properties: the schema of each member.
        more: it may have others.
    """
    schema: Json = {"type": "object", "properties": properties, "required": required.split()}
    return schema if more else {**schema, "additionalProperties": False}


def or_null(schema: Json) -> Json:
    """Spell a schema that null fits too."""
    return {"oneOf": [schema, {"type": "null"}]}


def query(name: str, text: str, schema: Json | None = None) -> Json:
    """Spell a query parameter, a text unless `schema` says otherwise."""
    return {
        "name": name,
        "in": "query",
        "description": text,
        "schema": schema or {"type": "string"},
    }


def answer(text: str, schema: Json | None = None, media: str = "application/json") -> Json:
    """Spell an answer and what stands in it."""
    content = {} if schema is None else {"content": {media: {"schema": schema}}}
    return {"description": text, **content}


def body(schema: Json, *more: str, required: bool = True) -> Json:
    """Spell a JSON body; `more` are further media types, taken as text."""
    content = {"application/json": {"schema": schema}}
    content |= {media: {"schema": {"type": "string"}} for media in more}
    return {"required": required, "content": content}


def operation(
    name: str,
    summary: str,
    answers: Json,
    *,
    parameters: tuple[Json, ...] = (),
    body: Json | None = None,
    is_open: bool = False,
) -> Json:
    """Spell what a method of a path does; every error is the one response `Problem`.

    Args:
        name: its id, unique in the document.
        summary: what it does.
        answers: by status.
        parameters: those of the query and the headers.
        body: what is sent, None for nothing.
        is_open: it needs no key.
    """
    spelled: Json = {
        "operationId": name,
        "summary": summary,
        "responses": {**answers, "default": {"$ref": "#/components/responses/Problem"}},
    }
    if parameters:
        spelled["parameters"] = list(parameters)
    if body is not None:
        spelled["requestBody"] = body
    if is_open:
        spelled["security"] = []
    return spelled
