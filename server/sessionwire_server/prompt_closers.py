"""The hub's own completed events, ready to be stored (protocol.md §8.4). Pure.

They look as if a host had published them: complete envelopes, the id that follows from session,
prompt and reason, the last durable event as their parent, and the sub-agent or turn that had asked.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from sessionwire_schemas.catalog import Catalog
from sessionwire_schemas.closers import Closer, CloseReason, closer_id
from sessionwire_schemas.cursor import check_of
from sessionwire_schemas.prompts import Opening
from sessionwire_server.entries import Entry
from sessionwire_server.ingest import filter_members, prompt_effects, session_effects
from sessionwire_server.minting import rfc3339
from sessionwire_server.raw_json import fit_for_a_line

__all__ = ["closing_entry"]


def closing_entry(
    catalog: Catalog,
    sid: str,
    opening: Opening,
    reason: CloseReason,
    closer: Closer,
    now_ms: int,
) -> Entry:
    """Build the event with which the hub closes a prompt.

    Args:
        catalog: the session's.
        sid: the session.
        opening: what the prompt's opener said.
        reason: why it is closed.
        closer: what the event says.
        now_ms: its time.

    Raises:
        ValueError: the data holds a number that JSON cannot spell.
    """
    event: dict[str, Any] = {
        "id": closer_id(catalog.name, sid, opening.request_id, reason),
        "type": closer.type,
    }
    if catalog.name == "everruns":
        event["ts"] = rfc3339(now_ms)
        event["session_id"] = sid
        event["context"] = {"turn_id": opening.turn_id} if opening.turn_id else {}
    else:
        event["timestamp"] = rfc3339(now_ms)
        if catalog.is_ephemeral(closer.type, None):
            event["ephemeral"] = True
        if opening.agent_id:
            event["agentId"] = opening.agent_id
    event["data"] = dict(closer.data)
    durable = not catalog.is_ephemeral(closer.type, None)
    raw = fit_for_a_line(_dumps(event))
    head, tail = raw, b""
    hole: Literal["", "sequence", "parent"] = ""
    if catalog.name == "copilot":
        head, hole, tail = b'{"parentId":', "parent", b"," + raw[1:]
    elif durable:
        head, hole, tail = raw[:-1] + b',"sequence":', "sequence", b"}"
    return Entry(
        id=event["id"],
        type=closer.type,
        durable=durable,
        check=check_of(event["id"]),
        head=head,
        hole=hole,
        tail=tail,
        at_ms=now_ms,
        members=filter_members(event, catalog) if durable else b"",
        effects=session_effects(event, catalog),
        prompts=prompt_effects(event, catalog),
    )


def _dumps(event: dict[str, Any]) -> bytes:
    return json.dumps(event, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
