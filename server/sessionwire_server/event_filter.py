"""Which durable events a list keeps (protocol.md §5, `GET …/events`). Pure.

Reads the parameters of the list and holds stored events against them; where in the log to look is
`listing`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sessionwire_schemas.catalog import CATALOGS
from sessionwire_schemas.names import TYPE_PATTERN
from sessionwire_server.entries import StoredEvent
from sessionwire_server.envelope import CONTEXT_MEMBERS
from sessionwire_server.query import Query, invalid

__all__ = ["EventFilter"]

MAX_EVERRUNS_TYPES: Final = 25
MAX_COPILOT_TYPES: Final = 116
MAX_TAGS: Final = 20
MAX_Q_BYTES: Final = 4_096
MAX_Q_WORDS: Final = 64


class _Data(msgspec.Struct):
    data: msgspec.Raw


_DATA: Final = msgspec.json.Decoder(_Data)

_ESCAPES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
"""Runs of escaped UTF-16, whose surrogates belong together, and any other escape."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What an event must be to be kept; empty members do not filter.

    Attributes:
        types, exclude: event types, as given.
        members: values of `turn_id`, `exec_id`, `trace_id` and `tool_name` asked for.
        tags: any of them.
        words: all of them, lower case.
        from_ms, to_ms: bounds of the event's own time, both included.
    """

    types: tuple[str, ...]
    exclude: tuple[str, ...]
    members: dict[str, str]
    tags: frozenset[str]
    words: tuple[str, ...]
    from_ms: int | None
    to_ms: int | None

    @classmethod
    def read(cls, query: Query) -> EventFilter:
        """Read the parameters.

        Raises:
            HubError: 400 `invalid_parameter`.
        """
        names = (*CONTEXT_MEMBERS, "tool_name")
        members = {name: value for name in names if (value := query.text(name))}
        words = tuple(query.text("q", MAX_Q_BYTES).lower().split())
        if len(words) > MAX_Q_WORDS:
            raise invalid("q", f"too many words ({len(words)}, max {MAX_Q_WORDS})")
        from_ms, to_ms = query.time("from_ts"), query.time("to_ts")
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            raise invalid("from_ts", "is later than to_ts")
        types = query.many("types", MAX_COPILOT_TYPES)
        exclude = query.many("exclude", MAX_COPILOT_TYPES)
        for name, values in (("types", types), ("exclude", exclude)):
            for value in values:
                if not TYPE_PATTERN.fullmatch(value):
                    raise _unknown(name, value)
        tags = frozenset(query.many("tags", MAX_TAGS))
        return cls(tuple(types), tuple(exclude), members, tags, words, from_ms, to_ms)

    @property
    def is_plain(self) -> bool:
        """Whether nothing but types is filtered by."""
        return not (
            self.members
            or self.tags
            or self.words
            or self.from_ms is not None
            or self.to_ms is not None
        )

    def check_types(self, catalog: str | None) -> None:
        """Check the types against the session's catalog, None where there is no session.

        Raises:
            HubError: 400 `invalid_parameter`: unknown to everruns or more than it takes. A copilot
                session may have types that are newer than its catalog.
        """
        for name, values in (("types", self.types), ("exclude", self.exclude)):
            if catalog == "everruns" and len(values) > MAX_EVERRUNS_TYPES:
                raise invalid(name, f"too many values ({len(values)}, max {MAX_EVERRUNS_TYPES})")
            if catalog in {"copilot", ""}:
                continue
            catalogs = CATALOGS.values() if catalog is None else (CATALOGS[catalog],)
            for value in values:
                if not any(value in known.types for known in catalogs):
                    raise _unknown(name, value)

    def takes_type(self, name: str) -> bool:
        """Tell whether events of a type can be kept."""
        return (not self.types or name in self.types) and name not in self.exclude

    def takes(self, event: StoredEvent) -> bool:
        """Tell whether an event is kept."""
        if not self.takes_type(event.type):
            return False
        at_ms = event.at_ms or event.received_ms
        if self.from_ms is not None and at_ms < self.from_ms:
            return False
        if self.to_ms is not None and at_ms > self.to_ms:
            return False
        if (self.members or self.tags) and not self._takes_members(event.members):
            return False
        return not self.words or _contains(event.body, self.words)

    def _takes_members(self, raw: bytes) -> bool:
        if not raw:
            return False
        found: dict[str, Any] = msgspec.json.decode(raw)
        if any(found.get(name) != value for name, value in self.members.items()):
            return False
        return not self.tags or not self.tags.isdisjoint(found.get("tags", ()))


def _unknown(name: str, value: str) -> Exception:
    return invalid(name, f"unknown event type {value[:130]!r}")


def _contains(body: bytes, words: tuple[str, ...]) -> bool:
    """Tell whether an event's data, as JSON text, contains all words, ignoring case.

    A word counts as it is or as JSON spells it (`"` as `\\"`); escapes of letters are undone, so
    that it does not matter how the producer spelled one.
    """
    try:
        data = bytes(_DATA.decode(body).data)
    except (msgspec.DecodeError, RecursionError):
        return False
    text = data.decode(errors="replace")
    if "\\u" in text:
        text = _ESCAPES.sub(_unescaped, text)
    text = text.lower()
    return all(word in text or json.dumps(word, ensure_ascii=False)[1:-1] in text for word in words)


def _unescaped(match: re.Match[str]) -> str:
    if not match[0].startswith("\\u"):
        return match[0]
    # What must stay escaped (quotes, control characters) is escaped again.
    return json.dumps(json.loads(f'"{match[0]}"'), ensure_ascii=False)[1:-1]
