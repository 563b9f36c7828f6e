"""What a stream of a session needs of the wire, whichever one it is (protocol.md §6 and §7).

A transport opens lines; a line gives the hub's frames, in order, until it ends. Frames of every
transport are those of SSE, so that one reader understands them all. Errors are ours already: what
they mean is decided in `_reconnect`. Neither reconnects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from sessionwire._sse import ServerSentEvent

__all__ = ["Line", "Start", "Transport", "TransportName", "Wanted"]

TransportName: TypeAlias = Literal["sse", "websocket"]


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin; the first that is given counts, none is the hub's default.

    Attributes:
        since_id: a cursor, or the id of an event: begin just after it.
        after_sequence: begin just after that durable event; 0 is the whole session.
        from_: `start`, `now` or `-N`, the last N durable events and then live.
    """

    since_id: str = ""
    after_sequence: int | None = None
    from_: str = ""

    def params(self) -> list[tuple[str, str]]:
        """Build the query members for it."""
        if self.since_id:
            return [("since_id", self.since_id)]
        if self.after_sequence is not None:
            return [("after_sequence", str(self.after_sequence))]
        return [("from", self.from_)] if self.from_ else []


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to ask for; empty members ask for all."""

    types: Sequence[str] = ()
    exclude: Sequence[str] = ()
    agents: Sequence[str] = ()

    def lists(self) -> dict[str, list[str]]:
        """Give the members that say something."""
        named = {"types": self.types, "exclude": self.exclude, "agents": self.agents}
        return {name: list(values) for name, values in named.items() if values}

    def params(self) -> list[tuple[str, str]]:
        """Build the query members, a repeated key for each value."""
        return [(name, value) for name, values in self.lists().items() for value in values]


class Line(Protocol):
    """An open stream of one session."""

    @property
    def retry_ms(self) -> int | None:
        """The reconnection time the stream last asked for."""
        ...

    async def frames(self) -> Sequence[ServerSentEvent]:
        """Wait and return what came, maybe nothing. Cancelled, the line is of no more use.

        Raises:
            HubError: the line ended, and how.
        """
        ...

    async def aclose(self) -> None:
        """Close the line, also when the task is being cancelled."""
        ...


class Transport(Protocol):
    """A way to open lines to one session."""

    async def open(self, start: Start, wanted: Wanted) -> Line:
        """Open a line.

        Raises:
            HubError: none came about, and why.
        """
        ...
