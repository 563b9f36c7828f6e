"""A hub whose connections have the faults of a case, over SSE and WebSocket, on loopback.

Serves a log from the cursor that it is asked for, as a hub does; what goes wrong stands in
`tests/contract/cases`. Raw sockets, so that it decides where exactly bytes end.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from sessionwire_schemas.cursor import Cursor, CursorError, check_of
from sessionwire_schemas.frames import control_frame, event_frame
from sessionwire_schemas.rpc import SUBPROTOCOL, event_notification, notification

CASES = Path(__file__).parent.parent / "contract" / "cases"
SESSION = "s"
RETRY_MS = 100
RESET = b"\x01\x00\x00\x00\x00\x00\x00\x00"

Step = Mapping[str, Any]


def cases() -> list[dict[str, Any]]:
    """Every case, by file."""
    return [case for path in sorted(CASES.glob("*.json")) for case in json.loads(path.read_text())]


@dataclass
class Log:
    """The events of a session, and the numbers they have."""

    size: int
    epoch: str = "aaaaaaaa"

    def id(self, number: int) -> str:
        return f"event-{number}"

    def cursor(self, number: int) -> str:
        check = check_of(self.id(number)) if number else "0"
        return str(Cursor(self.epoch, number, number, check))

    def body(self, number: int) -> bytes:
        event = {
            "id": self.id(number),
            "timestamp": "2026-01-01T00:00:00Z",
            "parentId": None,
            "type": "user.message",
            "data": {"content": f"number {number} é\u2028"},
        }
        return json.dumps(event, separators=(",", ":")).encode()

    def after(self, since: str) -> tuple[int, str | None]:
        """Where to begin for a cursor, and the reason of a gap."""
        if not since:
            return 0, None
        try:
            cursor = Cursor.parse(since)
        except CursorError:
            return 0, "unknown_id"
        if cursor.epoch != self.epoch:
            return 0, "epoch_changed"
        return cursor.sequence, None


class Wire(Protocol):
    """How a transport says things."""

    def connected(self, cursor: str, gap: Mapping[str, Any] | None) -> bytes: ...
    def event(self, cursor: str, number: int, body: bytes) -> bytes: ...
    def own(self, name: str, data: Mapping[str, Any], cursor: str) -> bytes: ...
    def close(self, reason: str) -> bytes: ...


class SSEWire:
    """An event stream in a body without a length."""

    def connected(self, cursor: str, gap: Mapping[str, Any] | None) -> bytes:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        told = {"cursor": cursor, "head": cursor, "epoch": cursor[:8]}
        data = {**told, "resumed": gap is None, "gap": gap, "pending_prompts": 0}
        frames = control_frame("connected", data, event_id=cursor, retry_ms=RETRY_MS)
        if gap is not None:
            frames += control_frame("gap", dict(gap))
        return head + frames

    def event(self, cursor: str, number: int, body: bytes) -> bytes:
        return event_frame(body, name="user.message", event_id=cursor)

    def own(self, name: str, data: Mapping[str, Any], cursor: str) -> bytes:
        return control_frame(name, dict(data), event_id=cursor or None)

    def close(self, reason: str) -> bytes:
        return b""


CLOSE_CODES = {
    "shutdown": 4000,
    "slow": 4001,
    "connection_cycle": 4002,
    "unauthorized": 4500,
    "token_expired": 4503,
    "deleted": 4504,
}


class WebSocketWire:
    """Messages framed by themselves; `call` is the id of the subscription's call."""

    def __init__(self, call: object) -> None:
        self.call = call

    def _text(self, message: bytes) -> bytes:
        return Frame(Opcode.TEXT, message).serialize(mask=False)

    def connected(self, cursor: str, gap: Mapping[str, Any] | None) -> bytes:
        told = {"cursor": cursor, "head": cursor, "epoch": cursor[:8], "resumed": gap is None}
        result: dict[str, Any] = {**told, "gap": gap, "prompts": [], "last": [], "session": {}}
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self.call, "result": result}
        return self._text(json.dumps(answer).encode())

    def event(self, cursor: str, number: int, body: bytes) -> bytes:
        return self._text(event_notification(SESSION, cursor, number, body))

    def own(self, name: str, data: Mapping[str, Any], cursor: str) -> bytes:
        method = name if name == "disconnecting" else f"session.{name}"
        params = {**data, "cursor": cursor} if cursor else dict(data)
        if name != "disconnecting":
            params["session_id"] = SESSION
        return self._text(notification(method, json.dumps(params).encode()))

    def close(self, reason: str) -> bytes:
        code = CLOSE_CODES.get(reason)
        if code is None:
            return b""
        return Frame(Opcode.CLOSE, code.to_bytes(2) + reason.encode()).serialize(mask=False)


@dataclass
class Asked:
    """What one connection asked for."""

    transport: str
    since: str
    token: str


