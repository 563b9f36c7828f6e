"""Why a WebSocket is closed, and what its client does then (protocol.md §7). Pure.

4000 to 4499 mean come back, 4500 to 4999 mean stop, whatever the number; so a client needs no list.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CloseCode"]


class CloseCode(IntEnum):
    """The codes that a hub closes with. The first two are RFC 6455's and IANA's."""

    TOO_BIG = 1009
    """A message above the limit."""
    TRY_AGAIN_LATER = 1013
    """The token has as many connections as it may."""
    SHUTDOWN = 4000
    SLOW = 4001
    """Nothing was read for `send_timeout_s`."""
    CONNECTION_CYCLE = 4002
    BAD_TOKEN = 4500
    FORBIDDEN = 4501
    """The new token may not do what the connection does."""
    PROTOCOL_ERROR = 4502
    TOKEN_EXPIRED = 4503
    DELETED = 4504
    """The only session that was followed is deleted."""

    @property
    def reconnect(self) -> bool:
        """Whether the client should come back."""
        return self is CloseCode.TRY_AGAIN_LATER or 4000 <= self < 4500
