"""Types of model members that take a JSON value as it is and never turn it into another.

Pydantic's own rules would read `"12"` as 12, 3 as 3.0 and 1 as true; an event must come out of a
model as it went in. Unions choose their class by a tag, in one step, and have a class for tags that
nobody knows yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, cast

from pydantic import BaseModel, GetPydanticSchema, Strict
from pydantic_core import core_schema

__all__ = ["UNKNOWN_TAG", "Boolean", "Integer", "Number", "by_members", "by_tag"]

UNKNOWN_TAG: Final = "?"
"""The tag of the branch that takes what no other does; no catalog uses it."""


def _number(*, whole: bool) -> core_schema.CoreSchema:
    fraction = core_schema.float_schema(strict=True, multiple_of=1 if whole else None)
    return core_schema.union_schema([core_schema.int_schema(strict=True), fraction])


Boolean: TypeAlias = Annotated[bool, Strict()]
"""`true` or `false`, not 0 or 1."""

Integer: TypeAlias = Annotated[
    int, GetPydanticSchema(lambda _source, _handler: _number(whole=True))
]
"""A number without fraction. One spelled `3.0` stays a float, for it must be written so again."""

Number: TypeAlias = Annotated[
    float, GetPydanticSchema(lambda _source, _handler: _number(whole=False))
]
"""Any number. One spelled without fraction stays an int."""


def by_tag(member: str, *tags: str) -> Callable[[Any], str]:
    """Choose a union's branch by the value of `member`; one that is none of `tags` is unknown."""
    known = frozenset(tags)

    def choose(value: Any) -> str:
        if isinstance(value, dict):
            tag = cast("dict[str, object]", value).get(member)
        else:
            tag = getattr(value, member, None)
        return tag if isinstance(tag, str) and tag in known else UNKNOWN_TAG

    return choose


def by_members(*members: str) -> Callable[[Any], str]:
    """Choose a union's branch by the first of `members` that is there, for unions without a tag."""

    def choose(value: Any) -> str:
        present = _written(value)
        return next((name for name in members if name in present), UNKNOWN_TAG)

    return choose


def _written(value: Any) -> Mapping[str, Any]:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_unset=True)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
