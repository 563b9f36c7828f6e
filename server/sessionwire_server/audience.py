"""What a viewer wants to see and how it is spelled; viewers that agree share every byte.

`Filter` decides, a `Dialect` encodes (`Spelling` is that of SSE), and `Audience` is the set of a
channel's viewers with one filter, spelling and framing: its joined bytes are made once, however
many they go to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from sessionwire_schemas.cursor import Cursor
from sessionwire_schemas.frames import HEARTBEAT, control_frame, event_frame
from sessionwire_server.entries import StoredEvent

if TYPE_CHECKING:
    from sessionwire_server.viewer import Viewer

__all__ = [
    "Audience",
    "Dialect",
    "Filter",
    "Flow",
    "Frame",
    "Sender",
    "Span",
    "Spelling",
    "State",
    "Taste",
    "Wire",
    "chunked",
    "plain",
]


class _Agent(msgspec.Struct):
    agentId: str | None = None


_agent = msgspec.json.Decoder(_Agent)


class Flow(Protocol):
    """The server's flow control of a connection: `write_paused` above its high-water mark."""

    @property
    def write_paused(self) -> bool: ...

    async def drain(self) -> None: ...


class Wire(NamedTuple):
    """What a delivery needs of a viewer: its transport's `write`, and whether that is full."""

    write: Callable[[bytes], None]
    flow: Flow


class Sender(Protocol):
    """A connection that a viewer writes to by itself; see `sender.TransportSender`."""

    @property
    def wire(self) -> Wire: ...
    @property
    def paused(self) -> bool: ...
    @property
    def buffered(self) -> int: ...
    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def abort(self) -> None: ...


class Filter(NamedTuple):
    """Which events a viewer sees; None and empty sets let everything through.

    `agents` holds agent ids and `primary`: events of no agent, and those about sub-agents.
    """

    types: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None

    def admits(self, event: StoredEvent) -> bool:
        """Tell whether the viewer sees the event."""
        if self.types is not None and event.type not in self.types:
            return False
        if event.type in self.exclude:
            return False
        return self.agents is None or self._admits_agent(self.agents, event)

    @staticmethod
    def _admits_agent(agents: frozenset[str], event: StoredEvent) -> bool:
        try:
            agent = _agent.decode(event.body).agentId
        except msgspec.MsgspecError:
            agent = None
        if "primary" in agents and (agent is None or event.type.startswith("subagent.")):
            return True
        return agent in agents


class State(NamedTuple):
    """What a session is like now, as viewers are told it: whole, and again when it changes.

    Attributes:
        name: `prompts` or `presence`.
        data: a JSON object on one line.
        redacted: the same for those from whom is held back.
    """

    name: str
    data: bytes
    redacted: bytes


class Dialect(Protocol):
    """How what a viewer is told becomes bytes. Values, compared and hashed as such."""

    @property
    def heartbeat(self) -> bytes:
        """What breaks a silence; empty where the protocol below sees to it."""
        ...

    def encode(self, event: StoredEvent, epoch: str) -> bytes:
        """Spell one session event."""
        ...

    def own(self, name: str, data: dict[str, Any], *, cursor: str | None = None) -> bytes:
        """Spell one of the hub's own: `caught_up`, `cursor`, `gap`, `reset`; `cursor` marks it."""
        ...

    def snapshot(self, bodies: Sequence[bytes]) -> bytes:
        """Spell the last values, each the JSON of an event."""
        ...

    def state(self, state: State) -> bytes:
        """Spell a state."""
        ...


class Spelling(NamedTuple):
    """The dialect of event streams.

    Without `cursors` the `id:` line is the event's own id, on durable events only, as the everruns
    server does it. Without `names` there is no `event:` line.
    """

    cursors: bool = True
    names: bool = True

    def encode(self, event: StoredEvent, epoch: str) -> bytes:
        """Frame one event."""
        if self.cursors:
            marker: str | None = f"{epoch}.{event.sequence}.{event.offset}.{event.check}"
        else:
            marker = event.id if event.durable else None
        return event_frame(event.body, name=event.type if self.names else None, event_id=marker)

    @property
    def heartbeat(self) -> bytes:
        """A comment."""
        return HEARTBEAT

    def own(self, name: str, data: dict[str, Any], *, cursor: str | None = None) -> bytes:
        """Frame one of the hub's own."""
        return control_frame(name, data, event_id=cursor)

    def snapshot(self, bodies: Sequence[bytes]) -> bytes:
        """Frame the last values."""
        return b'event: snapshot\ndata: {"events":[%b]}\n\n' % b",".join(bodies)

    def state(self, state: State) -> bytes:
        """Frame a state; it is no place, so it has no `id:`."""
        return event_frame(state.data, name=state.name, event_id=None)


