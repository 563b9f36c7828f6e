"""The prompts of a session as they begin to wait for an answer.

Owns which of them were given out. Starts no task: everything happens while somebody waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from sessionwire._api import insist
from sessionwire._follow import Follow
from sessionwire._items import Prompts
from sessionwire._prompt import Prompt
from sessionwire._prompts import PromptRecord

if TYPE_CHECKING:
    from sessionwire._session import Session

__all__ = ["MAX_KNOWN", "OpenPrompts", "PromptFeed"]

_RARE: Final = {"copilot": "session.shutdown", "everruns": "turn.sealed"}
"""A type that hardly ever comes: with it alone a stream brings the prompts and few events."""

MAX_KNOWN: Final = 10_000
"""Ids of prompts that are remembered: more than a session has open at once, by far."""


class OpenPrompts:
    """All open prompts, and again all of them whenever one changes; ends with the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._items: Follow | None = None

    @property
    def closed(self) -> bool:
        """Whether the iteration has ended."""
        return self._items is not None and self._items.closed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[PromptRecord, ...]:
        if self._items is None:
            info = await insist(self._session.info, patience_s=None)
            rare = _RARE.get(str(info.get("catalog")))
            self._items = self._session.watch(types=[rare] if rare else [], from_="now")
        async for item in self._items:
            if isinstance(item, Prompts):
                return tuple(PromptRecord.read(members) for members in item.prompts)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the connection."""
        if self._items is not None:
            await self._items.aclose()


class PromptFeed:
    """Prompts one by one, each once while it waits; made by `Session.prompts`."""

    def __init__(self, session: Session, kinds: Collection[str]) -> None:
        self._session = session
        self._kinds = frozenset(kinds)
        self._lists = OpenPrompts(session)
        self._ready: deque[PromptRecord] = deque()
        self._known: dict[str, None] = {}
        """Ids of those that were given out, or will be, the oldest first. They never come again."""

    @property
    def closed(self) -> bool:
        """Whether the iteration has ended."""
        return self._lists.closed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Prompt:
        while not self._ready:
            self._take(await anext(self._lists))
        return Prompt(self._session.client.http, self._ready.popleft())

    def _take(self, found: Sequence[PromptRecord]) -> None:
        open_ids = {record.request_id for record in found if record.waits}
        self._ready = deque(record for record in self._ready if record.request_id in open_ids)
        new = [
            record
            for record in found
            if record.waits
            and record.request_id not in self._known
            and (not self._kinds or record.kind in self._kinds)
        ]
        self._ready.extend(new)
        self._known |= dict.fromkeys(record.request_id for record in new)
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection. Closing twice is fine."""
        await self._lists.aclose()
