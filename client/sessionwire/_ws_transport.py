"""Following one session over a WebSocket of its own (protocol.md §7).

One connection a followed session, so that a consumer that is slow holds up nobody else, and memory
is what the library's queue of messages may hold. Silence is probed with a ping, and only while
somebody waits: a consumer that takes its time over an event is not a dead connection.
"""

from __future__ import annotations

import asyncio
import json
import re
import types
from collections.abc import Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, cast

import anyio
from pydantic_core import from_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
)
from websockets.typing import Subprotocol

from sessionwire._auth import TokenSource
from sessionwire._connection import CLOSE_TIMEOUT_S, CONNECT_TIMEOUT_S
from sessionwire._reconnect import Outcome, classify_status, error_of_close, retry_after_s
from sessionwire._sse import ServerSentEvent
from sessionwire._transport import Start, Wanted
from sessionwire.errors import (
    ConnectionFailed,
    EventTooLarge,
    ProtocolError,
    RequestRejected,
    Unauthorized,
    WebSocketRefused,
    rejection,
)
from sessionwire_schemas.rpc import SUBPROTOCOL, ErrorCode

__all__ = ["WebSocketTransport", "websocket_url"]

T = TypeVar("T")

QUEUE: Final = 16
"""Messages that wait for a slow consumer before the socket is no longer read."""

PONG_TIMEOUT_S: Final = 10.0
"""How long the answer to a ping may take, once the line has been silent for the idle timeout."""

_CALL: Final = 1

_EVENT: Final = re.compile(
    r'\{"jsonrpc":"2\.0","method":"session\.event","params":'
    r'\{"session_id":"[^"\\]*","cursor":"([^"\\]*)",(?:"sequence":[0-9]+,)?"event":(?=\{)'
)
"""How the hub spells an event, which is taken out as it was written."""


def websocket_url(base_url: str) -> str:
    """Return where a hub's WebSocket is."""
    scheme, _, rest = base_url.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest.rstrip('/')}/v1/ws"


class WebSocketTransport:
    """Opens WebSockets, each for one session."""

    def __init__(
        self,
        url: str,
        tokens: TokenSource,
        session_id: str,
        *,
        idle_timeout_s: float,
        max_event_bytes: int,
        use_proxy: bool,
    ) -> None:
        """Take the address of `/v1/ws`.

        Args:
            use_proxy: whether a proxy that the environment names is used.
        """
        self._url = url
        self._tokens = tokens
        self._session_id = session_id
        self._idle_timeout_s = idle_timeout_s
        self._max_event_bytes = max_event_bytes
        self._use_proxy = use_proxy

    async def open(self, start: Start, wanted: Wanted) -> WebSocketLine:
        """Open a WebSocket and subscribe; see `Transport.open`."""
        token = await self._tokens.current()
        try:
            return await self._open(token, start, wanted)
        except Unauthorized:
            fresh = await self._tokens.renewed(token)
            if fresh is None:
                raise
        return await self._open(fresh, start, wanted)

    async def _open(self, token: str, start: Start, wanted: Wanted) -> WebSocketLine:
        socket = await self._connected(token)
        line = WebSocketLine(
            socket, self._url, self._session_id, self._idle_timeout_s, self._max_event_bytes
        )
        try:
            await line.subscribe({**_place(start), **wanted.lists()})
        except BaseException:
            await line.aclose()
            raise
        return line

    async def _connected(self, token: str) -> ClientConnection:
        try:
            asyncio.get_running_loop()
        except RuntimeError as exc:
            raise WebSocketRefused(self._url, None, "WebSockets need asyncio") from exc
        try:
            return await connect(
                self._url,
                additional_headers={"Authorization": f"Bearer {token}"} if token else None,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                compression=None,
                proxy=True if self._use_proxy else None,
                open_timeout=CONNECT_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                ping_interval=None,
                max_size=self._max_event_bytes,
                max_queue=QUEUE,
            )
        except InvalidStatus as exc:
            raise self._refusal(exc) from exc
        except InvalidURI as exc:
            raise ConnectionFailed(self._url, str(exc), "misconfigured") from exc
        except InvalidMessage as exc:  # the connection broke within the handshake, too
            raise ConnectionFailed(self._url, str(exc), "dropped") from exc
        except (InvalidHandshake, InvalidProxy) as exc:
            raise WebSocketRefused(self._url, None, str(exc)) from exc
        except (OSError, TimeoutError) as exc:
            raise ConnectionFailed(self._url, str(exc) or type(exc).__name__) from exc

    def _refusal(self, exc: InvalidStatus) -> RequestRejected | WebSocketRefused:
        response = exc.response
        status = response.status_code
        if status != 401 and classify_status(status) is not Outcome.RETRY:
            return WebSocketRefused(self._url, status, f"answered with {status}")
        try:
            problem = json.loads(response.body or b"")
        except ValueError:
            problem = None
        members = cast("dict[str, Any]", problem) if isinstance(problem, dict) else {}
        wait_s = retry_after_s(response.headers.get("Retry-After"))
        return rejection(status, members, retry_after_s=wait_s)


def _place(start: Start) -> dict[str, Any]:
    if start.since_id:
        return {"since_id": start.since_id}
    if start.after_sequence is not None:
        return {"after_sequence": start.after_sequence}
    return {"from": start.from_} if start.from_ else {}


