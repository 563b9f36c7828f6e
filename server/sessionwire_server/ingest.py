"""From the bytes of a request to entries that can be stored (protocol.md §3).

Keeps an event's bytes as they are, and only: makes them fit for a line, puts in the envelope
members that the producer left to the hub, cuts out secrets and a producer's own `sequence`. Knows
nothing of Redis, and of HTTP only the errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from sessionwire_schemas.catalog import Catalog, CatalogName, Effects
from sessionwire_schemas.cursor import check_of
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompts import NO_EFFECTS, effects
from sessionwire_schemas.prompts import Effects as PromptEffects
from sessionwire_server import envelope, minting
from sessionwire_server.entries import Entry
from sessionwire_server.envelope import CONTEXT_MEMBERS, Event
from sessionwire_server.errors import HubError
from sessionwire_server.metrics import Metrics
from sessionwire_server.raw_json import cut, fit_for_a_line, parse, split
from sessionwire_server.settings import Settings
from sessionwire_server.validation import Validation

__all__ = ["Batch", "Ingest", "filter_members", "prompt_effects", "session_effects"]

MAX_TITLE: Final = 2_000
"""Characters of a title that the session is listed with, as many as it may be created with. The
event keeps all of it."""

_Hole: TypeAlias = Literal["", "sequence", "parent"]

_TOOL_NAME: Final[Mapping[CatalogName, str]] = {"copilot": "toolName", "everruns": "tool_name"}


class Ingest:
    """What is the same for every request of a process.

    Attributes:
        settings: limits and validation mode.
        validation: the catalogs' schemas.
        everruns_ids: the one counter that keeps ids in order.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.validation = Validation(settings.validation, metrics)
        self.everruns_ids = minting.EverrunsIds()

    def batch(self, sid: str, catalog: CatalogName | None) -> Batch:
        """Begin a batch for a session, whose catalog is given if it is known."""
        return Batch(self, sid, catalog)

    def prepare(self, body: bytes, sid: str, catalog: CatalogName | None) -> Batch:
        """Prepare a whole body: one event or an array of them.

        Raises:
            HubError: 400 `malformed_json`; 413 `batch_too_large`, `too_many_events`,
                `event_too_large`; 409 or 422 as `Batch.add`, with the event's `index`.
        """
        settings = self.settings
        if len(body) > settings.max_batch_bytes:
            raise batch_too_large(settings)
        raws = split(body)
        if not raws:
            raise HubError(422, "empty_batch", "an empty array publishes nothing")
        if len(raws) > settings.max_batch_events:
            raise HubError(
                413,
                "too_many_events",
                f"{len(raws)} events in one batch, at most {settings.max_batch_events}; "
                "application/x-ndjson takes any number",
                limit=settings.max_batch_events,
            )
        batch = self.batch(sid, catalog)
        for index, raw in enumerate(raws):
            try:
                batch.add(raw)
            except HubError as error:
                error.extra["index"] = index
                raise
        return batch


def batch_too_large(settings: Settings) -> HubError:
    """Build the error of a body above the limit."""
    limit = settings.max_batch_bytes
    return HubError(
        413,
        "batch_too_large",
        f"a batch has at most {limit} bytes; application/x-ndjson takes any length",
        limit=limit,
    )


