"""What a session is like now, as its viewers in this process are told it (protocol.md §6.5).

One newest `State` a name and channel, framed once for all who spell it alike, however many are told
it and however slow they are. It is read where somebody wants it alone: `StateBoard` reads, the
channel shows. Serial numbers grow with each state shown, so a viewer needs to keep one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from sessionwire_server.audience import Dialect, State, Taste
from sessionwire_server.presence import Presence

__all__ = ["STATES", "StateFrame", "StateName", "States"]

StateName: TypeAlias = Literal["prompts", "presence"]

STATES: Final[tuple[StateName, ...]] = ("prompts", "presence")
"""In the order in which a viewer that comes is told them."""


class StateFrame:
    """A state with its number, framed when somebody first wants it."""

    __slots__ = ("_framed", "serial", "state")

    def __init__(self, state: State, serial: int) -> None:
        self.state = state
        self.serial = serial
        self._framed: dict[tuple[Dialect, Callable[[bytes], bytes]], bytes] = {}

    def framed(self, taste: Taste) -> bytes:
        """Give the bytes for everybody with a taste."""
        key = (taste.spelling, taste.framing)
        made = self._framed.get(key)
        if made is None:
            made = self._framed[key] = taste.framing(taste.spelling.state(self.state))
        return made


class States:
    """The states of one channel.

    Attributes:
        serial: number of the newest state shown; it never goes down.
        watchers: how many want to be told; without any nothing is read or kept.
        stale: names of states that are to be read.
        life: grows where everything known is given up.
        presence: the newest presence, None while it is not known.
        prompts_version: number of the newest change of prompts that was read, -1 for none.
        open_prompts: how many prompts were open then.
    """

    __slots__ = (
        "_frames",
        "life",
        "open_prompts",
        "presence",
        "prompts_version",
        "serial",
        "stale",
        "watchers",
    )

    def __init__(self) -> None:
        self.serial = 0
        self.watchers = 0
        self.life = 0
        self.stale: set[StateName] = set()
        self._frames: dict[str, StateFrame] = {}
        self.presence: Presence | None = None
        self.prompts_version = -1
        self.open_prompts = 0

    @property
    def known(self) -> bool:
        """Whether there is something to tell of each name."""
        return len(self._frames) == len(STATES)

    def put(self, state: State) -> StateFrame | None:
        """Take a state that was read; None where it says nothing new."""
        before = self._frames.get(state.name)
        if before is not None and before.state == state:
            return None
        self.serial += 1
        frame = self._frames[state.name] = StateFrame(state, self.serial)
        return frame

    def newest(self, name: StateName) -> StateFrame | None:
        """Give the newest state of a name, None while it is not known."""
        return self._frames.get(name)

    def after(self, serial: int) -> StateFrame | None:
        """Give the oldest state that is newer than a number, None where there is none."""
        newer = [frame for frame in self._frames.values() if frame.serial > serial]
        return min(newer, key=lambda frame: frame.serial, default=None)

    def take_stale(self) -> set[StateName]:
        """Give the names that are to be read; what becomes stale from now on is read again."""
        stale, self.stale = self.stale, set()
        return stale

    def void(self) -> None:
        """Give up what is known."""
        self.life += 1
        self._frames.clear()
        self.stale.clear()
        self.presence = None
        self.prompts_version, self.open_prompts = -1, 0

    def outdate(self, names: Iterable[StateName]) -> bool:
        """Mark states as to be read, where somebody watches; tell whether that is so."""
        if not self.watchers:
            return False
        self.stale.update(names)
        return True
