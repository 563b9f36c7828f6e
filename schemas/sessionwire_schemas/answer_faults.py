"""What is wrong with an answer, and reading one into its model (protocol.md §8).

An answer is a client's word, checked to the letter: unknown members are refused, no value is turned
into another. A fault never quotes what was sent: it may be a credential.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

__all__ = ["AnswerError", "AnswerModel", "Fault", "pointer", "read", "refuse", "tagged"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        pointer: JSON Pointer into the answer, "" for the whole of it.
        message: what is wrong, in words.
    """

    pointer: str
    message: str


class AnswerError(ValueError):
    """An answer does not fit its prompt.

    Attributes:
        faults: what is wrong, at least one.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{f.pointer or 'answer'}: {f.message}" for f in self.faults))


class AnswerModel(BaseModel):
    """An answer, or a part of one, under the members' names in JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def members(self) -> dict[str, object]:
        """Return the members that were given and are not null, as JSON values."""
        dumped = self.model_dump(by_alias=True, exclude_unset=True)
        return {name: value for name, value in dumped.items() if value is not None}


_Model = TypeVar("_Model", bound=AnswerModel)


def refuse(message: str, at: str = "") -> AnswerError:
    """Return the error of one fault at a JSON Pointer, to be raised."""
    return AnswerError((Fault(at, message),))


def pointer(*names: str | int) -> str:
    """Spell a path as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def read(model: type[_Model], answer: object) -> _Model:
    """Read an answer into its model.

    Raises:
        AnswerError: with a fault for each member that does not fit.
    """
    if not isinstance(answer, Mapping):
        raise refuse("must be an object")
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        known = cast("object", answer)
        faults = [
            Fault(_place(known, one["loc"], one["type"] == "missing"), one["msg"]) for one in found
        ]
    # Each branch of a union has its own complaint about one member.
    raise AnswerError({fault.pointer: fault for fault in reversed(faults)}.values())


def _place(answer: object, path: tuple[str | int, ...], is_missing: bool) -> str:
    """Spell where a fault is: a path of pydantic's, without the names of a union's branches."""
    names: list[str | int] = []
    value = answer
    for name in path:
        if isinstance(value, Mapping) and name in value:
            value = cast("Mapping[str | int, object]", value)[name]
            names.append(name)
        elif isinstance(value, list) and isinstance(name, int):
            value = cast("list[object]", value)[name]
            names.append(name)
    if is_missing:
        names.append(path[-1])
    return pointer(*names)


def tagged(models: Mapping[str, type[_Model]], answer: object, tag: str) -> _Model:
    """Read an answer into the model that its member `tag` names.

    Raises:
        AnswerError: there is no such model, or the answer does not fit it.
    """
    if not isinstance(answer, Mapping):
        raise refuse("must be an object")
    word = cast("Mapping[str, object]", answer).get(tag)
    model = models.get(word) if isinstance(word, str) else None
    if model is None:
        raise refuse(f"must be one of {', '.join(models)}", pointer(tag))
    return read(model, cast("object", answer))
