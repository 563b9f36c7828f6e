"""What a request for an event stream asks: where to begin, what to show (protocol.md §6.1).

Reads headers and query into values and refuses what it does not know; decides nothing about the
session itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.datastructures import Headers, QueryParams

from sessionwire_schemas.catalog import CATALOGS
from sessionwire_schemas.cursor import MAX_NUMBER, CursorError
from sessionwire_schemas.names import TYPE_PATTERN
from sessionwire_server.audience import Filter
from sessionwire_server.errors import HubError
from sessionwire_server.replay import Start, StartBy, parse_start

__all__ = ["StreamRequest"]

MAX_EVERRUNS_TYPES = 25
MAX_COPILOT_TYPES = 116
MAX_AGENTS = 64
LAST_EVENT_ID_NAMES = ("lastEventId", "last_event_id")
"""Query spellings that EventSource polyfills use; they repeat the URL, so theirs is the newer."""

_FROM = re.compile(r"start|now|-([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for a stream.

    Attributes:
        start: where to begin.
        by_header: the place is the browser's own `Last-Event-ID`, or its query spelling.
        types, exclude, agents: filters; empty for none.
        control: whether the hub's own frames are wanted.
        names: whether frames carry the event's type as `event:`.
    """

    start: Start
    by_header: bool
    types: tuple[str, ...]
    exclude: tuple[str, ...]
    agents: tuple[str, ...]
    control: bool
    names: bool

    @classmethod
    def read(cls, headers: Headers, query: QueryParams, default_from: str) -> StreamRequest:
        """Read a request.

        Args:
            default_from: `start` or `now`, for requests without any place.

        Raises:
            HubError: 400 `invalid_cursor`, `cursor_conflict`, `invalid_parameter`.
        """
        start, by_header = _start(headers, query, default_from)
        return cls(
            start,
            by_header,
            tuple(query.getlist("types")),
            tuple(query.getlist("exclude")),
            tuple(query.getlist("agents")),
            _flag(query, "control", default=False),
            _flag(query, "names", default=True),
        )

    def filter(self, catalog: str) -> Filter:
        """Check the filters against the session's catalog.

        Raises:
            HubError: 400 `invalid_parameter` for unknown types, too many, or agents on everruns.
        """
        for name, values in (("types", self.types), ("exclude", self.exclude)):
            _check_types(name, values, catalog)
        if self.agents and catalog != "copilot":
            raise _invalid("agents", "only copilot sessions have agents")
        if len(self.agents) > MAX_AGENTS:
            raise _invalid("agents", f"too many values ({len(self.agents)}, max {MAX_AGENTS})")
        return Filter(
            frozenset(self.types) if self.types else None,
            frozenset(self.exclude),
            frozenset(self.agents) if self.agents else None,
        )


def _start(headers: Headers, query: QueryParams, default_from: str) -> tuple[Start, bool]:
    mine = (headers.get("last-event-id"), *(query.get(name) for name in LAST_EVENT_ID_NAMES))
    since, after = query.get("since_id"), query.get("after_sequence")
    if since and after:
        raise HubError(400, "cursor_conflict", "since_id and after_sequence are mutually exclusive")
    given = next((text for text in mine if text), None)
    try:
        if given:
            return parse_start(given), True
        if since:
            return parse_start(since), False
    except CursorError as error:
        raise HubError(400, "invalid_cursor", str(error)) from error
    if after:
        return StartBy(sequence=_sequence(after)), False
    return _from(query.get("from") or default_from), False


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > MAX_NUMBER:
        raise _invalid("after_sequence", f"not a sequence: {text[:40]!r}")
    return int(text)


def _from(text: str) -> StartBy:
    match = _FROM.fullmatch(text)
    if match is None:
        raise _invalid("from", f"must be start, now or -N, not {text[:40]!r}")
    return StartBy(last=int(match[1])) if match[1] else StartBy(now=text == "now")


def _flag(query: QueryParams, name: str, *, default: bool) -> bool:
    text = query.get(name)
    if text is None or text == "":
        return default
    if text in ("1", "true"):
        return True
    if text in ("0", "false"):
        return False
    raise _invalid(name, f"must be 0 or 1, not {text[:40]!r}")


def _check_types(name: str, values: tuple[str, ...], catalog: str) -> None:
    most = MAX_EVERRUNS_TYPES if catalog == "everruns" else MAX_COPILOT_TYPES
    if len(values) > most:
        raise _invalid(name, f"too many values ({len(values)}, max {most})")
    known = CATALOGS[catalog].types if catalog == "everruns" else None
    for value in values:
        if (known is not None and value not in known) or not TYPE_PATTERN.fullmatch(value):
            raise _invalid(name, f"unknown event type {value[:130]!r}")


def _invalid(name: str, what: str) -> HubError:
    return HubError(400, "invalid_parameter", f"{name}: {what}", parameter=name)