@dataclass
class FaultyHub:
    """One case being served."""

    log: Log
    connections: deque[Sequence[Step]]
    url: str = ""
    no_websocket: bool = False
    asked: list[Asked] = field(default_factory=list[Asked])
    on_connection: Callable[[int], None] = lambda number: None
    _ends: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._ends.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        headers = dict(each.lower().split(": ", 1) for each in rest if each)
        target = urlsplit(line.split(" ")[1])
        steps: Sequence[Step] = self.connections.popleft() if self.connections else ()
        first: Step = steps[0] if steps else {}
        if first.get("before") == "reset":
            return _reset(writer)
        if first.get("before") == "silent":
            await reader.read()
            return None
        token = headers.get("authorization", "").removeprefix("bearer ")
        if target.path.endswith("/ws"):
            if self.no_websocket:
                writer.write(_response(404, {}))
                return None
            socket_ = await self._handshake(head, reader, writer, first)
            if socket_ is None:
                return None
            call, since = socket_
            wire: Wire = WebSocketWire(call)
            self.asked.append(Asked("websocket", since, token))
            if "refuse" in first:
                writer.write(_refusal(call, first))
                await writer.drain()
                await reader.read()
                return None
        else:
            since = parse_qs(target.query).get("since_id", [""])[0]
            self.asked.append(Asked("sse", since, token))
            wire = SSEWire()
            if "refuse" in first:
                status = 204 if first["refuse"] == 410 else first["refuse"]
                writer.write(_response(status, first))
                await writer.drain()
                return None
        self.on_connection(len(self.asked))
        await self._run(steps, since, wire, reader, writer)
        return None

    async def _handshake(
        self,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        first: Step,
    ) -> tuple[object, str] | None:
        protocol = ServerProtocol(subprotocols=[SUBPROTOCOL])  # type: ignore[list-item]
        protocol.receive_data(head)
        (request,) = protocol.events_received()
        assert isinstance(request, Request)
        status = first.get("refuse", 101)
        if status == 429 or status >= 500:
            writer.write(_response(status, first))
            await writer.drain()
            return None
        protocol.send_response(protocol.accept(request))
        writer.writelines(protocol.data_to_send())
        if status == 401:
            writer.write(WebSocketWire(None).close("unauthorized"))
            await writer.drain()
            await reader.read()
            self.asked.append(Asked("websocket", "", ""))
            return None
        while True:
            data = await reader.read(65_536)
            if not data:
                return None
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    message: dict[str, Any] = json.loads(bytes(event.data))
                    return message["id"], message["params"].get("since_id", "")

    async def _run(
        self,
        steps: Sequence[Step],
        since: str,
        wire: Wire,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        log, reason = self.log, "clean"
        if steps and steps[0].get("epoch"):
            log.epoch = "bbbbbbbb"
        at, gap = log.after(since)
        told = {"reason": gap, "after_sequence": None, "resumed_sequence": None} if gap else None
        writer.write(wire.connected(log.cursor(at), told))
        for step in steps:
            match step:
                case {"events": count, **more}:
                    data = b""
                    for _ in range(count):
                        at += 1
                        data += wire.event(log.cursor(at), at, log.body(at))
                    size = more.get("chunk_bytes") or len(data)
                    for start in range(0, len(data), size):
                        writer.write(data[start : start + size])
                        await writer.drain()
                        if size < len(data):
                            await asyncio.sleep(0)
                case {"repeat": count}:
                    for number in range(at - count + 1, at + 1):
                        writer.write(wire.event(log.cursor(number), number, log.body(number)))
                case {"swapped": count}:
                    for number in range(at + count, at, -1):
                        writer.write(wire.event(log.cursor(number), number, log.body(number)))
                    at += count
                case {"part": fraction}:
                    whole = wire.event(log.cursor(at + 1), at + 1, log.body(at + 1))
                    writer.write(whole[: max(1, int(len(whole) * fraction))])
                case {"pause_s": seconds}:
                    await writer.drain()
                    await asyncio.sleep(seconds)
                case {"back": count}:
                    at -= count
                case {"disconnecting": reason}:
                    ending = {"reason": reason, "retry_ms": RETRY_MS}
                    writer.write(wire.own("disconnecting", ending, ""))
                case {"reset": True}:
                    log.epoch, at = "bbbbbbbb", 0
                    writer.write(wire.own("reset", {"epoch": log.epoch}, log.cursor(0)))
                case {"end": kind}:
                    await writer.drain()
                    if kind == "reset":
                        # What was written has to arrive first: a reset takes it back.
                        await asyncio.sleep(0.02)
                        return _reset(writer)
                    if kind == "silent":
                        await reader.read()
                        return None
                    writer.write(wire.close(reason))
                    await writer.drain()
                    return None
                case _:
                    assert step.keys() <= {"epoch"}, step
        for number in range(at + 1, log.size + 1):
            writer.write(wire.event(log.cursor(number), number, log.body(number)))
        await writer.drain()
        await reader.read(1)
        return None


def _response(status: int, step: Step) -> bytes:
    wait = step.get("retry_after_s")
    retry = f"retry-after: {wait}\r\n" if wait is not None else ""
    head = f"HTTP/1.1 {status} X\r\nconnection: close\r\n{retry}content-length: 0\r\n\r\n"
    return head.encode()


def _refusal(call: object, step: Step) -> bytes:
    words = {403: "forbidden", 404: "session_not_found", 410: "session_deleted"}
    status = step["refuse"]
    data = {"code": words[status], "status": status}
    error = {"code": -32000, "message": "no", "data": data}
    message = json.dumps({"jsonrpc": "2.0", "id": call, "error": error}).encode()
    return Frame(Opcode.TEXT, message).serialize(mask=False)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@asynccontextmanager
async def faulty_hub(
    events: int, connections: Sequence[Sequence[Step]]
) -> AsyncGenerator[FaultyHub]:
    """Serve a case; its connections are cut at the end."""
    hub = FaultyHub(Log(events), deque(connections))
    server = await asyncio.start_server(hub.serve, "127.0.0.1", 0, limit=2**20)
    port = server.sockets[0].getsockname()[1]
    hub.url = f"http://127.0.0.1:{port}"
    try:
        yield hub
    finally:
        server.close()
        for writer in list(hub._ends):  # pyright: ignore[reportPrivateUsage] - its own function
            _reset(writer)
        await server.wait_closed()
