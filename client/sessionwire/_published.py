"""Storing events, at once and in order: one request a batch, again until it is answered.

A batch is stored whole or not at all. Where the hub takes less at once, it is halved; an event that
it refuses is named, so that the others need not suffer for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sessionwire._api import Api, insist
from sessionwire._event_input import Outgoing
from sessionwire._http import session_path
from sessionwire._publish import BATCH_BYTES, BATCH_EVENTS
from sessionwire.errors import InvalidRequest, ProtocolError

__all__ = ["Published", "in_batches", "store"]


@dataclass(frozen=True, slots=True)
class Published:
    """What became of an event.

    Attributes:
        id: its id.
        cursor: the place just after it.
        sequence: its number among the durable events; None for an ephemeral one.
        duplicate: it was there before; then the rest is that of the first one.
    """

    id: str
    cursor: str
    sequence: int | None
    duplicate: bool


def in_batches(events: Sequence[Outgoing]) -> list[Sequence[Outgoing]]:
    """Cut events into pieces that the hub takes at once."""
    pieces: list[Sequence[Outgoing]] = []
    start = size = 0
    for at, event in enumerate(events):
        full = at - start == BATCH_EVENTS or size + len(event.body) > BATCH_BYTES
        if at > start and full:
            pieces.append(events[start:at])
            start, size = at, 0
        size += len(event.body)
    return [*pieces, events[start:]] if events else []


async def store(
    api: Api, session_id: str, events: Sequence[Outgoing], *, patience_s: float | None
) -> list[Published]:
    """Store a batch.

    Raises:
        RequestRejected: refused; `extra["index"]` names the event where the hub does.
        ConnectionFailed: the hub was away for too long.
    """
    path = session_path(session_id, "events")
    content = b"[" + b",".join(event.body for event in events) + b"]"

    async def attempt() -> dict[str, Any]:
        return await api.call("POST", path, content=content)

    try:
        answer = await insist(attempt, patience_s=patience_s)
    except InvalidRequest as refusal:
        if refusal.status != 413 or "index" in refusal.extra or len(events) == 1:
            raise
    else:
        return _verdicts(answer, len(events))
    middle = len(events) // 2
    first = await store(api, session_id, events[:middle], patience_s=patience_s)
    return first + await store(api, session_id, events[middle:], patience_s=patience_s)


def _verdicts(answer: dict[str, Any], expected: int) -> list[Published]:
    data: Any = answer.get("data")
    if not isinstance(data, list) or len(cast("list[object]", data)) != expected:
        raise ProtocolError(f"the answer does not have a verdict for each of {expected} events")
    try:
        return [
            Published(each["id"], each["cursor"], each["sequence"], each["duplicate"] is True)
            for each in cast("list[dict[str, Any]]", data)
        ]
    except (KeyError, TypeError) as exc:
        raise ProtocolError(f"a verdict lacks a member: {exc}") from exc
