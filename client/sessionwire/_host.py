"""Being the host of a session: its commands in order, across any interruption (protocol.md §9).

Owns the lease and the place up to which commands have been handed to the program: a connection that
breaks costs none, and brings none again that the program has. A program that begins anew gets
everything that it had not acknowledged. Starts no task: everything happens inside `__anext__`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, cast
from urllib.parse import quote

import anyio
import httpx2

from sessionwire._connection import Connection, open_connection
from sessionwire._follow import IDLE_TIMEOUT_S
from sessionwire._http import connection_failed, rejected_async, session_path
from sessionwire._items import read_closing
from sessionwire._reconnect import Outcome, Reconnection, classify_error, classify_status
from sessionwire._sse import MAX_EVENT_BYTES, ServerSentEvent
from sessionwire.errors import LeaseLost, ProtocolError, RequestRejected, Unavailable

__all__ = ["Command", "Host", "host"]

ACK_TRIES: Final = 8


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody asks of the host.

    Attributes:
        id: names it; the same command may come again and has the same one.
        type: `message.send`, `abort`, … or `x.…`.
        data: what goes with the type.
        by: who sent it: `id`, `name`, `human`.
        created_at: when, RFC 3339.
        attempt: 1 the first time that a host got it.
    """

    id: str
    type: str
    data: Mapping[str, Any]
    by: Mapping[str, Any]
    created_at: str
    attempt: int


class Host:
    """The commands of a session, endlessly; made by `host`.

    Attributes:
        lease: the fencing number, 0 before the first connection.
    """

    def __init__(
        self, http: httpx2.AsyncClient, session_id: str, host_id: str, *, takeover: bool
    ) -> None:
        self.lease = 0
        self._http = http
        self._path = session_path(session_id, "commands")
        self._host_id = host_id
        self._takeover = takeover
        self._cursor = ""
        self._reconnection = Reconnection()
        self._wait_s = 0.0
        self._connection: Connection | None = None
        self._frames: deque[ServerSentEvent] = deque()
        self._ended = False
        self._ahead: Command | None = None

    def __aiter__(self) -> Self:
        return self

    async def attach(self) -> None:
        """Become the host now, and not only when the first command is waited for.

        Raises:
            HostConflict: the session has another host.
            HubError: it cannot be.
        """
        while not self.lease and not self._ended:
            self._ahead = self._take()
            if not self.lease and not self._ended:
                await self._advance()

    async def __anext__(self) -> Command:
        while not self._ended:
            command, self._ahead = self._ahead or self._take(), None
            if command is not None:
                return command
            if not self._ended:
                await self._advance()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended = True
        await self._close()

    async def acknowledge(
        self,
        command: Command,
        outcome: Literal["consumed", "rejected"] = "consumed",
        *,
        detail: str | None = None,
        event_id: str | None = None,
    ) -> None:
        """Say what became of a command; tried again while the hub is away.

        Args:
            command: the command.
            outcome: whether it was obeyed.
            detail: why not, for people.
            event_id: the event that it led to.

        Raises:
            LeaseLost: another host has taken the session over.
            Conflict: it was acknowledged otherwise.
            ConnectionFailed, RequestRejected: the hub stays away, or refuses.
        """
        said = {"outcome": outcome, "detail": detail, "event_id": event_id}
        reconnection = Reconnection()
        for left in range(ACK_TRIES - 1, -1, -1):
            lease = self.lease
            try:
                await self._acknowledge(command, {**said, "lease": lease})
            except httpx2.TransportError as exc:
                if not left or classify_error(exc) is Outcome.FATAL:
                    raise connection_failed(self._http.base_url, exc) from exc
            except Unavailable:
                if not left:
                    raise
            except LeaseLost:
                # Another task may have attached anew under our own name meanwhile.
                if not left or lease == self.lease:
                    raise
            else:
                return
            await anyio.sleep(reconnection.delay_s())

    async def _acknowledge(self, command: Command, body: Mapping[str, Any]) -> None:
        path = f"{self._path}/{quote(command.id, safe='')}/ack"
        response = await self._http.post(path, json=body)
        if response.status_code != 200:
            raise await rejected_async(response)

    def _take(self) -> Command | None:
        while self._frames:
            frame = self._frames.popleft()
            if frame.type == "connected":
                self.lease = _members(frame)["lease"]
                self._reconnection.connected()
            elif closing := read_closing(frame):
                self._closed(closing.reason, closing.retry_ms)
            if frame.type in ("connected", "command"):
                self._cursor = frame.last_event_id or self._cursor
            if frame.type == "command":
                return _command(_members(frame))
        return None

    def _closed(self, reason: str, retry_ms: int) -> None:
        if reason == "lease_lost":
            self._ended = True
            raise LeaseLost(409, reason, "another host has taken the session over")
        self._ended = reason == "deleted"
        self._reconnection.planned(retry_ms)

    async def _advance(self) -> None:
        """Do the next thing that takes time: wait, connect or read."""
        try:
            if self._connection is None:
                await self._connect()
                return
            frames = await self._connection.frames()
        except httpx2.HTTPError as exc:
            await self._close()
            if self.lease == 0 or classify_error(exc) is Outcome.FATAL:
                raise connection_failed(self._http.base_url, exc) from exc
            frames = None
        except BaseException:
            await self._close()
            raise
        if frames is None:
            await self._close()
            self._wait_s = self._reconnection.delay_s()
        else:
            self._frames.extend(frames)

    async def _connect(self) -> None:
        if self._wait_s:
            await anyio.sleep(self._wait_s)
            self._wait_s = 0.0
        given = {
            "host_id": self._host_id,
            "since_id": self._cursor,
            # Once: whoever takes the session from us later is meant to have it.
            "takeover": "1" if self._takeover and not self.lease else "",
        }
        answer = await open_connection(
            self._http,
            f"{self._path}/sse",
            [(name, value) for name, value in given.items() if value],
            idle_timeout_s=IDLE_TIMEOUT_S,
            max_event_bytes=MAX_EVENT_BYTES,
        )
        if isinstance(answer, RequestRejected):
            if classify_status(answer.status) is Outcome.FATAL:
                raise answer
            self._wait_s = self._reconnection.delay_s(answer.retry_after_s)
            return
        self._connection = answer
        self._ended = answer is None

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


