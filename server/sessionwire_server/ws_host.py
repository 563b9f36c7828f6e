"""One session that a WebSocket hosts (protocol.md §7.3, §9.3).

Commands are read only when there is room for them, and by few sessions of a connection at a time,
so that what a slow host holds does not grow with the number of sessions it hosts. Its lease is kept
meanwhile: a host that reads slowly is a host.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from sessionwire_schemas.rpc import notification
from sessionwire_server.attached_host import AttachedHost, attached
from sessionwire_server.commands import CommandCursor

if TYPE_CHECKING:
    from sessionwire_server.ws_connection import Connection

__all__ = ["HostedSession"]


class HostedSession:
    """A session and its host, from the lease to its return."""

    def __init__(self, connection: Connection, sid: str) -> None:
        self._connection = connection
        self._sid = sid
        self._scope = anyio.CancelScope()
        self._answered = anyio.Event()
        self._over = anyio.Event()

    async def run(
        self,
        host_id: str,
        takeover: bool,
        cursor: CommandCursor | None,
        *,
        task_status: TaskStatus[dict[str, Any]],
    ) -> None:
        """Take the lease, tell that it is there, and hand out commands until it ends.

        Raises:
            HubError: as `attached`, before it has told.
            Gone: the connection is over.
            Slow: it takes nothing.
        """
        hub = self._connection.desk.hub
        try:
            with self._scope:
                attaching = attached(hub, self._sid, host_id, takeover=takeover, cursor=cursor)
                async with attaching as host:
                    self._connection.hosted[self._sid] = self
                    task_status.started(host.members())
                    await self._serve(host)
                self._forget()
                await self._connection.detached(self._sid, host.ending)
        finally:
            self._forget()
            self._over.set()

    def begin(self) -> None:
        """Have the commands come: who hosts knows that it does."""
        self._answered.set()

    async def leave(self) -> None:
        """Give the lease back; nothing of its commands is sent after this."""
        self._scope.cancel()
        await self._over.wait()

    def _forget(self) -> None:
        if self._connection.hosted.get(self._sid) is self:
            del self._connection.hosted[self._sid]

    async def _serve(self, host: AttachedHost) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.keep)
            await self._connection.guarded(partial(self._hand_out, host))
            tasks.cancel_scope.cancel()

    async def _hand_out(self, host: AttachedHost) -> None:
        connection = self._connection
        await self._answered.wait()
        while host.ending is None:
            if await host.is_due(math.inf):
                async with connection.turns:
                    commands = await host.take()
                    messages = [self._spelled("command", data) for _, data in commands]
                    if (there := host.presence()) is not None:
                        data = msgspec.json.encode(there)
                        messages.append(self._spelled("host.presence", data))
                    if messages:
                        await connection.outlet.put(b"".join(messages))

    def _spelled(self, method: str, data: bytes) -> bytes:
        """Name the session in what a host is told; the rest keeps its bytes."""
        params = b'{"session_id":"%b",%b' % (self._sid.encode(), data.removeprefix(b"{"))
        return self._connection.outlet.framing(notification(method, params))
