"""The example events of both catalogs, and ways to walk through them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from sessionwire_schemas.envelope import OpenModel, SessionEvent

__all__ = ["DATA", "NAMES", "data_model", "events", "nested_models", "places"]

DATA = Path(__file__).resolve().parent.parent / "data"

NAMES: tuple[Literal["copilot", "everruns"], ...] = ("copilot", "everruns")


@cache
def _lines(catalog: str) -> tuple[str, ...]:
    return tuple((DATA / f"{catalog}.jsonl").read_text().splitlines())


def events(catalog: str) -> Iterator[dict[str, Any]]:
    """Yield every example event of a catalog, each its own object."""
    for line in _lines(catalog):
        yield json.loads(line)["event"]


def data_model(event: type[SessionEvent]) -> type[OpenModel]:
    """Return the class of an event's data."""
    found = event.model_fields["data"].annotation
    assert isinstance(found, type)
    assert issubclass(found, OpenModel)
    return found


def nested_models(model: OpenModel, source: Any) -> Iterator[tuple[OpenModel, dict[str, Any]]]:
    """Yield every model in `model`, itself first, with the JSON object it was read from."""
    yield model, source
    for name, field in type(model).model_fields.items():
        written = source.get(field.alias or name)
        yield from _below(getattr(model, name), written)


def _below(value: Any, source: Any) -> Iterator[tuple[OpenModel, dict[str, Any]]]:
    if isinstance(value, OpenModel):
        yield from nested_models(value, source)
    elif isinstance(value, list):
        for item, written in zip(cast("Sequence[Any]", value), source, strict=True):
            yield from _below(item, written)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _below(item, source[key])


def places(event: dict[str, Any], member: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield a copy of `event` for each object in its data that has `member`, with that object."""
    count = sum(1 for _ in _objects(event["data"], member))
    for place in range(count):
        changed = copy.deepcopy(event)
        yield changed, list(_objects(changed["data"], member))[place]


def _objects(value: Any, member: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        if isinstance(known.get(member), str):
            yield known
        for item in known.values():
            yield from _objects(item, member)
    elif isinstance(value, list):
        for item in cast("Sequence[Any]", value):
            yield from _objects(item, member)
