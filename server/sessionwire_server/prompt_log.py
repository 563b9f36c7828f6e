"""What a session's log alone says of its prompts: for records that Redis has lost (protocol.md §8).

Only durable openers can be found again; an answer that waited for its host's word is not in the log
at all. Nothing is written here.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol, cast

from sessionwire_schemas.catalog import Catalog
from sessionwire_schemas.ledger import PromptLedger
from sessionwire_schemas.prompt import Completion, Place
from sessionwire_schemas.prompt_rules import END_RULES
from sessionwire_server.entries import StoredEvent
from sessionwire_server.prompt_record import Record

__all__ = ["ReadLog", "unclosed"]

PAGE: Final = 512
PAGE_BYTES: Final = 2**20


class ReadLog(Protocol):
    """`EventStore.log_page`."""

    async def __call__(
        self,
        sid: str,
        *,
        after: int,
        until: int | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int | None = None,
    ) -> list[StoredEvent]:
        """Read durable events after a sequence."""
        ...


async def unclosed(
    read_log: ReadLog, sid: str, catalog: Catalog, completion: Completion
) -> list[Record]:
    """Fold a session's log; give the prompts that nothing in it closes or ends."""
    ledger = PromptLedger(catalog, sid, completion=completion)
    types = _types(catalog)
    offsets: dict[str, int] = {}
    after = 0
    while page := await read_log(sid, after=after, until=None, limit=PAGE, max_bytes=PAGE_BYTES):
        after = page[-1].sequence
        for event in page:
            offsets[event.id] = event.offset
            if event.type in types:
                _fold(ledger, event, offsets)
    return _ordered(ledger)


def _types(catalog: Catalog) -> frozenset[str]:
    pairs = [pair for pair in catalog.pairs if pair.role == "prompt"]
    named = ((*pair.opens, *pair.closes, *pair.also_closed_by) for pair in pairs)
    return frozenset(END_RULES[catalog.name]).union(*named)


def _fold(ledger: PromptLedger, event: StoredEvent, offsets: dict[str, int]) -> None:
    body = cast("dict[str, Any]", json.loads(event.body))
    data = body.get("data")
    target = cast("dict[str, Any]", data).get("upToEventId") if isinstance(data, dict) else None
    hidden = offsets.get(target) if isinstance(target, str) else None
    place = Place(event.offset, event.sequence)
    ledger.apply(body, place, event.received_ms, rewound_from=hidden)


def _ordered(ledger: PromptLedger) -> list[Record]:
    found: list[Record] = []
    orders: dict[int, int] = {}
    for prompt in ledger:
        order = orders.get(prompt.place.offset, 0)
        orders[prompt.place.offset] = order + 1
        found.append(Record(prompt, order))
    return found
