"""How a prompt's record is written down in Redis, and read again. Pure.

A line with what only the publish script knows (where opener and closer stand) and a JSON object
with the rest; members that say nothing are left out. Redis never looks into the object.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final, cast

from sessionwire_schemas.prompt import REDACTED, Answerer, Claim, Place, Prompt
from sessionwire_schemas.prompts import Opening
from sessionwire_server.redis_link import Reply

__all__ = ["MAX_ANSWER_BYTES", "Record", "kept_answer", "read", "read_all", "spelled"]

MAX_ANSWER_BYTES: Final = 16_384
"""A longer answer is kept by its size alone: records outlive their prompt by days. Its host and the
completed event have all of it."""

_LINE: Final = frozenset(("event", "place", "closer_place"))
"""Members that stand in the line, or nowhere."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record with its place among those of one opener.

    Attributes:
        prompt: what is recorded.
        order: which of its opener's prompts it is, from 0.
    """

    prompt: Prompt
    order: int = 0


def kept_answer(answer: object) -> object:
    """Give the answer as records keep it.

    Raises:
        ValueError: it holds a number that JSON cannot spell.
    """
    size = len(_dumps(answer))
    return answer if size <= MAX_ANSWER_BYTES else {"omitted": True, "bytes": size}


def _dumps(value: object) -> bytes:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def spelled(prompt: Prompt) -> bytes:
    """Spell what stands in the JSON object."""
    members = _members(prompt)
    if prompt.answer is REDACTED:
        members["answer"] = dict(REDACTED)
    for name in ("opening", "claim", "answered_by"):
        if name in members:
            members[name] = _members(members[name])
    return _dumps(members)


def _members(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(value):
        said = getattr(value, one.name)
        if one.name not in _LINE and (one.default is MISSING or said != one.default):
            found[one.name] = said
    return found


def read(value: bytes) -> Record:
    """Read a record."""
    line, _, text = value.partition(b"\n")
    offset, sequence, order, closer_offset, closer_sequence = line.decode().split(" ")
    members = cast("dict[str, Any]", json.loads(text))
    members["opening"] = Opening(**members["opening"])
    if "claim" in members:
        members["claim"] = Claim(**members["claim"])
    if "answered_by" in members:
        members["answered_by"] = Answerer(**members["answered_by"])
    if members.get("answer") == REDACTED:
        members["answer"] = REDACTED
    prompt = Prompt(event=None, place=Place(int(offset), int(sequence)), **members)
    if closer_offset != "-":
        place = Place(int(closer_offset), int(closer_sequence))
        prompt = replace(prompt, closer_place=place)
    return Record(prompt, int(order))


def read_all(flat: list[Reply]) -> dict[str, Record]:
    """Read records that come as a flat list of request ids and values."""
    return {name.decode(): read(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
