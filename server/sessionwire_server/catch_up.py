"""The late joiner's view of messages that are still being streamed (protocol.md §6.4). Pure.

Whoever comes from before the tail gets, for each open message, one event in place of its deltas:
the newest delta with the text of all of them, at that delta's place. A `CatchUp` says which
ephemeral events up to a place are shown, and as what; durable ones always are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from sessionwire_schemas.catalog import Catalog, DeltaRule
from sessionwire_server.entries import OpenMessage, StoredEvent
from sessionwire_server.raw_json import fit_for_a_line

__all__ = ["CatchUp", "join_deltas", "plan"]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What stands in for the ephemeral events up to the offset `until`."""

    until: int
    shown: dict[int, StoredEvent]

    def apply(self, events: Iterable[StoredEvent]) -> list[StoredEvent]:
        """Give the events to deliver for `events`, in their order."""
        kept: list[StoredEvent] = []
        for event in events:
            if event.durable or event.offset > self.until:
                kept.append(event)
            elif (stand_in := self.shown.get(event.offset)) is not None:
                kept.append(stand_in)
        return kept


def plan(catalog: Catalog, until: int, messages: Sequence[OpenMessage], after: int) -> CatchUp:
    """Plan the catch-up of a viewer.

    Args:
        catalog: names the members of each delta type.
        until: offset of the newest event when `messages` were read.
        messages: those still open, each with every delta that the tail holds.
        after: offset that the viewer has; deltas up to it are not joined again.
    """
    shown: dict[int, StoredEvent] = {}
    for message in messages:
        deltas = [delta for delta in message.deltas if after < delta.offset <= until]
        if deltas:
            joined = _join(catalog.delta_rule(deltas[-1].type), deltas)
            shown[joined.offset] = joined
    return CatchUp(until, shown)


def _join(rule: DeltaRule | None, deltas: Sequence[StoredEvent]) -> StoredEvent:
    if rule is None or len(deltas) == 1:
        return deltas[-1]
    try:
        body = join_deltas([delta.body for delta in deltas], rule.text_member)
    except (msgspec.MsgspecError, KeyError, TypeError):
        # A delta that does not fit its catalog is passed on as it is: lenient validation let it in.
        return deltas[-1]
    return replace(deltas[-1], body=body)


def join_deltas(bodies: Sequence[bytes], text_member: str) -> bytes:
    """Join deltas of one message: the last one, its `data` holding the text of all.

    Members of `data` that only earlier deltas have (a tool's name) are kept.

    Raises:
        msgspec.MsgspecError, KeyError, TypeError: a body is no event with a text in `data`.
    """
    data: dict[str, msgspec.Raw] = {}
    texts: list[str] = []
    event: dict[str, msgspec.Raw] = {}
    for body in bodies:
        event = _members.decode(body)
        own = _members.decode(event["data"])
        if text_member in own:
            texts.append(msgspec.json.decode(own[text_member], type=str))
        data.update(own)
    data[text_member] = msgspec.Raw(msgspec.json.encode("".join(texts)))
    event["data"] = msgspec.Raw(msgspec.json.encode(data))
    # Spelled anew, the text holds raw what its producer or the hub had escaped.
    return fit_for_a_line(msgspec.json.encode(event))
