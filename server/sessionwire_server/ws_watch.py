"""The commands that a WebSocket has sent, watched until they are finished (protocol.md §7.3).

A bell is hung up before a command is looked at, so no change falls between its sending and its
watching. What is told are its stages, each once and in order, also those that went by unseen.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from sessionwire_server.api_keys import Principal
from sessionwire_server.bell import Bell
from sessionwire_server.commands import Receipt
from sessionwire_server.errors import HubError
from sessionwire_server.live_message import CommandNews, News
from sessionwire_server.minting import now_ms
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.redis_link import StorageFull, StoreUnavailable

if TYPE_CHECKING:
    from sessionwire_server.ws_connection import Connection

__all__ = ["SentCommands", "stages"]

logger = logging.getLogger(__name__)

MAX_WATCHED: Final = 1_000
"""Commands of one connection that are not finished."""

REDIS_PAUSE_S: Final = (0.2, 1.0)


def stages(seen: Receipt, now: Receipt) -> Iterator[Receipt]:
    """Give what became of a command since it was seen, one receipt a status, in order."""
    if now.status == seen.status:
        return
    if seen.status == "accepted" and now.is_final and now.delivered_ms is not None:
        yield replace(now, status="delivered", finished_ms=None, detail=None, event_id=None)
    yield now


class SentCommands:
    """What is watched for one connection, by session."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sessions: dict[str, _Session] = {}
        self._count = 0

    @contextmanager
    def place(self) -> Generator[None]:
        """Hold a place for one more while it is being sent.

        Raises:
            HubError: 429 `too_many_commands`.
        """
        watched = sum([len(session.seen) for session in self._sessions.values()])
        if watched + self._count >= MAX_WATCHED:
            detail = f"{MAX_WATCHED} commands of this connection are not finished, as many as may"
            raise HubError(429, "too_many_commands", detail, headers={"Retry-After": "5"})
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def watch(self, sid: str, receipt: Receipt) -> None:
        """Tell what becomes of a command from now on, if anything more can."""
        if receipt.is_final:
            return
        session = self._sessions.get(sid)
        if session is None:
            session = self._sessions[sid] = _Session(sid)
            self._connection.beside(partial(self._tell, session))
        session.add(receipt)

    def may_be_seen_by(self, who: Principal) -> bool:
        """Whether somebody may steer all sessions of what is watched."""
        return all(who.may("steer", sid) for sid in self._sessions)

    async def _tell(self, session: _Session) -> None:
        hub = self._connection.desk.hub
        channel = hub.feed.channel(session.sid)
        try:
            with channel.bell(session.wants) as bell:
                session.bell = bell
                while session.seen:
                    try:
                        await hub.feed.confirm(channel)
                        await self._look(session)
                    except (StoreUnavailable, StorageFull):
                        await anyio.sleep(random.uniform(*REDIS_PAUSE_S))
                    else:
                        await session.news(hub.settings.head_check_s)
        finally:
            del self._sessions[session.sid]

    async def _look(self, session: _Session) -> None:
        for command_id in tuple(session.changed):
            session.changed.discard(command_id)
            try:
                changes = await self._changes(session, command_id)
            except BaseException:
                session.changed.add(command_id)
                raise
            for told in changes:
                await self._connection.notify(
                    "command.updated", {"session_id": session.sid, **told}
                )

    async def _changes(self, session: _Session, command_id: str) -> list[dict[str, Any]]:
        """Read what became of a command, and keep it if more can."""
        seen = session.seen[command_id]
        try:
            now = await self._connection.desk.hub.commands.look(session.sid, command_id)
        except (StoreUnavailable, StorageFull):
            raise
        except SessionDeleted:
            now = seen.expired(now_ms())
        except HubError as error:
            logger.debug("a command that was sent is not there any more: %s", error.code)
            session.forget(command_id)
            return [{"id": command_id, "status": "unknown"}]
        if now.is_final:
            session.forget(command_id)
        else:
            session.seen[command_id] = now
        return [stage.members() for stage in stages(seen, now)]


class _Session:
    """The commands of one session.

    Attributes:
        seen: their receipts as they were told last, by id.
        changed: those that are to be looked at.
        bell: set while news are heard.
    """

    def __init__(self, sid: str) -> None:
        self.sid = sid
        self.seen: dict[str, Receipt] = {}
        self.changed: set[str] = set()
        self.bell: Bell | None = None

    def add(self, receipt: Receipt) -> None:
        """Watch one more, from what its sender was told; it may have changed since."""
        self.seen.setdefault(receipt.id, receipt)
        self.changed.add(receipt.id)
        if self.bell is not None:
            self.bell.ring()

    def forget(self, command_id: str) -> None:
        """Watch it no more."""
        del self.seen[command_id]
        self.changed.discard(command_id)

    def wants(self, news: News) -> bool:
        """Note which of them changed, if any did."""
        if not isinstance(news, CommandNews):
            return False
        changed = self.seen.keys() & {change.id for change in news.changes}
        self.changed |= changed
        return bool(changed)

    async def news(self, patience_s: float) -> None:
        """Wait until some are to be looked at: all of them, if what changed was not heard."""
        if self.seen and not self.changed and self.bell is not None:
            await self.bell.heard(patience_s)
            if not self.changed:
                self.changed.update(self.seen)
