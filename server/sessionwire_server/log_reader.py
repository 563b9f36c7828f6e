"""Reads out what the read scripts and the log answer. Pure, no I/O.

Stream entries come as an id of two numbers and a flat list of fields; `lua/_places.lua` says which
there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from sessionwire_server.entries import (
    Head,
    OpenMessage,
    Outlook,
    Page,
    Position,
    RewoundRange,
    StoredEvent,
)
from sessionwire_server.redis_link import Reply

__all__ = [
    "last_value",
    "log_event",
    "open_messages",
    "outlook",
    "page",
    "rewound_ranges",
    "tail_event",
    "text",
]


def text(value: bytes) -> str:
    """Decode a field that the hub wrote."""
    return value.decode()


def _numbers(entry_id: bytes) -> tuple[int, int]:
    first, _, second = entry_id.partition(b"-")
    return int(first), int(second)


def log_event(entry: Sequence[Reply]) -> StoredEvent:
    """Read an entry of the log, `<sequence>-<offset>`."""
    entry_id, fields = entry
    sequence, offset = _numbers(entry_id)
    event_id, kind, check, received, at = text(fields[1]).split(" ")
    return StoredEvent(
        offset=offset,
        sequence=sequence,
        check=check,
        durable=True,
        id=event_id,
        type=kind,
        body=fields[3],
        received_ms=int(received),
        at_ms=int(at),
        members=fields[5] if len(fields) > 4 else b"",
    )


def tail_event(entry: Sequence[Reply]) -> StoredEvent:
    """Read an entry of the tail, `<offset>-<sequence>`, that has its body."""
    entry_id, fields = entry
    offset, sequence = _numbers(entry_id)
    event_id, event_type, check, received, kind, key = text(fields[1]).split(" ")
    return StoredEvent(
        offset=offset,
        sequence=sequence,
        check=check,
        durable=kind == "d",
        id=event_id,
        type=event_type,
        body=fields[3],
        message_key=unquote(key) if key else "",
        received_ms=int(received),
    )


def _log_event_or_opener(entry: Sequence[Reply]) -> StoredEvent:
    return tail_event(entry) if entry[1][0] == b"p" else log_event(entry)


def last_value(value: bytes) -> StoredEvent:
    """Read a value of the `last` hash."""
    line, _, body = value.partition(b"\n")
    offset, sequence, check, kind, event_id, event_type = text(line).split(" ")
    return StoredEvent(int(offset), int(sequence), check, kind == "d", event_id, event_type, body)


def _ranges(spelled: str) -> Iterator[RewoundRange]:
    for word in spelled.split():
        first, last, offset = word.split("-")
        yield RewoundRange(int(first), int(last), int(offset))


def rewound_ranges(spelled: bytes | None) -> tuple[RewoundRange, ...]:
    """Read the rewound ranges as meta keeps them, ascending."""
    return tuple(_ranges(text(spelled))) if spelled else ()


def outlook(reply: Sequence[Reply]) -> Outlook:
    """Read what `look` answered for a session that exists."""
    epoch, catalog, sequence, offset, check, first, first_offset, created, *more = reply
    ranges, id_at, at, open_prompts = more
    return Outlook(
        epoch=text(epoch),
        catalog=text(catalog),
        head=Head(sequence, offset, text(check)),
        first_sequence=first,
        first_offset=first_offset,
        created_ms=created,
        rewound=rewound_ranges(ranges),
        id_at=text(id_at) or None,
        offset_at=at if isinstance(at, int) else None,
        open_prompts=open_prompts,
    )


def page(reply: Sequence[Reply]) -> Page:
    """Read what `page` answered for a session that exists."""
    epoch, sequence, offset, check, exact, more, trimmed, next_sequence, next_offset = reply[:9]
    read = tail_event if exact else _log_event_or_opener
    return Page(
        epoch=text(epoch),
        head=Head(sequence, offset, text(check)),
        events=tuple(map(read, reply[9:])),
        position=Position(next_sequence, next_offset),
        more=bool(more),
        exact=bool(exact),
        trimmed=bool(trimmed),
    )


def open_messages(reply: Sequence[Reply]) -> tuple[Head, list[OpenMessage]]:
    """Read what `open_messages` answered, messages in order of their first delta.

    The opener of a prompt is a message of its own, which has come whole.
    """
    _, sequence, offset, check, openers, *entries = reply
    deltas: dict[str, list[StoredEvent]] = {}
    for event in map(tail_event, entries):
        deltas.setdefault(event.message_key, []).append(event)
    messages = [OpenMessage(key, tuple(events)) for key, events in deltas.items()]
    messages += [OpenMessage("", (tail_event(entry),)) for entry in openers]
    return Head(sequence, offset, text(check)), messages