class WebSocketLine:
    """One open WebSocket; see `Line`."""

    retry_ms: int | None = None
    """The hub asks for none, but in `disconnecting`."""

    def __init__(
        self,
        socket: ClientConnection,
        url: str,
        session_id: str,
        idle_timeout_s: float,
        max_event_bytes: int,
    ) -> None:
        self._socket = socket
        self._url = url
        self._session_id = session_id
        self._idle_timeout_s = idle_timeout_s
        self._max_event_bytes = max_event_bytes
        self._opening: list[ServerSentEvent] = []

    async def subscribe(self, params: Mapping[str, Any]) -> None:
        """Ask for the session's events.

        Raises:
            HubError: they do not come.
        """
        given = {"session_id": self._session_id, **params}
        call = {"jsonrpc": "2.0", "id": _CALL, "method": "session.subscribe", "params": given}
        try:
            await self._socket.send(json.dumps(call))
        except ConnectionClosed as exc:
            self._closed(exc)
        while True:
            message = _object(await self._text())
            if message.get("id") == _CALL:
                break
            if message.get("error"):
                raise _refused(message)
        if "error" in message:
            raise _refused(message)
        self._opening = list(_opening(message.get("result")))

    async def frames(self) -> Sequence[ServerSentEvent]:
        """Wait for a message and return the frame it is, or nothing; see `Line.frames`."""
        if self._opening:
            opening, self._opening = self._opening, []
            return opening
        frame = self._frame(await self._text())
        return () if frame is None else (frame,)

    async def aclose(self) -> None:
        """Close it, also when the task is being cancelled."""
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await self._socket.close()
            return
        self._socket.transport.abort()

    async def _text(self) -> str:
        try:
            while True:
                receiving = self._socket.recv(decode=True)
                try:
                    # What has come already costs no time limit, which is most of the price.
                    first = receiving.send(None)
                except StopIteration as done:
                    return cast("str", done.value)
                with anyio.move_on_after(self._idle_timeout_s):
                    return await _resumed(receiving, first)
                with anyio.move_on_after(PONG_TIMEOUT_S):
                    await (await self._socket.ping())
                    continue
                raise ConnectionFailed(self._url, "no answer to a ping", "idle")
        except ConnectionClosed as exc:
            self._closed(exc)

    def _closed(self, exc: ConnectionClosed) -> NoReturn:
        if exc.rcvd is not None:
            raise error_of_close(exc.rcvd.code, exc.rcvd.reason, self._url) from exc
        if exc.sent is not None and exc.sent.code == 1009:
            raise EventTooLarge(self._max_event_bytes) from exc
        if exc.sent is not None and exc.sent.code in (1002, 1007):
            raise ProtocolError(f"no WebSocket: {exc.sent.reason}") from exc
        raise ConnectionFailed(self._url, "the connection ended", "dropped") from exc

    def _frame(self, text: str) -> ServerSentEvent | None:
        match = _EVENT.match(text)
        if match is not None and text.endswith("}}"):
            body = text[match.end() : -2]
            try:
                return _event(match[1], body, from_json(body))
            except ValueError:
                pass  # spelled in another way: take it apart
        message = _object(text)
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            return None
        known = cast("dict[str, Any]", params)
        if known.get("session_id", self._session_id) != self._session_id:
            return None
        cursor = known.get("cursor")
        cursor = cursor if isinstance(cursor, str) else ""
        if method == "session.event":
            body = json.dumps(known.get("event"), ensure_ascii=False, separators=(",", ":"))
            return _event(cursor, body, known.get("event"))
        if method != "disconnecting" and not method.startswith("session."):
            return None
        return ServerSentEvent(method.removeprefix("session."), "", cursor, known)


@types.coroutine
def _resumed(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that has begun, and waits for what it gave."""
    while True:
        try:
            sent: Any = yield waits_for
        except BaseException as exc:
            step = partial(coroutine.throw, exc)
        else:
            step = partial(coroutine.send, sent)
        try:
            waits_for = step()
        except StopIteration as done:
            return cast("T", done.value)


def _event(cursor: str, body: str, parsed: object) -> ServerSentEvent:
    members = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    name = members.get("type")
    if not isinstance(name, str):
        raise ProtocolError(f"an event without a type: {body[:80]!r}")
    return ServerSentEvent(name, body, cursor, members)


def _opening(result: object) -> Sequence[ServerSentEvent]:
    """Spell the result of `session.subscribe` as an event stream begins."""
    if not isinstance(result, dict):
        raise ProtocolError("session.subscribe was not answered with an object")
    known = cast("dict[str, Any]", result)
    prompts: list[Any] = known.get("prompts") or []
    names = ("cursor", "head", "epoch", "resumed", "gap")
    connected = {name: known.get(name) for name in names} | {"pending_prompts": len(prompts)}
    cursor = str(known.get("cursor") or "")
    frames = [ServerSentEvent("connected", "", cursor, connected)]
    if isinstance(gap := known.get("gap"), dict):
        frames.append(ServerSentEvent("gap", "", cursor, cast("dict[str, Any]", gap)))
    frames.append(ServerSentEvent("prompts", "", cursor, {"data": prompts}))
    frames.append(ServerSentEvent("snapshot", "", cursor, {"events": known.get("last") or []}))
    return frames


def _object(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except ValueError as exc:
        raise ProtocolError(f"a WebSocket message is not JSON: {text[:80]!r}") from exc
    if not isinstance(value, dict):
        raise ProtocolError(f"a WebSocket message is no object: {text[:80]!r}")
    return cast("dict[str, Any]", value)


def _refused(message: Mapping[str, Any]) -> RequestRejected:
    error: Any = message.get("error")
    members = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    told: Any = members.get("data")
    data = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    status = data.get("status")
    if not isinstance(status, int):
        status = 500 if members.get("code") == ErrorCode.INTERNAL_ERROR else 400
    wait = data.get("retry_after")
    problem = {"detail": members.get("message"), **data}
    return rejection(
        status, problem, retry_after_s=float(wait) if isinstance(wait, int | float) else None
    )
