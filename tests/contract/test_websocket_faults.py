"""WebSockets under bad conditions: slow, dead and hostile peers, a Redis that lost its data."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import socket
import struct
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.ws_methods import METHODS
from tests.contract._requirements import proves
from tests.contract.events import new_session, note, publish
from tests.contract.prompting import ask, tool
from tests.contract.rpc_client import RpcClient, open_socket
from tests.contract.wire import Server, eventually, request
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

MIB = 2**20


@pytest.fixture(scope="module", params=["auto", "portable"])
def hub(request: pytest.FixtureRequest, redis_url: str) -> Generator[HubProcess]:
    env = {
        "send_mode": request.param,
        "send_timeout_s": 2,
        "heartbeat_s": 1,
        "pong_timeout_s": 1.5,
        "max_calls_per_s": 100_000,
        "authenticate_s": 60,
    }
    with running_hub(redis_url, env=env) as hub:
        yield hub


class RawSocket:
    """A WebSocket on a bare socket: it masks what it sends and answers nothing by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def text(self, text: str) -> None:
        await self.frame(1, text.encode())

    async def frame(self, opcode: int, payload: bytes, *, fin: bool = True) -> None:
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", opcode | fin << 7, size | 0x80)
        elif size < 65_536:
            head = struct.pack("!BBH", opcode | fin << 7, 126 | 0x80, size)
        else:
            head = struct.pack("!BBQ", opcode | fin << 7, 127 | 0x80, size)
        mask = os.urandom(4)
        await self.raw(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))

    async def raw(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def read(self, size: int = 65_536) -> bytes:
        """What came, empty at the end of the connection."""
        return await self._loop.sock_recv(self._sock, size)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        parts: list[bytes] = []
        with contextlib.suppress(ConnectionError):
            while part := await self.read():
                parts.append(part)
        return b"".join(parts)


@asynccontextmanager
async def raw_socket(server: Server, *, buffer: int | None = None) -> AsyncGenerator[RawSocket]:
    """Shake hands by hand; `buffer` bounds what the kernel takes for who reads nothing."""
    with socket.socket() as sock:
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (server.host, server.port))
        key = base64.b64encode(os.urandom(16)).decode()
        await loop.sock_sendall(
            sock,
            f"GET /v1/ws HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {server.key}\r\n\r\n".encode(),
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += await loop.sock_recv(sock, 1)
        assert head.startswith(b"HTTP/1.1 101 ")
        yield RawSocket(sock)


def subscribe(session: str) -> str:
    params = {"session_id": session}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session.subscribe", "params": params})


async def fill(hub: HubProcess, sessions: list[str], size: int) -> None:
    """Publish so many bytes, spread over sessions."""
    text = "x" * 4_000
    for number in range(size // 256_000 + 1):
        session = sessions[number % len(sessions)]
        await publish(hub, session, [note(text) for _ in range(64)])


def close_code(rest: bytes) -> int:
    """The code of the close frame that a connection's bytes end with."""
    at = rest.rindex(b"\x88")
    size = rest[at + 1]
    assert len(rest) == at + 2 + size, "the close comes last"
    return int(struct.unpack("!H", rest[at + 2 : at + 4])[0])


@proves("ws-slow")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["auto", "portable"])
async def test_a_reader_that_stops_costs_little_whatever_it_follows_and_ends_with_4001(
    redis_url: str, mode: str
) -> None:
    sessions = [new_session() for _ in range(24)]
    live = new_session()
    with running_hub(redis_url, env={"send_mode": mode, "send_timeout_s": 2}) as hub:
        await fill(hub, sessions, 24 * MIB)
        await publish(hub, live, note())
        async with open_socket(hub) as watcher:
            await watcher.call("session.subscribe", session_id=live, from_="now")
            assert (await watcher.note())[0] == "session.caught_up"
            before = hub.private_kib()
            async with raw_socket(hub, buffer=16_384) as slow:
                for session in sessions:
                    await slow.text(subscribe(session))
                most, late = await watch(hub, watcher, live, seconds=4)
                async with asyncio.timeout(20):
                    rest = await slow.rest()
        assert most - before < 8 * 1024, f"{most - before} KiB for one connection"
        assert late < 2, "nobody else notices"
        assert 16_384 < len(rest) < 4 * MIB
        assert close_code(rest) == 4001
        assert hub.metrics()["sessionwire_viewers"] == 0


async def watch(
    hub: HubProcess, watcher: RpcClient, session: str, *, seconds: float
) -> tuple[int, float]:
    """Publish and see it come for a while: the most memory in KiB, the longest delay."""
    loop = asyncio.get_running_loop()
    most, late, until = 0, 0.0, loop.time() + seconds
    while loop.time() < until:
        began, event = loop.time(), note()
        await publish(hub, session, event)
        assert (await watcher.events(1))[0]["event"]["id"] == event["id"]
        late = max(late, loop.time() - began)
        most = max(most, hub.private_kib())
        await asyncio.sleep(0.05)
    return most, late


@proves("ws-slow")
async def test_a_slow_reader_gets_everything_in_order(hub: HubProcess) -> None:
    sessions = [new_session() for _ in range(4)]
    await fill(hub, sessions, 3 * MIB)
    async with open_socket(hub, max_queue=4) as client:
        for session in sessions:
            await client.call("session.subscribe", session_id=session)
        places = dict.fromkeys(sessions, 0)
        caught = 0
        while caught < 4:
            method, params = await client.note()
            if method == "session.caught_up":
                caught += 1
                continue
            session = params["session_id"]
            assert params["sequence"] == places[session] + 1
            places[session] += 1
            if random.random() < 0.05:
                await asyncio.sleep(0.02)
        assert sum(places.values()) >= 13 * 64


@proves("ws-dead")
async def test_a_peer_that_answers_no_ping_is_ended(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    async with raw_socket(hub) as dead:
        await dead.text(subscribe(session))
        async with asyncio.timeout(15):
            rest = await dead.rest()
        assert b"\x89\x04" in rest, "it was pinged"
    async with open_socket(hub) as alive:
        await asyncio.sleep(4)
        assert await alive.call("ping") == {}

    async def forgotten() -> bool:
        return hub.metrics()["sessionwire_viewers"] == 0

    await eventually(forgotten, "the viewer of a dead peer is gone")


async def test_pings_of_a_peer_that_does_not_read_cost_nothing(hub: HubProcess) -> None:
    before = hub.private_kib()
    async with raw_socket(hub, buffer=4_096) as greedy:
        ping = b"\x89\xfd\0\0\0\0" + b"p" * 125
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(3):
                for _ in range(4_000):
                    await greedy.raw(ping * 100)
        assert hub.private_kib() - before < 8 * 1024
    assert (await request(hub, "GET", "/livez")).status == 200


WRONG: list[Any] = ["x", 1, 1e300, None, True, [], {}, [1]]
NAMES = [*sorted(METHODS), "", "__init__"]
DEEP: list[Any] = ["x" * 300_000, json.loads("[" * 400 + "]" * 400)]


def hostile(draw: random.Random, session: str) -> bytes:
    """A message that is wrong somewhere, or right by chance."""
    params: dict[str, Any] = {
        "session_id": draw.choice([session, "", "a/b", 7, None, "x" * 200, ["s"], "é"]),
        "since_id": draw.choice(["", "a.b.c.d", "x", "\x00", 5, "aaaaaaaa.9.9.aaaaa"]),
        "after_sequence": draw.choice([None, 0, -1, 2**70, 1.5, "1", True]),
        "from": draw.choice(["start", "now", "-1", "later", None]),
        "types": draw.choice([*WRONG, ["x"], ["x"] * 200]),
        "events": draw.choice([*WRONG, [WRONG], note(), [note()]]),
        "token": draw.choice(["", "x", 1, None]),
        "status": draw.choice(["", "idle", "odd", 1, ["pending"], ["odd"], [1]]),
        "command": draw.choice([*WRONG, {"type": "abort"}, {"type": "x.y", "data": DEEP[1]}]),
        "id": draw.choice([*WRONG, "c", "é", "c" * 200]),
        "outcome": draw.choice([*WRONG, "consumed", "rejected"]),
        "lease": draw.choice([*WRONG, 0, -1, 2**53, 2**70]),
        "event_id": draw.choice([*WRONG, "e"]),
        "since": draw.choice([*WRONG, "", "aaaaaaaa.1", "aaaaaaaa.99999999999999999"]),
        "host_id": draw.choice([*WRONG, "h", "é" * 200, "\ud800"]),
        "takeover": draw.choice([*WRONG, True, False]),
        "request_id": draw.choice([*WRONG, "q", "t", "é", "\x00", "x" * 300, "\ud800"]),
        "answer": draw.choice([*WRONG, {"answer": "x"}, {"kind": "reject"}, {"result": 2**80}]),
        "comment": draw.choice([*WRONG, "c", *DEEP]),
        "claim_id": draw.choice([*WRONG, "c", "é"]),
        "lease_s": draw.choice([*WRONG, 1, 300, 301, -1, 1e-9]),
        "idempotency_key": draw.choice([*WRONG, "k", "é", "k" * 300]),
        "page_token": draw.choice([*WRONG, "x", "é"]),
        "limit": draw.choice([*WRONG, 0, 5, 2**70]),
        "secrets": draw.choice([*WRONG, True]),
    }
    method = draw.choice(NAMES)
    kept = draw.sample(sorted(params), draw.randint(0, len(params)))
    kept += ["session_id", "request_id", "command"] if draw.random() < 0.5 else []
    for name in params.keys() - set(kept):
        del params[name]
    good: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": draw.choice([*WRONG, "a"]),
        "method": method,
        "params": params,
    }
    if draw.random() < 0.2:
        del good[draw.choice(sorted(good))]
    several: list[Any] = [good, good, [good, good], [[good]]]
    data = json.dumps(draw.choice(several)).encode()
    if draw.random() < 0.3:
        at = draw.randrange(len(data))
        wrong = draw.choice([b"", b"\0", b"\\ud800", b"{", b'"', b"[" * 5_000])
        data = data[:at] + wrong + data[at:]
    return data


@proves("ws-fuzz")
@pytest.mark.timeout(180)
async def test_no_message_makes_the_hub_fail(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [note(), ask("q"), tool("t")])
    draw = random.Random(20260821)
    for _ in range(60):
        async with open_socket(hub) as client:
            with contextlib.suppress(ConnectionClosed):
                for _ in range(40):
                    await client.send(hostile(draw, session).decode())
                assert await answers(client)
            assert client.socket.close_code in (None, 1000, 4502)
    assert "of a WebSocket failed" not in hub.log_text()
    assert "a WebSocket call failed" not in hub.log_text()


async def test_a_peer_that_is_slow_to_answer_pings_is_there(hub: HubProcess) -> None:
    """Behind a proxy a pong may take long; only `pong_timeout_s` counts, and a call is a sign."""
    async with raw_socket(hub) as slow:
        for _ in range(4):
            got = b""
            async with asyncio.timeout(10):
                while b"\x89\x04" not in got:
                    part = await slow.read()
                    assert part, "the hub ended the connection"
                    got += part
            await asyncio.sleep(1)
            at = got.index(b"\x89\x04") + 2
            await slow.frame(10, got[at : at + 4])
        await slow.text('{"jsonrpc":"2.0","id":1,"method":"ping"}')
        async with asyncio.timeout(10):
            while b'"result":{}' not in (part := await slow.read()):
                assert part, "the hub ended the connection"


async def test_compression_is_never_agreed_on(hub: HubProcess) -> None:
    """One context a connection costs memory, and frames that are shared cannot be compressed."""
    async with open_socket(hub, compression="deflate") as client:
        assert client.socket.response is not None
        assert "Sec-WebSocket-Extensions" not in client.socket.response.headers
        assert await client.call("ping") == {}


@proves("ws-slow")
@pytest.mark.timeout(120)
async def test_a_crowd_that_is_cut_off_in_the_middle_of_a_broadcast_delays_nobody(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, note())
    clients = [open_socket(hub) for _ in range(300)]
    crowd = [await each.__aenter__() for each in clients]
    for client in crowd:
        await client.send(subscribe(session))
    for client in crowd:
        assert "result" in await client.receive()
    events = [note("x" * 10_000) for _ in range(50)]
    broadcast = asyncio.gather(publish(hub, session, events))
    for client in crowd:
        transport = client.socket.transport
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        transport.abort()
    began = asyncio.get_running_loop().time()
    async with open_socket(hub) as late:
        await late.call("session.subscribe", session_id=session, from_="now")
        assert asyncio.get_running_loop().time() - began < 5
        await broadcast
        event = note()
        await publish(hub, session, event)
        told: list[str] = []
        while event["id"] not in told:
            told += [each["event"]["id"] for each in await late.events(1)]

    async def forgotten() -> bool:
        metrics = hub.metrics()
        return metrics["sessionwire_viewers"] == metrics["sessionwire_websockets"] == 0

    await eventually(forgotten, "nobody of the crowd is left")
    for each in clients:
        await each.__aexit__(None, None, None)


async def answers(client: RpcClient) -> bool:
    """Whether a last ping is answered, after all that came before it."""
    await client.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})
    while True:
        message = await client.receive()
        if message.get("id") == "last":
            return True
        assert message.get("error", {}).get("code") != -32603, message


