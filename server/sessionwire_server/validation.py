"""Events against their catalog's JSON Schema (protocol.md §3.7).

`strict` refuses what does not fit, `lenient` takes and counts it, `off` does not look. A schema
lags behind its producers, so only `strict` may refuse for it; types that no schema knows pass in
`lenient` uncounted.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Literal

import jsonschema_rs

from sessionwire_schemas.catalog import CATALOGS, Catalog
from sessionwire_server.envelope import Event, refuse
from sessionwire_server.metrics import Metrics

__all__ = ["Validation"]

Mode = Literal["lenient", "strict", "off"]

_UUID: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
)


class Validation:
    """Holds events against schemas, in one mode.

    Attributes:
        metrics: where mismatches are counted.
    """

    def __init__(self, mode: Mode, metrics: Metrics) -> None:
        self.metrics = metrics
        self._mode = mode

    def check(self, event: Event, catalog: Catalog) -> None:
        """Check an event whose envelope is complete and right.

        Raises:
            HubError: 422 `schema_mismatch` with the `pointer` of the first fault, in `strict`.
        """
        if self._mode == "off":
            return
        name: str = event["type"]
        if name not in catalog.types:
            if self._mode == "strict":
                refuse("schema_mismatch", f"{catalog.name} has no type {name!r}", "/type")
            return
        if _fits(event, catalog):
            return
        if self._mode == "lenient":
            self.metrics.schema_mismatch[catalog.name] += 1
            return
        pointer, detail = _first_fault(event, catalog)
        refuse("schema_mismatch", detail, pointer)


def _fits(event: Event, catalog: Catalog) -> bool:
    try:
        fits = _validator(catalog.name).is_valid(event)
    except ValueError:
        # Nested deeper than it follows, or a number that it cannot hold.
        return False
    return fits and _wrong_uuid(event, catalog) is None


def _wrong_uuid(event: Event, catalog: Catalog) -> str | None:
    # The draft of the copilot schema does not assert `format: uuid`.
    if catalog.name == "copilot":
        for name in ("id", "parentId"):
            value = event[name]
            if value is not None and not _UUID.fullmatch(value):
                return name
    return None


def _first_fault(event: Event, catalog: Catalog) -> tuple[str, str]:
    """Say where an event does not fit first, and why."""
    try:
        for error in _validator(catalog.name).iter_errors(event):
            steps = [
                str(step).replace("~", "~0").replace("/", "~1") for step in error.instance_path
            ]
            return "".join(f"/{step}" for step in steps), error.message[:500]
    except ValueError as exc:
        return "", str(exc)[:500]
    name = _wrong_uuid(event, catalog)
    return ("", "does not fit") if name is None else (f"/{name}", f"`{name}` must be a UUID")


@cache
def _validator(catalog_name: str) -> Any:
    return jsonschema_rs.validator_for(CATALOGS[catalog_name].json_schema())
