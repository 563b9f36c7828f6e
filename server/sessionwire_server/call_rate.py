"""How often a connection may call (protocol.md §11). Pure: the time is passed in."""

from __future__ import annotations

import math

from sessionwire_server.errors import HubError

__all__ = ["CallRate"]


class CallRate:
    """A bucket of calls that fills at `per_s` and holds one second's worth."""

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s = per_s
        self._left = per_s
        self._at = now

    def take(self, now: float) -> None:
        """Take one call.

        Raises:
            HubError: 429 `rate_limited`.
        """
        self._left = min(self._per_s, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            wait_s = math.ceil((1 - self._left) / self._per_s)
            raise HubError(
                429,
                "rate_limited",
                f"more than {self._per_s:g} calls a second",
                headers={"Retry-After": str(wait_s)},
            )
        self._left -= 1