@proves("ws-fuzz")
async def test_frames_that_break_the_protocol_end_their_own_connection_only(
    hub: HubProcess,
) -> None:
    draw = random.Random(7)
    faults = [
        b"\x81\x05hello",  # not masked
        b"\xf1\x80\0\0\0\0",  # reserved bits
        b"\x83\x80\0\0\0\0",  # reserved opcode
        b"\x80\x80\0\0\0\0",  # continues nothing
        b"\x81\xff" + b"\xff" * 8,  # longer than anything
        b"\x89\xfe\x01\x00\0\0\0\0",  # a ping too long
        b"\x81\x82\0\0\0\0\xff\xfe",  # not UTF-8
        b"\x88\x81\0\0\0\0\x03",  # half a close code
        *(draw.randbytes(200) for _ in range(20)),
    ]
    codes: set[int] = set()
    async with open_socket(hub) as bystander:
        for fault in faults:
            async with raw_socket(hub) as peer:
                await peer.raw(fault)
                await peer.frame(8, struct.pack("!H", 1000))
                async with asyncio.timeout(10):
                    rest = await peer.rest()
                if len(rest) >= 4 and rest[0] == 0x88:
                    codes.add(struct.unpack("!H", rest[2:4])[0])
            assert await bystander.call("ping") == {}
    assert {1002, 1007, 1009} <= codes
    assert 1011 not in codes


