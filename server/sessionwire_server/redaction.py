"""What the setting `redact` holds back from tokens that cannot publish (protocol.md §3). Pure.

Two things: events of internal types, and the members in which a provider keeps what only it can
read (`reasoningOpaque`, `encryptedContent`; `signature` and `encrypted` of reasoning parts). The
store always has the whole event; this is about who is shown it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessionwire_schemas.catalog import CATALOGS
from sessionwire_server.audience import Dialect, Filter, State, Taste
from sessionwire_server.entries import StoredEvent
from sessionwire_server.raw_json import fit_for_a_line

__all__ = ["INTERNAL_TYPES", "Redacted", "redact", "redacted_taste", "shown"]

INTERNAL_TYPES: Final = frozenset(
    info.name
    for catalog in CATALOGS.values()
    for info in catalog.types.values()
    if info.visibility == "internal"
)

_OF_DATA: Final = frozenset({"reasoningOpaque", "encryptedContent"})
_OF_REASONING: Final = frozenset({"signature", "encrypted"})
_MARKS: Final = tuple(b'"%s"' % name.encode() for name in sorted(_OF_DATA | _OF_REASONING))
"""Most events have none of them, which is seen without reading the event."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def redact(body: bytes) -> bytes | None:
    """Take the private members out of an event; everything else keeps its bytes.

    Returns: None for an event nested too deeply to be read here, of which nothing is shown. How
        deep that is depends on the caller's own stack.
    """
    if not any(mark in body for mark in _MARKS):
        return body
    try:
        event = _MEMBERS.decode(body)
    except RecursionError:
        return None
    data = bytes(event.get("data", b"null"))
    if data.startswith(b"{"):
        event["data"] = msgspec.Raw(_redacted_data(data))
    return fit_for_a_line(_object({name: bytes(value) for name, value in event.items()}))


def _redacted_data(data: bytes) -> bytes:
    kept = {k: v for k, v in _MEMBERS.decode(data).items() if k not in _OF_DATA}
    try:
        return _object({k: _inside(bytes(v)) for k, v in kept.items()})
    except RecursionError:
        # Nested deeper than can be looked through: then nothing of it is shown.
        return b"{}"


def _inside(raw: bytes) -> bytes:
    """Take private members out of the reasoning parts in a value, however deep."""
    if not any(mark in raw for mark in _MARKS):
        return raw
    if raw.startswith(b"["):
        return b"[%b]" % b",".join(_inside(bytes(item)) for item in _ITEMS.decode(raw))
    if not raw.startswith(b"{"):
        return raw
    members = {name: bytes(value) for name, value in _MEMBERS.decode(raw).items()}
    if members.get("type") == b'"reasoning"':
        members = {k: v for k, v in members.items() if k not in _OF_REASONING}
    return _object({name: _inside(value) for name, value in members.items()})


def _object(members: dict[str, bytes]) -> bytes:
    pairs = (b"%b:%b" % (msgspec.json.encode(name), value) for name, value in members.items())
    return b"{%b}" % b",".join(pairs)


def shown(event: StoredEvent) -> StoredEvent | None:
    """Give the event as such a token sees it, None if it does not."""
    if event.type in INTERNAL_TYPES:
        return None
    body = redact(event.body)
    if body is None or body is event.body:
        return None if body is None else event
    return replace(event, body=body)


class Redacted(NamedTuple):
    """A dialect in which events are redacted first."""

    inner: Dialect

    @property
    def heartbeat(self) -> bytes:
        """As the dialect's."""
        return self.inner.heartbeat

    def encode(self, event: StoredEvent, epoch: str) -> bytes:
        """Spell the redacted event; what cannot be redacted is as good as silence."""
        body = redact(event.body)
        if body is None:
            return self.inner.heartbeat
        return self.inner.encode(replace(event, body=body), epoch)

    def own(self, name: str, data: dict[str, Any], *, cursor: str | None = None) -> bytes:
        """As the dialect's."""
        return self.inner.own(name, data, cursor=cursor)

    def snapshot(self, bodies: Sequence[bytes]) -> bytes:
        """Spell the redacted last values."""
        redacted = (redact(body) for body in bodies)
        return self.inner.snapshot([body for body in redacted if body is not None])

    def state(self, state: State) -> bytes:
        """Spell the redacted state."""
        return self.inner.state(state._replace(data=state.redacted))


def redacted_taste(taste: Taste) -> Taste:
    """Give the taste of a viewer from whom is held back."""
    wanted = taste.filter
    narrowed = Filter(wanted.types, wanted.exclude | INTERNAL_TYPES, wanted.agents)
    return taste._replace(filter=narrowed, spelling=Redacted(taste.spelling))
