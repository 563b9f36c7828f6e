"""Server-sent event frames: the bytes that a stream carries (protocol.md §6). Pure.

Lines end in LF alone. Bodies come here as one line of JSON already (ingest sees to that), so a
frame is a join and never a scan. Source: WHATWG HTML §9.2.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["HEARTBEAT", "comment", "control_frame", "event_frame"]

HEARTBEAT = b": heartbeat\n\n"
"""A comment: proxies see traffic, clients see nothing."""


def event_frame(body: bytes, *, name: str | None, event_id: str | None) -> bytes:
    """Frame one session event.

    Args:
        body: the event as one line of JSON.
        name: the `event:` line, None to leave it out so that `onmessage` receives the event.
        event_id: the `id:` line, None to leave the client's last event ID as it is.
    """
    named = b"event: %b\n" % name.encode() if name is not None else b""
    marked = b"id: %b\n" % event_id.encode() if event_id is not None else b""
    return b"%b%bdata: %b\n\n" % (named, marked, body)


def control_frame(
    name: str, data: dict[str, Any], *, event_id: str | None = None, retry_ms: int | None = None
) -> bytes:
    """Frame one of the hub's own: `connected`, `gap`, `caught_up`, `disconnecting` …

    Args:
        name: the frame's name.
        data: its members, spelled as compact JSON.
        event_id: the `id:` line, a cursor.
        retry_ms: the `retry:` line, the client's reconnection time.
    """
    retry = b"retry: %d\n" % retry_ms if retry_ms is not None else b""
    marked = b"id: %b\n" % event_id.encode() if event_id is not None else b""
    body = json.dumps(data, separators=(",", ":")).encode()
    return b"event: %b\n%b%bdata: %b\n\n" % (name.encode(), retry, marked, body)


def comment(text: str) -> bytes:
    """Frame a comment; line breaks in `text` become spaces."""
    return b": %b\n\n" % " ".join(text.splitlines()).encode()
