"""Stream clients that others wrote: httpx-sse, curl, and two for Node.js."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import anyio
import httpx
import pytest
from httpx_sse import ServerSentEvent, aconnect_sse

from tests.chaos.proxy import FaultProxy
from tests.contract._requirements import proves
from tests.contract.events import call, copilot, delta, note, publish
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

NODE = Path(__file__).parent / "node"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
needs_clients = pytest.mark.skipif(
    not (NODE / "node_modules" / "eventsource").is_dir(),
    reason="the clients of tests/e2e/node are not installed: make setup (it needs npm)",
)
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

ODD_TEXT = "\u2028\u2029\x85 é 漢 🙂 \r\n"


def bearer(hub: HubProcess) -> dict[str, str]:
    return {"Authorization": f"Bearer {hub.key}"}


@proves("httpx-sse")
async def test_httpx_sse_reads_events_and_cursors(hub: HubProcess, session: str) -> None:
    sent = [note(ODD_TEXT), delta("m", ODD_TEXT), note("end")]
    told = await publish(hub, session, sent)
    got: list[ServerSentEvent] = []
    url = f"{hub.url}/v1/sessions/{session}/sse"
    async with (
        httpx.AsyncClient(headers=bearer(hub)) as client,
        aconnect_sse(client, "GET", url) as source,
    ):
        with anyio.fail_after(10):
            async for event in source.aiter_sse():
                got.append(event)
                if len(got) == 4:
                    break
    assert got[0].event == "connected"
    assert 1000 <= (got[0].retry or 0) <= 3000
    assert [event.event for event in got[1:]] == [event["type"] for event in sent]
    assert [event.id for event in got[1:]] == [verdict["cursor"] for verdict in told]
    assert [event.json() for event in got[1:]] == sent


@needs_curl
@proves("curl", "sse-headers")
async def test_curl_shows_headers_and_framing(hub: HubProcess, session: str) -> None:
    event = note("hello")
    told = await publish(hub, session, event)
    command = ["curl", "-sN", "-D", "-", "--max-time", "3", "--compressed"]
    command += ["-H", f"Authorization: Bearer {hub.key}"]
    command.append(f"{hub.url}/v1/sessions/{session}/sse")
    done = await anyio.run_process(command, check=False)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: text/event-stream" in head.lower()
    assert b"content-encoding" not in head.lower()
    blocks = body.decode().split("\n\n")
    assert blocks[0].split("\n")[0] == "event: connected"
    assert blocks[1].split("\n") == [
        "event: session.info",
        f"id: {told[0]['cursor']}",
        f"data: {json.dumps(event)}",
    ]
    assert blocks[2] == ": heartbeat"


@contextmanager
def node_client(script: str, *words: str) -> Generator[TextIO]:
    """Run a script of tests/e2e/node; the lines it prints."""
    process = subprocess.Popen(
        ["node", str(NODE / script), *words],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
        cwd=NODE,
    )
    try:
        yield cast("TextIO", process.stdout)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        cast("TextIO", process.stdout).close()


async def line(output: TextIO) -> Any:
    """The next thing a script says."""
    with anyio.fail_after(15):
        text = await anyio.to_thread.run_sync(output.readline, abandon_on_cancel=True)
    assert text, "the script ended"
    return json.loads(text)


async def said(output: TextIO, kind: str) -> Any:
    """The next line of this kind."""
    while (item := await line(output))["kind"] != kind:
        pass
    return item


@needs_node
@needs_clients
@pytest.mark.parametrize("script", ["eventsource.mjs", "eventsource-client.mjs"])
@proves("node-eventsource")
async def test_node_client_reads_reconnects_and_loses_nothing(
    hub: HubProcess, session: str, script: str
) -> None:
    sent = [note(ODD_TEXT), delta("m", ODD_TEXT), note("b")]
    told = await publish(hub, session, sent)
    async with FaultProxy(hub.host, hub.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/v1/sessions/{session}/sse?names=0"
        with node_client(script, url, hub.key) as output:
            got = [await said(output, "event") for _ in range(3)]
            assert [event["data"] for event in got] == sent
            assert [event["id"] for event in got] == [verdict["cursor"] for verdict in told]
            proxy.reset_all()
            more = [note("c"), note("d")]
            await publish(hub, session, more)
            got = [await said(output, "event") for _ in range(2)]
            assert [event["data"] for event in got] == more
            assert proxy.connections >= 2


@needs_node
@needs_clients
@proves("node-eventsource", "no-content", "retry-jitter")
async def test_eventsource_stops_for_good_at_a_deleted_session(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, note("a"))
    async with FaultProxy(hub.host, hub.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/v1/sessions/{session}/sse"
        with node_client("eventsource.mjs", url, hub.key) as output:
            await said(output, "open")
            await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
            began = time.monotonic()
            assert (await said(output, "closed"))["state"] == 2
            assert time.monotonic() - began < 8
            seen = proxy.connections
            await anyio.sleep(3.5)
            assert proxy.connections == seen, "it came back after 204"


@needs_node
@needs_clients
@proves("node-eventsource", "event-frame")
async def test_eventsource_hears_events_by_their_type(hub: HubProcess, session: str) -> None:
    wanted = copilot("session.title_changed", {"title": "T"}, ephemeral=True)
    await publish(hub, session, [note("a"), wanted])
    url = f"{hub.url}/v1/sessions/{session}/sse"
    with node_client("eventsource.mjs", url, hub.key, "session.title_changed") as output:
        got = await said(output, "event")
    assert got["data"] == wanted
    assert got["type"] == "session.title_changed"
