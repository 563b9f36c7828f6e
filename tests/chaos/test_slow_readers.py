"""Viewers that read slowly or not at all cost bounded memory and delay nobody (protocol.md §6)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.chaos.hubs import Publisher, Watcher
from tests.contract._requirements import proves
from tests.contract.events import Reading, call, events_of, is_event, note, publish
from tests.contract.wire import BodyDecoder, Server, eventually, head_of, open_stream, parse_frame
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

MIB = 2**20
BACKLOG = 10 * MIB
GROWTH_KIB = 2 * 1024
SMALL_BUFFER = 16 * 1024
"""The reader's socket takes little, so what it has not read waits at the hub."""


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    return {"send_timeout_s": 2}


class SlowReader:
    """A viewer with a small socket buffer that reads when it is told to."""

    def __init__(self, server: Server, path: str) -> None:
        self.server = server
        self.path = path
        self.decoder: BodyDecoder | None = None
        self.pending = b""
        self.total = 0
        self.reading: Reading | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()
        with socket.socket() as self.sock:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            self.sock.setblocking(False)
            await loop.sock_connect(self.sock, (self.server.host, self.server.port))
            head = head_of(self.server, "GET", self.path, {"Accept": "text/event-stream"})
            await loop.sock_sendall(self.sock, head)
            yield

    async def read(self, size: int) -> bool:
        """Read about `size` bytes; False at the end."""
        data = await asyncio.get_running_loop().sock_recv(self.sock, size)
        self.total += len(data)
        if not data:
            return False
        if self.decoder is None:
            head, _, data = data.partition(b"\r\n\r\n")
            assert b" 200 " in head.split(b"\r\n")[0], head
            self.decoder = BodyDecoder({"transfer-encoding": "chunked"})
        self.pending += self.decoder.feed(data) if data else b""
        *blocks, self.pending = self.pending.split(b"\n\n")
        for frame in (parse_frame(block + b"\n\n") for block in blocks):
            if frame.event == "connected":
                self.reading = Reading(frame)
            elif self.reading is not None:
                self.reading.take([frame])
        return True


async def backlog(hub: HubProcess, session: str, *, each: int = 4_000) -> list[str]:
    """Publish 10 MiB of durable events; their ids."""
    publisher = Publisher(hub, session)
    text = "x" * each
    while sum(1 for _ in publisher.ids) * each < BACKLOG:
        await publisher.batch([note(text) for _ in range(64)])
    return publisher.ids


async def highest(hub: HubProcess, done: anyio.Event) -> int:
    """The most memory the hub had until `done`, in KiB."""
    most = hub.private_kib()
    while not done.is_set():
        with anyio.move_on_after(0.1):
            await done.wait()
        most = max(most, hub.private_kib())
    return most


async def read_slowly(hub: HubProcess, session: str, ids: list[str], *, pause: float) -> None:
    """Read it all, 64 KiB at a time with a pause between."""
    reader = SlowReader(hub, f"/v1/sessions/{session}/sse?after_sequence=0")
    async with reader.open():
        with anyio.fail_after(90):
            while reader.reading is None or len(reader.reading.durable) < len(ids):
                assert await reader.read(65_536), "the hub ended the stream"
                await anyio.sleep(pause)
    assert reader.reading.durable == ids


@pytest.mark.timeout(240)
@pytest.mark.parametrize("each", [4_000, 200_000], ids=["small-events", "large-events"])
@proves("slow-reader", "head-of-line")
async def test_slow_reader_of_ten_mebibytes_costs_constant_memory(
    hub: HubProcess, session: str, each: int
) -> None:
    ids = await backlog(hub, session, each=each)
    other = Publisher(hub, f"{session}-other")
    await other.one()
    delays: list[float] = []
    async with Watcher(hub, other.session) as watcher:

        async def live(done: anyio.Event) -> None:
            """Publish to another session, and see it come."""
            while not done.is_set():
                began = time.monotonic()
                await other.one()
                await watcher.sees(other.ids)
                delays.append(time.monotonic() - began)
                await anyio.sleep(0.1)

        async def once(pause: float) -> int:
            """Read it all while others live on; how far the memory grew, in KiB."""
            before, most = hub.private_kib(), 0
            done = anyio.Event()

            async def measure() -> None:
                nonlocal most
                most = await highest(hub, done)

            async with anyio.create_task_group() as group:
                group.start_soon(measure)
                group.start_soon(live, done)
                await read_slowly(hub, session, ids, pause=pause)
                done.set()
            return most - before

        for _ in range(3):
            await once(0)
        delays.clear()
        grown = await once(0.01)
    assert grown < GROWTH_KIB, f"{grown} KiB more than before"
    delays.sort()
    assert len(delays) > 20
    assert delays[len(delays) * 9 // 10] < 0.25, delays[-5:]


@proves("stuck-reader", "head-of-line")
async def test_reader_that_never_reads_is_let_go_and_delays_nobody(
    hub: HubProcess, session: str
) -> None:
    ids = await backlog(hub, session)
    reader = SlowReader(hub, f"/v1/sessions/{session}/sse?after_sequence=0")

    async def viewers(wanted: int) -> None:
        async def is_so() -> bool:
            seen = await call(hub, "GET", f"/v1/sessions/{session}")
            return bool(seen["viewers"] == wanted)

        await eventually(is_so, f"{wanted} viewers", timeout=15)

    async with (
        reader.open(),
        open_stream(hub, f"/v1/sessions/{session}/sse?from=now&control=1") as stream,
    ):
        await stream.until("caught_up")
        await viewers(2)
        for n in range(20):
            sent = note(str(n))
            began = time.monotonic()
            await publish(hub, session, sent)
            got = (await stream.until(is_event))[-1]
            assert got.json()["id"] == sent["id"]
            assert time.monotonic() - began < 1.0
        await viewers(1)
        left = 0
        with anyio.fail_after(20):
            while await reader.read(2**20):
                left = reader.total
    assert left < BACKLOG, "it was let go before it had everything"
    assert reader.reading is not None
    assert reader.reading.durable == ids[: len(reader.reading.durable)]


@proves("slow-reader")
async def test_sleeping_viewer_gets_all_that_came_meanwhile(hub: HubProcess, session: str) -> None:
    """It does not read while ten times its buffers are published live, then wakes up."""
    first = await publish(hub, session, note("first"))
    reader = SlowReader(hub, f"/v1/sessions/{session}/sse")
    async with reader.open():
        while reader.reading is None or not reader.reading.durable:
            await reader.read(65_536)
        ids = [first[0]["id"], *await backlog(hub, session, each=20_000)]
        with anyio.fail_after(30):
            while len(reader.reading.durable) < len(ids):
                assert await reader.read(65_536), "the hub ended the stream"
    assert reader.reading.durable == ids


async def test_fast_viewer_reads_a_long_log_whole(hub: HubProcess, session: str) -> None:
    ids = await backlog(hub, session, each=1_000)
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up", timeout=60)
    assert [event["id"] for event in events_of(frames)] == ids
