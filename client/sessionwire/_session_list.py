"""The session list as the hub streams it (protocol.md §6.8): a snapshot, then changes.

Reconnects for ever like `follow`, but has no cursor: every connection begins with a snapshot.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import anyio
import httpx2

from sessionwire._connection import Connection, open_connection
from sessionwire._follow import IDLE_TIMEOUT_S
from sessionwire._http import connection_failed
from sessionwire._items import read_closing
from sessionwire._reconnect import Outcome, Reconnection, classify_error, classify_status
from sessionwire._sse import MAX_EVENT_BYTES, ServerSentEvent
from sessionwire.errors import ProtocolError, RequestRejected

__all__ = ["SessionRows", "watch_sessions"]


class SessionRows:
    """The sessions known so far, by id."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Any]] = {}

    def apply(self, name: str, members: Mapping[str, Any]) -> None:
        """Take a frame: `snapshot`, `session.updated` or `session.deleted`."""
        if name == "snapshot":
            rows = cast("list[dict[str, Any]]", members.get("data") or [])
            self._by_id = {str(row.get("id")): row for row in rows}
        elif name == "session.updated":
            self._by_id[str(members.get("id"))] = dict(members)
        elif name == "session.deleted":
            self._by_id.pop(str(members.get("id")), None)

    def newest(self, count: int) -> list[dict[str, Any]]:
        """Return the sessions that changed last, newest first."""
        rows = sorted(self._by_id.values(), key=_updated_at, reverse=True)
        return rows[:count]


def _updated_at(row: Mapping[str, Any]) -> str:
    return str(row.get("updated_at") or "")


async def watch_sessions(
    http: httpx2.AsyncClient, params: Mapping[str, str]
) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """Yield the frames of the list, by name: `snapshot`, `session.updated`, `session.deleted`.

    Raises:
        HubError: refused for good, or unreachable before the first connection.
    """
    reconnection, reached = Reconnection(), False
    while True:
        after_s: float | None = None
        try:
            answer = await open_connection(
                http,
                "/v1/sessions/sse",
                list(params.items()),
                idle_timeout_s=IDLE_TIMEOUT_S,
                max_event_bytes=MAX_EVENT_BYTES,
            )
            if answer is None:
                return
            if isinstance(answer, RequestRejected):
                after_s = _check(answer)
            else:
                reached = True
                async for frame in _frames(answer, reconnection):
                    yield frame.type, _members(frame)
        except httpx2.HTTPError as exc:
            if not reached or classify_error(exc) is Outcome.FATAL:
                raise connection_failed(http.base_url, exc) from exc
        await anyio.sleep(reconnection.delay_s(after_s))


def _check(refusal: RequestRejected) -> float | None:
    if classify_status(refusal.status) is Outcome.FATAL:
        raise refusal
    return refusal.retry_after_s


async def _frames(
    connection: Connection, reconnection: Reconnection
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the frames that tell something, and note what the others say about reconnecting."""
    try:
        while (frames := await connection.frames()) is not None:
            reconnection.retry_hint(connection.retry_ms)
            for frame in frames:
                if frame.type == "connected":
                    reconnection.connected()
                elif closing := read_closing(frame):
                    reconnection.planned(closing.retry_ms)
                else:
                    yield frame
    finally:
        await connection.aclose()


def _members(frame: ServerSentEvent) -> dict[str, Any]:
    try:
        value: Any = json.loads(frame.data)
    except ValueError as exc:
        raise ProtocolError(f"{frame.type!r} frame does not carry JSON") from exc
    if not isinstance(value, dict):
        raise ProtocolError(f"{frame.type!r} frame does not carry a JSON object")
    return cast("dict[str, Any]", value)
