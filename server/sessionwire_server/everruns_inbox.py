"""What clients ask of an everruns session's host: messages, cancellation (protocol.md §4.8).

Owns that a message is one event and one command, both or none. Reading bodies and spelling answers
is the routes' business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from sessionwire_server.api_keys import Principal
from sessionwire_server.commands import NewCommand
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.everruns_message import MESSAGE_TYPES, NewMessage, message_of, named_id
from sessionwire_server.everruns_turn import latest_turn
from sessionwire_server.log_scan import LogScan
from sessionwire_server.minting import now_ms
from sessionwire_server.session_record import SessionRecord

__all__ = ["cancel_turn", "check_catalog", "listed_messages", "send_message"]


def check_catalog(session: SessionRecord) -> None:
    """Refuse a session that is no everruns one.

    Raises:
        HubError: 409 `catalog_mismatch`.
    """
    if session.catalog not in ("", "everruns"):
        detail = f"session {session.id!r} is of the catalog {session.catalog!r}"
        raise HubError(409, "catalog_mismatch", detail, catalog=session.catalog)


async def send_message(
    desk: Desk, sid: str, message: NewMessage, sender: Principal
) -> dict[str, Any]:
    """Take a message: its event and its command, in one step.

    Raises:
        HubError: 404 `session_not_found`, 409 `catalog_mismatch`, `not_steerable`; 410
            `session_deleted`; 422 `idempotency_reused`; 429 `commands_full`.
    """
    check_catalog(await desk.hub.store.session(sid))
    event = message.event(now_ms())
    try:
        verdict = await desk.publishing.publish_with(sid, event, message.command(sender))
    except HubError as error:
        if error.code != "command_id_reused":
            raise
        detail = "another message was sent with this Idempotency-Key"
        raise HubError(422, "idempotency_reused", detail) from error
    if verdict.duplicate and verdict.sequence is not None:
        event = await _stored(desk, sid, verdict.sequence) or event
    shown = message_of(event)
    assert shown is not None, "a message that was just taken"
    return shown


async def _stored(desk: Desk, sid: str, sequence: int) -> bytes | None:
    """Read the event as it was stored the first time, which stands."""
    page = await desk.hub.store.log_page(sid, after=sequence - 1, until=sequence, limit=1)
    return page[0].body if page else None


async def listed_messages(desk: Desk, sid: str, scan: LogScan) -> AsyncIterator[bytes]:
    """Yield the JSON of the list of messages, the oldest first.

    Raises:
        HubError: 404 `session_not_found`, 409 `catalog_mismatch`; and as `LogScan.events`.
    """
    check_catalog(await desk.hub.store.session(sid))
    outlook = await desk.hub.store.look(sid)
    separator = b'{"data":['
    async for event in scan.events(after=0, until=outlook.head.sequence, hidden=outlook.rewound):
        if event.type not in MESSAGE_TYPES:
            continue
        message = message_of(event.body)
        if message is not None:
            yield separator + msgspec.json.encode(message)
            separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


async def cancel_turn(desk: Desk, sid: str, scan: LogScan, sender: Principal) -> bool:
    """Have the host abort what it works on, or is about to; tell whether there is anything.

    One turn is aborted once, however often that is asked.

    Raises:
        HubError: as `send_message`.
    """
    session = await desk.hub.store.session(sid)
    check_catalog(session)
    turn = await latest_turn(scan, session.head.sequence)
    if turn is None:
        if session.status != "active":
            return False
        name, turn_id = session.epoch, ""
    elif turn.outcome:
        return False
    else:
        name, turn_id = turn.event_id, turn.turn_id
    data = {"reason": "user", **({"turn_id": turn_id} if turn_id else {})}
    command = NewCommand(
        id=named_id("cancel", sid, name),
        type="abort",
        data=msgspec.json.encode(data),
        by={"id": sender.id, "name": sender.name or None, "human": sender.human},
    )
    await desk.hub.commands.send(sid, command)
    return True
