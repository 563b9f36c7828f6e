"""Calls as clients send them: JSON-RPC 2.0, one or a batch (protocol.md §7). Pure.

Reads a message into calls and faults, in order, and never fails. Ids and params keep their bytes:
an id comes back spelled as it was, and events are stored as their producer wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from sessionwire_schemas.rpc import ErrorCode
from sessionwire_server.errors import HubError
from sessionwire_server.raw_json import fit_for_a_line

__all__ = ["Call", "Fault", "fault_of", "other_params", "read_message", "read_params"]

MAX_CALLS: Final = 256
"""Calls in a batch, as many as events in one."""
MAX_ID_BYTES: Final = 1_024
"""Comes back with the answer, so it costs twice."""
MAX_METHOD: Final = 64

_ANY: Final = msgspec.json.Decoder(msgspec.Raw)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_BLANK: Final = b" \t\r\n"

_INVALID_PARAMS: Final = frozenset(
    {
        "cursor_conflict",
        "invalid_body",
        "invalid_cursor",
        "invalid_parameter",
        "invalid_session_id",
    }
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `id` is None for a notification, which is not answered; `params` is an object."""

    id: bytes | None
    method: str
    params: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """What is answered with an error. `id` is JSON, `null` where the call does not say."""

    id: bytes
    code: ErrorCode
    error: HubError


def fault_of(call_id: bytes, error: HubError) -> Fault:
    """Say an error of the hub in JSON-RPC."""
    if error.code in _INVALID_PARAMS:
        return Fault(call_id, ErrorCode.INVALID_PARAMS, error)
    if error.code == "method_not_found":
        return Fault(call_id, ErrorCode.METHOD_NOT_FOUND, error)
    if error.code == "internal_error":
        return Fault(call_id, ErrorCode.INTERNAL_ERROR, error)
    return Fault(call_id, ErrorCode.REFUSED, error)


def read_message(message: bytes) -> list[Call | Fault]:
    """Read a message: its calls in order, those that are none as faults."""
    text = message.strip(_BLANK)
    try:
        if not text.startswith(b"["):
            return [_call(bytes(_ANY.decode(text)))]
        items = _ITEMS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        error = HubError(400, "malformed_json", f"the message is not JSON: {exc}"[:300])
        return [Fault(b"null", ErrorCode.PARSE_ERROR, error)]
    if not items:
        return [_invalid(b"null", "an empty batch")]
    if len(items) > MAX_CALLS:
        error = HubError(
            413, "batch_too_large", f"a batch has at most {MAX_CALLS} calls", limit=MAX_CALLS
        )
        return [Fault(b"null", ErrorCode.INVALID_REQUEST, error)]
    return [_call(bytes(item)) for item in items]


def _call(raw: bytes) -> Call | Fault:
    try:
        members = _MEMBERS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _invalid(b"null", "a call is an object")
    call_id: bytes | None = None
    if "id" in members:
        call_id = fit_for_a_line(bytes(members["id"]))
        if len(call_id) > MAX_ID_BYTES:
            return _invalid(b"null", f"an id has at most {MAX_ID_BYTES} bytes")
    named = b"null" if call_id is None else call_id
    if _text(members.get("jsonrpc")) != "2.0":
        return _invalid(named, '`jsonrpc` must be "2.0"')
    method = _text(members.get("method"))
    if method is None or len(method) > MAX_METHOD:
        return _invalid(named, f"`method` must be a string of at most {MAX_METHOD} characters")
    params = bytes(members.get("params", b"{}"))
    if params.startswith(b"["):
        error = HubError(400, "invalid_parameter", "params: must be an object, not a list")
        return Fault(named, ErrorCode.INVALID_PARAMS, error)
    if not params.startswith(b"{"):
        return _invalid(named, "`params` must be an object")
    return Call(call_id, method, params)


def _text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    try:
        return _TEXT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _invalid(call_id: bytes, detail: str) -> Fault:
    return Fault(call_id, ErrorCode.INVALID_REQUEST, HubError(400, "invalid_request", detail))


def read_params(params: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Read the params of a call.

    Raises:
        HubError: 400 `invalid_parameter`.
    """
    try:
        return decoder.decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        detail = str(exc).replace("`$.", "`params.").replace("`$", "`params")
        raise HubError(400, "invalid_parameter", f"params: {detail}"[:300]) from None


def other_params(params: bytes, *names: str) -> bytes:
    """Give what is left of params without some of them, each as it was written.

    Args:
        params: a JSON object that was read before.
        names: those that are not for whoever reads the rest.
    """
    members = _MEMBERS.decode(params)
    return msgspec.json.encode({n: raw for n, raw in members.items() if n not in names})
