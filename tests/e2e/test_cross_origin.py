"""Pages of other origins in a real browser: what is listed may read, errors too; nobody else."""

from __future__ import annotations

import http.server
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.chromium import WAIT_MS, headless
from tests.contract._requirements import proves
from tests.contract.events import call, note, publish
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio

FETCH = """async ([url, key]) => {
  const headers = key ? {Authorization: `Bearer ${key}`} : {};
  try {
    const answer = await fetch(url, {credentials: "include", headers});
    return [answer.status, (await answer.json()).code ?? null];
  } catch (error) { return [0, error.name]; }
}"""
STREAM = """url => new Promise(tell => {
  const source = new EventSource(url, {withCredentials: true});
  const end = word => { source.close(); tell(word); };
  source.addEventListener("connected", () => end("connected"));
  source.onerror = () => end("error");
})"""


class _Empty(http.server.BaseHTTPRequestHandler):
    """An empty page at every path. Chromium lets only pages of this machine talk to it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html>")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def origins() -> Generator[list[str]]:
    """Three sites; the last one is never listed."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Empty) for _ in range(3)]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield [f"http://127.0.0.1:{server.server_address[1]}" for server in servers]
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join(10)
            server.server_close()


@pytest.fixture(scope="module")
def hub(redis_url: str, origins: list[str]) -> Generator[HubProcess]:
    args = [word for origin in origins[:-1] for word in ("--allow-origin", origin)]
    with running_hub(redis_url, args=args) as running:
        yield running


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with headless() as running:
        yield running


@pytest.mark.parametrize("which", [0, 1, 2])
@proves("cors", "tickets")
async def test_pages_read_answers_errors_and_streams_where_they_are_listed(
    hub: HubProcess, browser: Browser, origins: list[str], session: str, which: int
) -> None:
    await publish(hub, session, note())
    ticket = (await call(hub, "POST", "/v1/tickets", status=201, body=b"{}"))["ticket"]
    page = await browser.new_page()
    page.set_default_timeout(WAIT_MS)
    sessions = f"{hub.url}/v1/sessions"

    async def fetched(path: str, key: str) -> Any:
        return await page.evaluate(FETCH, [f"{sessions}/{path}", key])

    try:
        await page.goto(origins[which])
        got = [
            await fetched(session, hub.key),
            await fetched("no-such-session", hub.key),
            await fetched(session, "wrong"),
            await fetched(session, ""),
        ]
        streamed = await page.evaluate(STREAM, f"{sessions}/{session}/sse?ticket={ticket}")
    finally:
        await page.close()
    if which == 2:
        assert got == [[0, "TypeError"]] * 4
        assert streamed == "error"
    else:
        assert got[:2] == [[200, None], [404, "session_not_found"]]
        assert got[2:] == [[401, "unauthorized"]] * 2
        assert streamed == "connected"