class Batch:
    """Entries of one request in the making.

    Attributes:
        catalog: the catalog of all its events; set by the first one where it was not known.
        entries: what is ready.
    """

    def __init__(self, ingest: Ingest, sid: str, catalog: CatalogName | None) -> None:
        self.catalog: CatalogName | None = catalog
        self.entries: list[Entry] = []
        self._ingest = ingest
        self._sid = sid
        self._now_ms = minting.now_ms()

    def add(self, raw: bytes) -> None:
        """Prepare one event, whose bytes are one JSON value without spaces around it.

        Raises:
            HubError: 400 `malformed_json`; 413 `event_too_large`; 409 `catalog_mismatch`; 422
                `invalid_event`, `invalid_type`, `reserved_type`, `session_mismatch`,
                `catalog_unknown`, `schema_mismatch` with the `pointer` of the fault.
        """
        limit = self._ingest.settings.max_event_bytes
        if len(raw) > limit:
            detail = f"an event of {len(raw)} bytes, at most {limit}"
            raise HubError(413, "event_too_large", detail, limit=limit)
        event = parse(raw)
        if not isinstance(event, dict):
            envelope.refuse("invalid_event", "an event must be a JSON object", "")
        event = cast("Event", event)
        catalog = envelope.catalog_of(event, self.catalog)
        envelope.check(event, self._sid, catalog)
        if self._ingest.settings.validation != "off":
            envelope.check_members(event, catalog)
        entry = self._entry(raw, event, catalog)
        self._ingest.validation.check(event, catalog)
        self.catalog = catalog.name
        self.entries.append(entry)

    def _entry(self, raw: bytes, event: Event, catalog: Catalog) -> Entry:
        """Build the entry; what is minted is put into `event` as well, for the schema."""
        name: str = event["type"]
        durable = not catalog.is_ephemeral(name, event.get("ephemeral"))
        minted = "id" not in event
        secrets = b""
        if paths := catalog.secrets(name):
            secrets = _secrets(event["data"], paths)
            for path in paths:
                raw = cut(raw, ("data", *path.split(".")))
        if catalog.name == "everruns":
            head, hole, tail = self._everruns(raw, event, durable=durable)
            at = event["ts"]
        else:
            head, hole, tail = self._copilot(raw, event)
            at = event["timestamp"]
        return Entry(
            id=event["id"],
            type=name,
            durable=durable,
            check=check_of(event["id"]),
            head=head,
            hole=hole,
            tail=tail,
            minted=minted,
            at_ms=max(minting.milliseconds(at) or 0, 0),
            members=filter_members(event, catalog) if durable else b"",
            effects=session_effects(event, catalog),
            prompts=prompt_effects(event, catalog),
            secrets=secrets,
        )

    def _copilot(self, raw: bytes, event: Event) -> tuple[bytes, _Hole, bytes]:
        mint: list[bytes] = []
        if "id" not in event:
            event["id"] = minting.copilot_id()
            mint.append(b'"id":"%s"' % event["id"].encode())
        if "timestamp" not in event:
            event["timestamp"] = minting.rfc3339(self._now_ms)
            mint.append(b'"timestamp":"%s"' % event["timestamp"].encode())
        raw = fit_for_a_line(raw)
        if "parentId" in event:
            return _insert(raw, mint), "", b""
        event["parentId"] = None
        mint.append(b'"parentId":')
        return b"{" + b",".join(mint), "parent", b"," + raw[1:]

    def _everruns(self, raw: bytes, event: Event, *, durable: bool) -> tuple[bytes, _Hole, bytes]:
        if "sequence" in event:
            del event["sequence"]
            raw = cut(raw, ("sequence",))
        mint: list[bytes] = []
        if "id" not in event:
            event["id"] = self._ingest.everruns_ids.mint(self._now_ms)
            mint.append(b'"id":"%s"' % event["id"].encode())
        if "ts" not in event:
            event["ts"] = minting.rfc3339(self._now_ms)
            mint.append(b'"ts":"%s"' % event["ts"].encode())
        if "session_id" not in event:
            event["session_id"] = self._sid
            mint.append(b'"session_id":"%s"' % self._sid.encode())
        if "context" not in event:
            event["context"] = {}
            mint.append(b'"context":{}')
        raw = _insert(fit_for_a_line(raw), mint)
        if not durable:
            return raw, "", b""
        return raw[:-1] + b',"sequence":', "sequence", b"}"


def session_effects(event: Event, catalog: Catalog) -> Effects:
    """Return what an event does to its session."""
    found = catalog.effects(
        event["type"], event["data"], agent_id=event.get("agentId"), context=event.get("context")
    )
    if found.title is None:
        return found
    return found._replace(title=found.title[:MAX_TITLE])


def prompt_effects(event: Event, catalog: Catalog) -> PromptEffects:
    """Return what an event does to prompts, `NO_EFFECTS` itself where it does nothing."""
    found = effects(catalog, event)
    if found is NO_EFFECTS or found.closes is not None or found.ends is not None:
        return found
    # What is settled already is shown and never asked.
    return found if any(not one.settled for one in found.opens) else NO_EFFECTS


def _secrets(data: Event, paths: Sequence[str]) -> bytes:
    """Take out what is cut: as a part of the data, JSON; empty for nothing."""
    found: dict[str, Any] = {}
    for path in paths:
        value = member(data, path)
        if value is None:
            continue
        at, (*outer, name) = found, path.split(".")
        for step in outer:
            at = at.setdefault(step, {})
        at[name] = value
    return json.dumps(found, separators=(",", ":")).encode() if found else b""


def _insert(raw: bytes, mint: list[bytes]) -> bytes:
    """Put members in front of an object that is not empty."""
    return b"{%s,%s" % (b",".join(mint), raw[1:]) if mint else raw


def filter_members(event: Event, catalog: Catalog) -> bytes:
    """Pick the members that the list can be filtered by, as a JSON object; empty for none."""
    found: dict[str, object] = {}
    if catalog.name == "everruns":
        context: Event = event["context"]
        for name in CONTEXT_MEMBERS:
            if isinstance(context.get(name), str):
                found[name] = context[name]
        if tags := event.get("tags"):
            found["tags"] = tags
    tool_name = event["data"].get(_TOOL_NAME[catalog.name])
    if isinstance(tool_name, str):
        found["tool_name"] = tool_name
    return msgspec.json.encode(found) if found else b""
