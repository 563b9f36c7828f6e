"""Paths as they came over the wire (protocol.md §4).

The hub routes on the raw path, so that a request id with an encoded slash is one segment. Routes
therefore match segments still encoded; `decoded` decodes one. `/api/v1` is the same as `/v1`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from starlette.types import Scope

from sessionwire_schemas.names import SESSION_ID_PATTERN
from sessionwire_server.errors import HubError

__all__ = ["checked_session_id", "decoded", "with_raw_path"]

_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

TAKEN: Final = "sse"
"""`/v1/sessions/sse` is the list as a stream, so no session can be called that."""


def with_raw_path(scope: Scope) -> Scope:
    """Copy the scope of a request or WebSocket, with the raw path where the router looks."""
    raw = scope.get("raw_path")
    path = quote(scope["path"]) if raw is None else raw.decode("latin-1")
    path = path.removeprefix(scope.get("root_path", ""))
    if "%" in path:
        path = _ENCODED.sub(_decode_unreserved, path)
    if path.startswith("/api/v1/"):
        path = path.removeprefix("/api")
    return {**scope, "path": path, "root_path": ""}


def _decode_unreserved(match: re.Match[str]) -> str:
    # RFC 3986 §6.2.2.2: these mean the same, encoded or not.
    character = chr(int(match[0][1:], 16))
    return character if character in _UNRESERVED else match[0]


def decoded(name: str, text: str) -> str:
    """Decode a segment of the path.

    Raises:
        HubError: 400 `invalid_parameter` if it is not UTF-8.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise HubError(400, "invalid_parameter", f"{name} is not UTF-8", parameter=name) from None


def checked_session_id(sid: str) -> str:
    """Return a session id if it is one.

    Raises:
        HubError: 400 `invalid_session_id`.
    """
    if not SESSION_ID_PATTERN.fullmatch(sid) or sid == TAKEN:
        raise HubError(
            400,
            "invalid_session_id",
            f"a session id must match {SESSION_ID_PATTERN.pattern} and not be {TAKEN!r}",
        )
    return sid