def _members(frame: ServerSentEvent) -> dict[str, Any]:
    try:
        value: Any = json.loads(frame.data)
    except ValueError as exc:
        raise ProtocolError(f"{frame.type!r} frame does not carry JSON") from exc
    if not isinstance(value, dict):
        raise ProtocolError(f"{frame.type!r} frame does not carry a JSON object")
    return cast("dict[str, Any]", value)


def _command(members: Mapping[str, Any]) -> Command:
    try:
        return Command(
            id=members["id"],
            type=members["type"],
            data=members["data"],
            by=members["by"],
            created_at=members["created_at"],
            attempt=members["attempt"],
        )
    except KeyError as exc:
        raise ProtocolError(f"a command without {exc.args[0]!r}") from exc


def host(
    http: httpx2.AsyncClient, session_id: str, *, host_id: str = "", takeover: bool = False
) -> Host:
    """Be the host of a session: `async with host(…) as commands: async for command in commands`.

    Ends when the session is deleted.

    Args:
        http: with the hub as its base URL, and a key with `publish`.
        session_id: the session, which exists.
        host_id: the program's own name: it takes its lease back under it. Empty: the key's.
        takeover: replace another host.

    Raises:
        HostConflict, LeaseLost: while iterating: the session has another host, or has got one.
        ConnectionFailed: the hub cannot be reached at first.
        RequestRejected: it refuses.
    """
    return Host(http, session_id, host_id, takeover=takeover)
