"""JSON-RPC 2.0 messages as the hub sends them (protocol.md §7). Pure.

Bodies and ids come here as JSON already and keep their bytes. Every message is one line. Source:
the JSON-RPC 2.0 specification, §4 and §5.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

__all__ = [
    "SUBPROTOCOL",
    "ErrorCode",
    "error_message",
    "event_notification",
    "notification",
    "result_message",
]

SUBPROTOCOL = "sessionwire.v1.jsonrpc"


class ErrorCode(IntEnum):
    """JSON-RPC's own codes (§5.1), and one for what the hub refuses: its `data.code` tells more."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    REFUSED = -32000


def event_notification(session_id: str, cursor: str, sequence: int | None, event: bytes) -> bytes:
    """Spell `session.event`.

    Args:
        session_id, cursor: in their alphabets, so neither needs an escape.
        sequence: None for an ephemeral event.
        event: as one line of JSON.
    """
    numbered = b"" if sequence is None else b'"sequence":%d,' % sequence
    return (
        b'{"jsonrpc":"2.0","method":"session.event","params":'
        b'{"session_id":"%b","cursor":"%b",%b"event":%b}}'
        % (session_id.encode(), cursor.encode(), numbered, event)
    )


def notification(method: str, params: bytes) -> bytes:
    """Spell a notification; `params` is a JSON object on one line."""
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def result_message(call_id: bytes, result: bytes) -> bytes:
    """Spell the answer to a call; both arguments are JSON on one line."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, result)


def error_message(call_id: bytes, code: int, message: str, data: dict[str, Any]) -> bytes:
    """Spell a refusal.

    Args:
        call_id: JSON; `null` where the call does not say.
        code: an `ErrorCode`.
        message: a sentence for people.
        data: `code`, the stable word of protocol.md §12, and what belongs to it.
    """
    error = {"code": int(code), "message": message, "data": data}
    body = json.dumps(error, separators=(",", ":")).encode()
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, body)
