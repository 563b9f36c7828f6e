"""Typed events of both catalogs, loaded when first asked for.

The generated models take a quarter of a second to import, so nothing imports them but this.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, cast

from pydantic_core import from_json

from sessionwire_schemas.envelope import (
    CopilotEnvelope,
    EverrunsEnvelope,
    SessionEvent,
    UnknownCopilotEvent,
    UnknownEverrunsEvent,
)
from sessionwire_schemas.paths import member

__all__ = ["model_of", "parse"]

_UNKNOWN: dict[str, type[CopilotEnvelope | EverrunsEnvelope]] = {
    "copilot": UnknownCopilotEvent,
    "everruns": UnknownEverrunsEvent,
}


@cache
def _events(catalog: str) -> dict[str, type[SessionEvent]]:
    module = importlib.import_module(f"sessionwire_schemas._{catalog}")
    return cast("dict[str, type[SessionEvent]]", module.EVENTS)


def model_of(catalog: str, event_type: object) -> type[SessionEvent]:
    """Return the class of a type; that of unknown events where the catalog does not have it."""
    found = _events(catalog).get(event_type) if isinstance(event_type, str) else None
    return found or _UNKNOWN[catalog]


def parse(catalog: str, raw: bytes | str | dict[str, Any]) -> SessionEvent:
    """Read an event, choosing the class by its type. See `Catalog.parse`."""
    source = raw if isinstance(raw, dict) else cast("object", from_json(raw, allow_inf_nan=False))
    return model_of(catalog, member(source, "type")).read(source)