class Frame:
    """An event in a ring, encoded once per dialect when somebody first wants it."""

    __slots__ = ("_made", "epoch", "event", "size")

    def __init__(self, event: StoredEvent, epoch: str) -> None:
        self.event = event
        self.epoch = epoch
        self.size = 2 * len(event.body) + 400
        """Bytes held in memory with one spelling made, near enough for a budget."""
        self._made: dict[Dialect, bytes] = {}

    def spelled(self, spelling: Dialect) -> bytes:
        """Give the frame's bytes."""
        made = self._made.get(spelling)
        if made is None:
            made = self._made[spelling] = spelling.encode(self.event, self.epoch)
        return made


class Span:
    """Frames that go out together, joined once for all who see each of them and spell them alike.

    Whoever shares a span shares the bytes; they go with it.
    """

    __slots__ = ("_joined", "frames")

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.frames = frames
        self._joined: dict[tuple[Dialect, Callable[[bytes], bytes]], bytes] = {}

    @classmethod
    def of(cls, events: Iterable[StoredEvent], epoch: str) -> Span:
        """Make frames of events."""
        return cls([Frame(event, epoch) for event in events])

    def joined(self, spelling: Dialect, framing: Callable[[bytes], bytes]) -> bytes:
        """Give all of them as one piece of the wire."""
        key = (spelling, framing)
        made = self._joined.get(key)
        if made is None:
            parts = [frame.spelled(spelling) for frame in self.frames]
            made = self._joined[key] = framing(parts[0] if len(parts) == 1 else b"".join(parts))
        return made


def plain(data: bytes) -> bytes:
    """Frame nothing: the bytes as they are, for HTTP/1.0 and for servers that do it themselves."""
    return data


def chunked(data: bytes) -> bytes:
    """Frame bytes as one chunk of a chunked message (RFC 9112 §7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Taste(NamedTuple):
    """Everything that the bytes for a viewer depend on; equal tastes share an `Audience`."""

    filter: Filter = Filter()
    spelling: Dialect = Spelling()
    control: bool = False
    framing: Callable[[bytes], bytes] = plain


@dataclass(eq=False, slots=True)
class Audience:
    """The viewers of one channel with one taste.

    Attributes:
        live: those that are caught up and written to synchronously, with what that takes.
        members: how many viewers there are, live or not.
        filtered: events left out since a cursor was last shown.
        written_at: loop time of the last write to the live ones, for heartbeats.
    """

    taste: Taste
    live: dict[Viewer, Wire]
    members: int = 0
    filtered: int = 0
    written_at: float = 0.0

    def write(self, data: bytes) -> list[Viewer]:
        """Write framed bytes to the live viewers; give those whose socket is full or gone.

        This is the one loop that runs per delivery.
        """
        slow: list[Viewer] = []
        for viewer, (write, flow) in self.live.items():
            try:
                write(data)
            except RuntimeError:
                # A transport that was closed in this iteration: its viewer finds out by itself.
                slow.append(viewer)
                continue
            if flow.write_paused:
                slow.append(viewer)
        return slow

    def encode(self, span: Span, cursor_every: int) -> tuple[bytes, int]:
        """Join what this audience sees of a span, framed for the wire.

        Args:
            span: frames in order of offset.
            cursor_every: number of filtered events after which a `cursor` frame stands in.

        Returns: the bytes, empty when there is nothing to write, and the number of events in them.
        """
        taste, frames = self.taste, span.frames
        if not frames:
            return b"", 0
        if taste.filter == _EVERYTHING:
            return span.joined(taste.spelling, taste.framing), len(frames)
        parts, shown = self._filtered(frames, cursor_every)
        if not parts:
            return b"", 0
        return taste.framing(b"".join(parts)), shown

    def _filtered(self, frames: Sequence[Frame], cursor_every: int) -> tuple[list[bytes], int]:
        parts: list[bytes] = []
        shown = 0
        for frame in frames:
            event = frame.event
            if self.taste.filter.admits(event):
                parts.append(frame.spelled(self.taste.spelling))
                shown += 1
                self.filtered = 0
                continue
            self.filtered += 1
            if self.taste.control and self.filtered >= cursor_every:
                self.filtered = 0
                cursor = str(Cursor(frame.epoch, event.sequence, event.offset, event.check))
                parts.append(self.taste.spelling.own("cursor", {"cursor": cursor}, cursor=cursor))
        return parts, shown


_EVERYTHING = Filter()