@proves("ws-fuzz")
async def test_a_message_in_many_small_parts_is_one_message(redis_url: str) -> None:
    text = b'{"jsonrpc":"2.0","id":"parts","method":"ping"}'
    with running_hub(redis_url) as hub:
        await in_many_parts(hub, text)


async def in_many_parts(hub: HubProcess, text: bytes) -> None:
    before = hub.private_kib()
    async with raw_socket(hub) as peer:
        await peer.frame(1, b"", fin=False)
        empty = b"\x00\x80\0\0\0\0"
        for _ in range(200):
            await peer.raw(empty * 5_000)
        # A million parts kept would be a hundred; what the allocator keeps by itself is not these.
        assert hub.private_kib() - before < 16 * 1024
        for at in range(len(text)):
            await peer.frame(0, text[at : at + 1], fin=at == len(text) - 1)
        async with asyncio.timeout(20):
            while b'"id":"parts","result":{}' not in (part := await peer.read()):
                assert part, "the hub ended the connection"


@proves("ws-reset")
@pytest.mark.parametrize("mode", ["auto", "portable"])
async def test_a_redis_that_lost_its_data_is_told_as_a_reset(
    own_redis: RedisProcess, session: str, mode: str
) -> None:
    with running_hub(own_redis.url, env={"send_mode": mode, "head_check_s": 1}) as hub:
        old = await publish(hub, session, [note(), note()])
        async with open_socket(hub) as client:
            await client.call("session.subscribe", session_id=session)
            await client.until("session.caught_up")
            async with RedisLink(Settings(redis_url=own_redis.url)) as link:
                await link.pipeline([("FLUSHALL",)])
            event = note()
            new = await publish(hub, session, event)
            method, params = await client.note(timeout=20)
            assert method == "session.reset"
            epoch = new[0]["cursor"].partition(".")[0]
            assert params == {
                "session_id": session,
                "epoch": epoch,
                "cursor": f"{epoch}.0.0.0",
            }
            assert epoch != old[0]["cursor"].partition(".")[0]
            assert [each["event"]["id"] for each in await client.events(1)] == [event["id"]]
            assert await client.note() == (
                "session.snapshot",
                {"session_id": session, "events": []},
            )
            assert (await client.note())[0] == "session.caught_up"
