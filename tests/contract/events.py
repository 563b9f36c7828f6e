"""Events as producers write them, and what a viewer's stream says about them."""

from __future__ import annotations

import json
import re
import secrets
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from tests.contract.wire import Answer, Connection, Frame, Server, request

__all__ = [
    "CURSOR",
    "HUB_FRAMES",
    "Place",
    "Reading",
    "call",
    "copilot",
    "delta",
    "event_id",
    "events_of",
    "everruns",
    "is_event",
    "message",
    "new_session",
    "note",
    "place_of",
    "publish",
    "try_publish",
    "turn",
]

Event = dict[str, Any]

CURSOR = re.compile(r"([a-z2-7]{8})\.(0|[1-9]\d*)\.(0|[1-9]\d*)\.([a-z2-7]{5}|0)")
"""protocol.md §2."""

HUB_FRAMES = frozenset(
    {"connected", "disconnecting", "prompts", "snapshot", "gap", "caught_up", "cursor"}
    | {"presence", "reset"}
)
"""Names of frames that are the hub's own (protocol.md §3, §6)."""


class Place(NamedTuple):
    """A cursor taken apart."""

    epoch: str
    sequence: int
    offset: int
    check: str

    def __str__(self) -> str:
        return f"{self.epoch}.{self.sequence}.{self.offset}.{self.check}"


def place_of(cursor: str | None) -> Place:
    """Read a cursor as the contract spells it, failing on anything else."""
    match = CURSOR.fullmatch(cursor or "")
    assert match is not None, f"not a cursor: {cursor!r}"
    return Place(match[1], int(match[2]), int(match[3]), match[4])


def new_session(prefix: str = "s") -> str:
    return f"{prefix}-{secrets.token_hex(8)}"


def event_id() -> str:
    """An everruns id: `event_` and a UUID of version 7 without dashes, of this moment."""
    stamp = time.time_ns() // 1_000_000
    tail = secrets.token_hex(9)
    return f"event_{stamp:012x}7{tail[:3]}8{tail[3:]}"


def copilot(
    type: str,
    data: Event | None = None,
    *,
    id: str | None = None,
    ephemeral: bool | None = None,
    agent: str | None = None,
) -> Event:
    """One event of the copilot catalog with an id of the producer's own."""
    event: Event = {"id": id or str(uuid.uuid4()), "timestamp": "2026-08-21T09:31:03.123Z"}
    if ephemeral is not None:
        event["ephemeral"] = ephemeral
    if agent is not None:
        event["agentId"] = agent
    return {**event, "parentId": None, "type": type, "data": data or {}}


def everruns(
    type: str, data: Event | None = None, *, id: str | None = None, session: str = "s", **more: Any
) -> Event:
    """One event of the everruns catalog with an id of the producer's own."""
    return {
        "id": id or event_id(),
        "type": type,
        "ts": "2026-08-21T09:31:03.123Z",
        "session_id": session,
        "context": {},
        "data": data or {},
        **more,
    }


def note(text: str = "x", **more: Any) -> Event:
    """A small durable copilot event."""
    return copilot("session.info", {"infoType": "note", "message": text}, **more)


def delta(message_id: str, text: str, **more: Any) -> Event:
    """An ephemeral piece of a copilot message."""
    data = {"messageId": message_id, "deltaContent": text}
    return copilot("assistant.message_delta", data, ephemeral=True, **more)


def message(message_id: str, text: str, **more: Any) -> Event:
    """The durable copilot event that replaces the deltas of `message_id`."""
    return copilot("assistant.message", {"messageId": message_id, "content": text}, **more)


def turn(number: int = 1, **more: Any) -> Event:
    """A small durable everruns event."""
    data = {"turn_id": f"turn_{number}", "input_message_id": f"message_{number}"}
    return everruns("turn.started", data, **more)


async def call(
    server: Server | Connection, method: str, path: str, *, status: int = 200, **more: Any
) -> Any:
    """Make one request that must answer `status`; the JSON of its body, None where it has none."""
    if isinstance(server, Connection):
        answer = await server.request(method, path, **more)
    else:
        answer = await request(server, method, path, **more)
    assert answer.status == status, f"{method} {path}: {answer.status} {answer.body[:1000]!r}"
    return answer.json() if answer.body else None


async def publish(
    server: Server | Connection, session: str, events: Event | Sequence[Event], *, status: int = 200
) -> list[Any]:
    """Publish events; the verdicts, in order. Everruns events become the session's own."""
    for event in [events] if isinstance(events, dict) else events:
        if "session_id" in event:
            event["session_id"] = session
    body = json.dumps(events, ensure_ascii=False).encode()
    path = f"/v1/sessions/{session}/events"
    answer = await call(server, "POST", path, status=status, body=body)
    verdicts: list[Any] = answer["data"]
    assert len(verdicts) == (len(events) if not isinstance(events, dict) else 1)
    return verdicts


async def try_publish(server: Server | Connection, session: str, body: bytes) -> Answer:
    """Publish whatever `body` is."""
    path = f"/v1/sessions/{session}/events"
    if isinstance(server, Connection):
        return await server.request("POST", path, body=body)
    return await request(server, "POST", path, body=body)


def events_of(frames: Iterable[Frame]) -> list[Event]:
    """The session events among frames, without the hub's own."""
    return [frame.json() for frame in frames if is_event(frame)]


def is_event(frame: Frame) -> bool:
    return not frame.is_comment and frame.event not in HUB_FRAMES


class Reading:
    """Follows one unfiltered stream and fails on a hole, a repetition or a step back.

    Attributes:
        place: the newest cursor.
        durable, passing: ids of the events by kind, in order.
    """

    def __init__(self, start: Frame | str) -> None:
        cursor = start if isinstance(start, str) else start.json()["cursor"]
        self.place = place_of(cursor)
        self.durable: list[str] = []
        self.passing: list[str] = []

    def take(self, frames: Iterable[Frame]) -> Self:
        for frame in frames:
            if is_event(frame):
                self._step(frame)
        return self

    def _step(self, frame: Frame) -> None:
        before, here = self.place, place_of(frame.id)
        told = f"{frame.id} after {before}"
        assert here.epoch == before.epoch, f"another epoch: {told}"
        assert here.offset > before.offset, f"not forward: {told}"
        assert here.sequence in (before.sequence, before.sequence + 1), f"a hole: {told}"
        known = self.passing if here.sequence == before.sequence else self.durable
        known.append(str(frame.json()["id"]))
        self.place = here
