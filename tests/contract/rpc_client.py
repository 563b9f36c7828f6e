"""A JSON-RPC client over a real WebSocket: answers by id, everything else in the order it came."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.contract.wire import WAIT_S, Server

__all__ = ["STATES", "Refused", "RpcClient", "open_socket"]

STATES = frozenset({"session.prompts", "session.presence", "host.presence"})
SUBPROTOCOL = Subprotocol("sessionwire.v1.jsonrpc")


class Refused(Exception):
    """An error answer. `code` is JSON-RPC's number, `word` the hub's own code."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = int(error["code"])
        self.data: dict[str, Any] = error["data"]
        self.word = str(self.data["code"])


class RpcClient:
    """One connection.

    Attributes:
        socket: the library's own.
        got: every message that came, as text, in order.
        states: the newest notification of each of `STATES` and each session; they are no
            notes, for they come whenever something changes.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.got: list[str] = []
        self.states: dict[tuple[str, str], Any] = {}
        self._numbers = itertools.count(1)
        self._notes: deque[dict[str, Any]] = deque()

    async def call(self, method: str, **params: Any) -> Any:
        """Call and wait for the result; `from_` is `from`.

        Raises:
            Refused: it was answered with an error.
            ConnectionClosed: it was not answered.
        """
        number = next(self._numbers)
        given = {name.rstrip("_"): value for name, value in params.items()}
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": given})
        while True:
            message = await self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise Refused(message["error"])
                return message["result"]
            self._keep(message)

    def _keep(self, message: Any) -> None:
        """Put a notification away for later."""
        if message.get("method") in STATES:
            params = message["params"]
            self.states[params["session_id"], message["method"]] = params
        else:
            self._notes.append(message)

    async def send(self, message: object) -> None:
        text = message if isinstance(message, str) else json.dumps(message)
        await self.socket.send(text)

    async def receive(self, *, timeout: float = WAIT_S) -> Any:
        """The next message, whatever it is."""
        async with asyncio.timeout(timeout):
            text = await self.socket.recv()
        assert isinstance(text, str), "the hub sends text"
        assert "\n" not in text
        self.got.append(text)
        return json.loads(text)

    async def note(self, *, timeout: float = WAIT_S) -> tuple[str, dict[str, Any]]:
        """The next notification: its method and params."""
        async with asyncio.timeout(timeout):
            while not self._notes:
                self._keep(await self.receive(timeout=timeout))
        message = self._notes.popleft()
        assert "id" not in message, f"nobody asked for {message}"
        assert message["jsonrpc"] == "2.0"
        return message["method"], message["params"]

    async def until(self, method: str, *, timeout: float = WAIT_S) -> list[dict[str, Any]]:
        """Params of the notifications up to and with one of `method`; those before are events."""
        taken: list[dict[str, Any]] = []
        while True:
            name, params = await self.note(timeout=timeout)
            taken.append(params)
            if name == method:
                return taken
            assert name == "session.event", name

    async def events(self, count: int, *, timeout: float = WAIT_S) -> list[dict[str, Any]]:
        """Params of so many `session.event`, nothing else being among them but `caught_up`."""
        taken: list[dict[str, Any]] = []
        while len(taken) < count:
            name, params = await self.note(timeout=timeout)
            if name == "session.event":
                taken.append(params)
            else:
                assert name in ("session.caught_up", "session.cursor"), name
        return taken

    async def state(
        self, session: str, name: str, wanted: Callable[[Any], bool], *, timeout: float = WAIT_S
    ) -> Any:
        """Wait until a session's `prompts`, `presence` or `host.presence` is as wanted."""
        key = (session, name if "." in name else f"session.{name}")
        async with asyncio.timeout(timeout):
            while key not in self.states or not wanted(self.states[key]):
                self._keep(await self.receive(timeout=timeout))
        return self.states[key]

    async def silent(self, seconds: float) -> bool:
        """Whether no note comes for so long."""
        try:
            async with asyncio.timeout(seconds):
                while not self._notes:
                    self._keep(await self.receive(timeout=seconds + 1))
        except TimeoutError:
            return True
        return False

    async def closed(self, *, timeout: float = WAIT_S) -> tuple[int | None, list[dict[str, Any]]]:
        """Wait for the close: its code, None without one, and what came before it."""
        try:
            while True:
                self._keep(await self.receive(timeout=timeout))
        except ConnectionClosed as error:
            before = list(self._notes)
            self._notes.clear()
            return (None if error.rcvd is None else error.rcvd.code), before


@asynccontextmanager
async def open_socket(
    server: Server,
    *,
    path: str = "/v1/ws",
    headers: Mapping[str, str] | None = None,
    subprotocols: Sequence[Subprotocol] | None = (SUBPROTOCOL,),
    **options: Any,
) -> AsyncGenerator[RpcClient]:
    """Open a connection with the server's key; `Authorization: ""` leaves it out.

    Raises:
        InvalidStatus: the handshake was refused.
    """
    given = {"Authorization": f"Bearer {server.key}", **(headers or {})}
    # With a bounded queue the library stops reading, and then waits in vain for the hub's close.
    options = {"compression": None, "max_size": None, "max_queue": None, "proxy": None, **options}
    async with connect(
        f"ws://{server.host}:{server.port}{path}",
        additional_headers={name: value for name, value in given.items() if value},
        subprotocols=subprotocols,
        open_timeout=WAIT_S,
        close_timeout=2,
        **options,
    ) as socket:
        yield RpcClient(socket)
