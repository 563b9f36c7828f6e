"""The events of a session and nothing else, for `async for event in session.follow()`.

Owns what becomes of gaps: raised, or handed over as items. Everything else that a followed session
tells is left out; `Session.watch` has it.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar, cast

from sessionwire._choice import TransportChoice
from sessionwire._event import Event
from sessionwire._follow import Follow
from sessionwire._items import Disconnected, Gap, Reset
from sessionwire._transport import TransportName
from sessionwire.errors import ReplayGap, SessionReset

__all__ = ["EventStream", "OnGap"]

logger = logging.getLogger(__name__)

OnGap = Literal["raise", "item"]

T_co = TypeVar("T_co", covariant=True)


class EventStream(Generic[T_co]):
    """An endless iterator, made by `Session.follow`; also an asynchronous context manager."""

    def __init__(self, items: Follow, on_gap: OnGap) -> None:
        self._items = items
        self._raises = on_gap == "raise"

    @property
    def cursor(self) -> str:
        """The place just after what was handed over; empty before the first connection."""
        return self._items.cursor

    @property
    def transport(self) -> TransportName:
        """What the connection, or the next attempt, goes over."""
        return self._items.transport

    @property
    def closed(self) -> bool:
        """Whether the iteration has ended."""
        return self._items.closed

    async def switch(self, transport: TransportChoice) -> None:
        """Go on over another transport, from the same place; loses and doubles nothing."""
        await self._items.switch(transport)

    async def aclose(self) -> None:
        """Close the connection and end the iteration. Closing twice is fine."""
        await self._items.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        async for item in self._items:
            match item:
                case Event():
                    return cast("T_co", item)
                case Gap():
                    if self._raises:
                        raise ReplayGap(
                            item.reason,
                            item.after_sequence,
                            item.resumed_sequence,
                            cursor=self.cursor,
                        )
                    return cast("T_co", item)
                case Reset():
                    if self._raises:
                        raise SessionReset(item.cursor)
                    return cast("T_co", item)
                case Disconnected():
                    logger.info("%s, again in %.1f s", item.detail or item.reason, item.wait_s)
                case _:
                    pass
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
