"""Publishing events in batches that may safely be sent again (protocol.md §3 and §4).

Owns batching and retrying. Every event has an id of the producer's own before it is sent first, so
a batch whose answer was lost is sent again as it was: what was stored comes back as a duplicate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx2

from sessionwire._event_ids import with_id
from sessionwire._event_reader import ReadEvent
from sessionwire._http import connection_failed, json_object, rejected, session_path
from sessionwire._reconnect import Outcome, Reconnection, classify_error, classify_status
from sessionwire.errors import HubError, ProtocolError, RequestRejected

__all__ = ["Batch", "Publisher", "Tally", "batches"]

BATCH_EVENTS: Final = 256
"""The hub takes no more in one request."""

BATCH_BYTES: Final = 4 * 2**20
"""A quarter of what the hub takes by default; an event above it goes alone."""

PATIENCE_S: Final = 60.0
"""How long one batch is sent again and again before it is given up."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that are stored together or not at all: their JSON and their lines in the input."""

    bodies: tuple[bytes, ...]
    lines: tuple[int, ...]

    def content(self) -> bytes:
        """Build the request's body."""
        return b"[" + b",".join(self.bodies) + b"]"

    def halves(self) -> tuple[Batch, Batch]:
        """Split a batch of two or more."""
        middle = len(self.bodies) // 2
        return (
            Batch(self.bodies[:middle], self.lines[:middle]),
            Batch(self.bodies[middle:], self.lines[middle:]),
        )


@dataclass(slots=True)
class Tally:
    """What became of everything sent so far."""

    stored: int = 0
    duplicates: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None
    cursor: str = ""

    def add(self, verdicts: list[dict[str, Any]]) -> None:
        """Count the answer to one batch."""
        for verdict in verdicts:
            duplicate = verdict.get("duplicate") is True
            self.duplicates += duplicate
            self.stored += not duplicate
            self.cursor = str(verdict.get("cursor") or self.cursor)
            sequence = verdict.get("sequence")
            if isinstance(sequence, int) and not duplicate:
                self.first_sequence = self.first_sequence or sequence
                self.last_sequence = sequence


def batches(events: Iterable[ReadEvent], catalog: str = "") -> Iterator[Batch]:
    """Give every event an id and pack the events into batches, in order."""
    bodies: list[bytes] = []
    lines: list[int] = []
    size = 0
    for event in events:
        body = with_id(event.body, event.members, catalog).encode()
        if bodies and (len(bodies) == BATCH_EVENTS or size + len(body) > BATCH_BYTES):
            yield Batch(tuple(bodies), tuple(lines))
            bodies, lines, size = [], [], 0
        bodies.append(body)
        lines.append(event.line)
        size += len(body)
    if bodies:
        yield Batch(tuple(bodies), tuple(lines))


class Publisher:
    """Sends batches to one session, in order, one after the other.

    Attributes:
        tally: what became of what was sent.
        reached: whether the hub has ever answered.
    """

    def __init__(
        self,
        http: httpx2.Client,
        session_id: str,
        *,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally()
        self.reached = False
        self._http = http
        self._path = session_path(session_id, "events")
        self._patience_s = patience_s
        self._sleep = sleep
        self._clock = clock

    def send(self, batch: Batch) -> None:
        """Store a batch, again and again while the hub says later or is away.

        A hub that is not there at the very first request is not waited for.

        Raises:
            RequestRejected: the hub refused for good, or said later for too long; `extra["line"]`
                is the line of the event at fault where the hub names one.
            ConnectionFailed: the hub is away for too long.
            ProtocolError: the answer is not the hub's.
        """
        reconnection, since = Reconnection(), self._clock()
        while True:
            error = self._attempt(batch)
            if error is None:
                return
            after_s = error.retry_after_s if isinstance(error, RequestRejected) else None
            wait_s = reconnection.delay_s(after_s)
            if not self.reached or self._clock() + wait_s - since > self._patience_s:
                raise error
            self._sleep(wait_s)

    def _attempt(self, batch: Batch) -> HubError | None:
        """Send once. Returns: None if it is stored, the error if it may be sent again."""
        try:
            response = self._http.post(
                self._path,
                content=batch.content(),
                headers={"Content-Type": "application/json"},
            )
        except httpx2.HTTPError as exc:
            error = connection_failed(self._http.base_url, exc)
            if classify_error(exc) is Outcome.FATAL:
                raise error from exc
            return error
        self.reached = True
        if response.status_code == 200:
            self.tally.add(_verdicts(json_object(response), len(batch.bodies)))
            return None
        return self._refused(batch, rejected(response))

    def _refused(self, batch: Batch, refusal: RequestRejected) -> RequestRejected | None:
        index = refusal.extra.get("index")
        if refusal.status == 413 and index is None and len(batch.bodies) > 1:
            # This hub takes less at once than the default.
            for half in batch.halves():
                self.send(half)
            return None
        if isinstance(index, int) and 0 <= index < len(batch.lines):
            refusal.extra["line"] = batch.lines[index]
        # Storage that is full stays full: 507 is for the operator, not for a retry.
        if classify_status(refusal.status) is Outcome.FATAL or refusal.status == 507:
            raise refusal
        return refusal


def _verdicts(answer: dict[str, Any], expected: int) -> list[dict[str, Any]]:
    data = answer.get("data")
    if not isinstance(data, list) or len(cast("list[object]", data)) != expected:
        raise ProtocolError(f"the answer does not have a verdict for each of {expected} events")
    return cast("list[dict[str, Any]]", data)
