"""Checks of one event before it is taken (protocol.md §3). Pure.

`check` looks at the envelope, which must be right in every validation mode: the hub builds on it.
`check_members` looks at what prompts, rewind and filters need, unless validation is off. Whatever
else an event says is the catalog schema's business (`validation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NoReturn, cast

from sessionwire_schemas.catalog import CATALOGS, Catalog, CatalogName, detect
from sessionwire_schemas.names import (
    EVENT_ID_PATTERN,
    MAX_REQUEST_ID_BYTES,
    RESERVED_TYPES,
    TYPE_PATTERN,
)
from sessionwire_schemas.paths import members
from sessionwire_server.errors import HubError

__all__ = ["Event", "catalog_of", "check", "check_members"]

Event = dict[str, Any]
"""An event as parsed JSON, whose shape nobody has checked."""

CONTEXT_MEMBERS: Final = ("turn_id", "exec_id", "trace_id")
"""Members of an everruns context that the list can be filtered by."""

_TIME: Final[Mapping[CatalogName, str]] = {"copilot": "timestamp", "everruns": "ts"}


def refuse(code: str, detail: str, pointer: str) -> NoReturn:
    """Refuse an event for what stands at a JSON Pointer."""
    raise HubError(422, code, detail, pointer=pointer)


def catalog_of(event: Event, known: CatalogName | None) -> Catalog:
    """Tell which catalog an event is of.

    Args:
        event: the event.
        known: the session's catalog, None if it has none yet.

    Raises:
        HubError: 409 `catalog_mismatch` for an event of the other one; 422 `catalog_unknown` if
            neither session nor event says.
    """
    found = detect(event)
    if known is None and found is None:
        refuse(
            "catalog_unknown",
            "the session has no catalog yet, and neither the envelope nor the type tells which: "
            "send `timestamp` (copilot) or `ts` (everruns), or create the session with one",
            "",
        )
    if known is not None and found not in (None, known):
        raise HubError(
            409,
            "catalog_mismatch",
            f"an event of the catalog {found!r}, in a session of {known!r}",
            catalog=known,
        )
    return CATALOGS[cast("str", known or found)]


def check(event: object, sid: str, catalog: Catalog) -> None:
    """Check the envelope of an event of a session.

    Raises:
        HubError: 422 with `pointer`: `invalid_event`, `invalid_type`, `reserved_type` or
            `session_mismatch`.
    """
    event = cast("Event", event)
    _check_type(event.get("type"), catalog)
    event_id = event.get("id", "-")
    if not isinstance(event_id, str) or not EVENT_ID_PATTERN.fullmatch(event_id):
        refuse("invalid_event", "`id` must be 1 to 128 printable ASCII characters", "/id")
    if not isinstance(event.get("data"), dict):
        refuse("invalid_event", "`data` must be an object", "/data")
    time_name = _TIME[catalog.name]
    if not isinstance(event.get(time_name, ""), str):
        refuse("invalid_event", f"`{time_name}` must be a string", f"/{time_name}")
    if not isinstance(event.get("ephemeral", False), bool):
        refuse("invalid_event", "`ephemeral` must be true or false", "/ephemeral")
    if catalog.name == "copilot":
        if not isinstance(event.get("parentId"), str | None):
            refuse("invalid_event", "`parentId` must be a string or null", "/parentId")
        return
    if not isinstance(event.get("context", {}), dict):
        refuse("invalid_event", "`context` must be an object, never null", "/context")
    if event.get("session_id", sid) != sid:
        refuse("session_mismatch", f"`session_id` is not {sid!r}, where it is sent", "/session_id")


def _check_type(name: object, catalog: Catalog) -> None:
    if isinstance(name, str) and name in catalog.types:
        return
    if not isinstance(name, str) or not TYPE_PATTERN.fullmatch(name):
        refuse("invalid_type", f"`type` must match {TYPE_PATTERN.pattern}", "/type")
    if name in RESERVED_TYPES:
        refuse("reserved_type", f"the type {name!r} is the name of a frame of the hub's", "/type")


def check_members(event: Event, catalog: Catalog) -> None:
    """Check the members of a checked event that prompts, rewind and filters stand on.

    Raises:
        HubError: 422 `invalid_event` with `pointer`.
    """
    name: str = event["type"]
    if catalog.name == "everruns":
        _check_filters(event)
    elif not isinstance(event.get("agentId"), str | None):
        refuse("invalid_event", "`agentId` must be a string", "/agentId")
    elif name == "session.snapshot_rewind" and not catalog.rewind_to(name, event["data"]):
        refuse("invalid_event", "a rewind needs the id of an event", "/data/upToEventId")
    for path, opens in _request_ids(catalog).get(name, ()):
        for value in members(event, path):
            if not isinstance(value, str) or not value:
                if opens:
                    refuse("invalid_event", f"a prompt needs `{path}`", _pointer(path))
            elif len(value.encode()) > MAX_REQUEST_ID_BYTES:
                detail = f"a request id has at most {MAX_REQUEST_ID_BYTES} bytes"
                refuse("invalid_event", detail, _pointer(path))


def _check_filters(event: Event) -> None:
    context: Event = event.get("context", {})
    for name in CONTEXT_MEMBERS:
        if not isinstance(context.get(name), str | None):
            refuse("invalid_event", f"`context.{name}` must be a string", f"/context/{name}")
    tags = event.get("tags")
    if tags is None:
        return
    if not isinstance(tags, list) or not all(
        isinstance(tag, str) for tag in cast("list[object]", tags)
    ):
        refuse("invalid_event", "`tags` must be an array of strings", "/tags")


def _pointer(path: str) -> str:
    return "/" + path.partition("[]")[0].replace(".", "/")


@cache
def _request_ids_of(name: str) -> Mapping[str, tuple[tuple[str, bool], ...]]:
    found: dict[str, tuple[tuple[str, bool], ...]] = {}
    for pair in CATALOGS[name].pairs:
        if pair.role != "prompt":
            continue
        for opener in pair.opens:
            paths = tuple((path, True) for path in pair.open_key if path)
            found[opener] = (*found.get(opener, ()), *paths)
        for closer in pair.closes:
            paths = tuple((path, False) for path in pair.close_key if path)
            found[closer] = (*found.get(closer, ()), *paths)
    return found


def _request_ids(catalog: Catalog) -> Mapping[str, tuple[tuple[str, bool], ...]]:
    """Name, by type, where an event carries request ids and whether it opens prompts."""
    return _request_ids_of(catalog.name)
