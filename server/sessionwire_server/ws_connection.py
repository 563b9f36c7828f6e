"""One WebSocket from its first message to its close (protocol.md §7).

Owns who speaks, how fast, what is followed and how it ends. Calls are carried out one after the
other, in the order they came: their answers are in that order, and a client that does not read its
answers is not read from. What the calls do is `ws_methods`; how bytes get out is `ws_sender`.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Literal

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from sessionwire_schemas.close_codes import CloseCode
from sessionwire_schemas.rpc import error_message, notification, result_message
from sessionwire_server.access import Principal, unauthorized
from sessionwire_server.call_rate import CallRate
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.event_stream import CYCLE_RETRY_MS, RETRY_MS
from sessionwire_server.rpc_call import Call, Fault, fault_of, read_message
from sessionwire_server.viewer import EndReason
from sessionwire_server.ws_call import Answer
from sessionwire_server.ws_host import HostedSession
from sessionwire_server.ws_methods import AUTHENTICATE, METHODS
from sessionwire_server.ws_sender import CLOSE_S, AsgiOutlet, Gone, Slow, TransportOutlet
from sessionwire_server.ws_subscription import Subscription
from sessionwire_server.ws_watch import SentCommands

__all__ = ["Connection"]

logger = logging.getLogger(__name__)

Ending = EndReason | Literal["unauthorized", "forbidden", "protocol_error", "too_big", "full"]

CODES: Final[dict[Ending, CloseCode]] = {
    "shutdown": CloseCode.SHUTDOWN,
    "slow": CloseCode.SLOW,
    "connection_cycle": CloseCode.CONNECTION_CYCLE,
    "token_expired": CloseCode.TOKEN_EXPIRED,
    "deleted": CloseCode.DELETED,
    "unauthorized": CloseCode.BAD_TOKEN,
    "forbidden": CloseCode.FORBIDDEN,
    "protocol_error": CloseCode.PROTOCOL_ERROR,
    "too_big": CloseCode.TOO_BIG,
    "full": CloseCode.TRY_AGAIN_LATER,
}
FAREWELL: Final = frozenset({"shutdown", "connection_cycle", "token_expired"})
"""Ends that come out of the blue and are told before the close."""

STRANGER_BYTES: Final = 64 * 1024
"""A message of somebody who has not said who it is."""
TURNS: Final = 4
"""Sessions of one connection that are read from Redis at once, each about two pages."""
LAST_WORDS_S: Final = 2.0
"""How long a full socket may hold up the close, unless it is closed because it is full."""


class Connection:
    """An accepted WebSocket. The hub's clock ends it in time.

    Attributes:
        desk: what all connections of this process share.
        outlet: the one writer.
        principal: who speaks; None until that is known.
        subscriptions: the sessions that are followed, by id.
        listing: runs while the session list is followed, else None.
        hosted: the sessions that it hosts, by id.
        sent_commands: the commands that it has sent and that are not finished.
        turns: held by whoever reads from Redis what is then written.
        deadline, drain_at, expires_at: see `Clocked`.
    """

    def __init__(
        self,
        desk: Desk,
        websocket: WebSocket,
        outlet: TransportOutlet | AsgiOutlet,
        principal: Principal | None,
        place: ExitStack,
    ) -> None:
        """Take an accepted WebSocket; `place` counts it for its token and is closed at its end."""
        self.desk = desk
        self.outlet = outlet
        self.principal = principal
        self.subscriptions: dict[str, Subscription] = {}
        self.listing: anyio.CancelScope | None = None
        self.hosted: dict[str, HostedSession] = {}
        self.sent_commands = SentCommands(self)
        self.turns = anyio.Semaphore(TURNS)
        self.deadline: float | None = None
        self.drain_at: float | None = None
        self.expires_at: float | None = None
        self._websocket = websocket
        self._place = place
        self._ending: Ending | None = None
        self._gone = False
        self._waiting: anyio.CancelScope | None = None
        self._tasks: TaskGroup | None = None
        self._rate = CallRate(desk.hub.settings.max_calls_per_s, anyio.current_time())
        self._authenticate_by = math.inf
        if principal is None:
            self._authenticate_by = anyio.current_time() + desk.hub.settings.authenticate_s
            outlet.limit_messages(STRANGER_BYTES)

    async def run(self) -> None:
        """Serve it until it ends, and close it."""
        hub = self.desk.hub
        expires_s = None if self.principal is None else self.principal.expires_at
        hub.watch_clock(self, _left_s(expires_s))
        try:
            async with anyio.create_task_group() as self._tasks:
                try:
                    await self._serve()
                finally:
                    self._leave_all()
                    self._tasks.cancel_scope.cancel()
        finally:
            hub.forget_clock(self)
            self._place.close()
        if self._ending is not None and not self._gone:
            await self._close(self._ending)

    def end(self, reason: Ending) -> None:
        """Have it end once the call that is going on is done; the first reason stands."""
        if self._ending is None:
            self._ending = reason
        self._wake()

    def _give_up(self) -> None:
        if self._ending is None:
            self.desk.hub.fan_out.stats.slow_closed += 1
        self.end("slow")

    def _lose(self) -> None:
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    # What the methods use.

    @property
    def program(self) -> str:
        """What the client calls itself, "" where it does not say."""
        return self._websocket.headers.get("user-agent", "")

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification.

        Raises:
            Gone, Slow: as `Outlet.put`.
        """
        await self._put(notification(method, msgspec.json.encode(params)))

    def beside(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run something that sends while calls go on; ends with the connection."""
        assert self._tasks is not None, "only a running connection is called"
        self._tasks.start_soon(self.guarded, task)

    async def started(self, task: Callable[..., Awaitable[None]]) -> Any:
        """Run something beside, and wait for what it tells once it has begun.

        Args:
            task: takes `task_status`, as `anyio.abc.TaskGroup.start` gives it.

        Raises:
            HubError: it did not begin.
        """

        async def run(*, task_status: TaskStatus[Any]) -> None:
            await self.guarded(partial(task, task_status=task_status), may_refuse=True)

        assert self._tasks is not None, "only a running connection is called"
        return await self._tasks.start(run)

    async def guarded(
        self, task: Callable[[], Awaitable[None]], *, may_refuse: bool = False
    ) -> None:
        """Run something that sends; that it cannot, or fails, ends the connection.

        Args:
            task: what to run.
            may_refuse: let a `HubError` out.
        """
        try:
            await task()
        except Gone:
            self._lose()
        except Slow:
            self._give_up()
        except Exception as error:
            if may_refuse and isinstance(error, HubError):
                raise
            logger.exception("a task of a WebSocket failed")
            self.end("error")

    def speak_as(self, principal: Principal) -> None:
        """Go on with another token; 4501 if it may not do what is going on, or see as much of it.

        Raises:
            HubError: 429 `too_many_connections`.
        """
        hub = self.desk.hub
        if self.principal is None or principal.id != self.principal.id:
            place = ExitStack()
            place.enter_context(hub.connected(principal.id))
            self._place.close()
            self._place = place
        before, self.principal = self.principal, principal
        self._authenticate_by = math.inf
        self.outlet.limit_messages(hub.settings.max_message_bytes)
        hub.renew_clock(self, _left_s(principal.expires_at))
        if not self._still_allowed(principal) or (before and self._sees_less(before, principal)):
            self.end("forbidden")

    def _sees_less(self, before: Principal, now: Principal) -> bool:
        """Whether more is held back from what is followed than when it was subscribed to."""
        redacts = self.desk.hub.redacts
        return bool(self.subscriptions) and redacts(now) and not redacts(before)

    def _still_allowed(self, principal: Principal) -> bool:
        if self.listing is not None and not principal.may("read"):
            return False
        if not all(principal.may("publish", sid) for sid in self.hosted):
            return False
        if not self.sent_commands.may_be_seen_by(principal):
            return False
        return all(principal.may("read", sid) for sid in self.subscriptions)

    async def deliver(self, sid: str, subscription: Subscription) -> None:
        """Deliver a session until it ends, and say so."""
        reason = await subscription.deliver(self.outlet, self.turns)
        if reason is None:
            return
        self.drop(sid)
        if reason == "slow":
            self.end("slow")
            return
        await self.notify("disconnecting", {"session_id": sid, **_last_words(reason)})
        self._left_by(reason)

    async def detached(self, sid: str, reason: EndReason | None) -> None:
        """Say that the connection is a session's host no more; None where it said so itself."""
        if reason is not None:
            await self.notify("host.detached", {"session_id": sid, **_last_words(reason)})
            self._left_by(reason)

    def _left_by(self, reason: EndReason) -> None:
        """End it if the last session that it had to do with was deleted."""
        has_more = self.subscriptions or self.hosted or self.listing is not None
        if reason == "deleted" and not has_more:
            self.end("deleted")

    def drop(self, sid: str) -> None:
        """Stop following a session, if it is followed; nothing of it is sent after this."""
        subscription = self.subscriptions.pop(sid, None)
        if subscription is not None:
            subscription.leave()

    def _leave_all(self) -> None:
        for sid in tuple(self.subscriptions):
            self.drop(sid)

    # What comes in.

    async def _serve(self) -> None:
        try:
            while self._ending is None and not self._gone:
                message = await self._next()
                if message is not None:
                    await self._take(message)
        except Gone:
            self._gone = True
        except Slow:
            self._give_up()

    async def _next(self) -> Message | None:
        """Wait for a message; None when the connection ends instead."""
        with anyio.CancelScope(deadline=self._authenticate_by) as scope:
            self._waiting = scope
            try:
                message = await self._websocket.receive()
            finally:
                self._waiting = None
            if message["type"] == "websocket.receive":
                return message
            self._gone = True
            return None
        if anyio.current_time() >= self._authenticate_by:
            self.end("unauthorized")
        return None

    async def _take(self, message: Message) -> None:
        text: str | None = message.get("text")
        if text is None:
            self.end("protocol_error")
            return
        data = text.encode(errors="replace")
        settings = self.desk.hub.settings
        if len(data) > (STRANGER_BYTES if self.principal is None else settings.max_message_bytes):
            self.end("too_big")
            return
        for item in read_message(data):
            await self._answer(item)
            if self._ending is not None or self._gone:
                return

    async def _answer(self, item: Call | Fault) -> None:
        answer = await self._carried_out(item)
        if isinstance(answer, Fault):
            self.desk.hub.metrics.refused[answer.error.code] += 1
            if isinstance(item, Fault) or item.id is not None:
                await self._put(_spelled(answer))
            return
        if isinstance(item, Call) and item.id is not None:
            await self._put(result_message(item.id, answer.result))
        if answer.then is not None:
            answer.then()

    async def _carried_out(self, item: Call | Fault) -> Answer | Fault:
        call_id = item.id or b"null"
        try:
            self._rate.take(anyio.current_time())
            if self.principal is None and not _is_authentication(item):
                self.end("unauthorized")
                raise unauthorized()
            if isinstance(item, Fault):
                return item
            method = METHODS.get(item.method)
            if method is None:
                raise HubError(404, "method_not_found", f"no method {item.method!r}")
            return await method(self, item.params)
        except HubError as error:
            return fault_of(call_id, error)
        except Exception:
            logger.exception("a WebSocket call failed")
            fault = HubError(500, "internal_error", "the hub failed; the fault is logged")
            return fault_of(call_id, fault)

    async def _put(self, message: bytes) -> None:
        await self.outlet.put(self.outlet.framing(message))

    async def _close(self, reason: Ending) -> None:
        """Say why and close; a socket that stays full is cut."""
        if self.outlet.closed:
            return
        with anyio.move_on_after(CLOSE_S if reason == "slow" else LAST_WORDS_S):
            try:
                if reason in FAREWELL:
                    await self.notify("disconnecting", _last_words(reason))
                await self._websocket.close(CODES.get(reason, CloseCode.SHUTDOWN), reason)
            except (Gone, Slow, WebSocketDisconnect, RuntimeError, OSError):
                logger.debug("a WebSocket was gone before its close")
            return
        if isinstance(self.outlet, TransportOutlet):
            self.outlet.cut()


def _is_authentication(item: Call | Fault) -> bool:
    return isinstance(item, Call) and item.method == AUTHENTICATE


def _left_s(expires_at: float | None) -> float | None:
    return None if expires_at is None else expires_at - time.time()


def _last_words(reason: Ending) -> dict[str, Any]:
    """Say an end; `retry_ms` where coming back makes sense."""
    code = CODES.get(reason, CloseCode.SHUTDOWN)
    if not code.reconnect or reason == "lease_lost":
        return {"reason": reason}
    bounds = CYCLE_RETRY_MS if reason == "connection_cycle" else RETRY_MS
    return {"reason": reason, "retry_ms": random.randint(*bounds)}


def _spelled(fault: Fault) -> bytes:
    error = fault.error
    data: dict[str, Any] = {"code": error.code, "status": error.status, **error.extra}
    if "Retry-After" in error.headers:
        data["retry_after"] = int(error.headers["Retry-After"])
    return error_message(fault.id, fault.code, error.detail, data)
