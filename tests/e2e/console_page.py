"""Pages of the console in a real browser, and what their tests publish."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.chromium import WAIT_MS
from tests.hub_process import HubProcess

__all__ = [
    "DESK",
    "PHONE",
    "api",
    "context_of",
    "event",
    "lines",
    "link",
    "numbered",
    "open_page",
    "open_session",
    "publish",
    "until",
]

PHONE: ViewportSize = {"width": 390, "height": 760}
DESK: ViewportSize = {"width": 1200, "height": 760}

POLL_S = 0.05

expect.set_options(timeout=WAIT_MS)


@asynccontextmanager
async def context_of(
    browser: Browser, viewport: ViewportSize = DESK, *, faults: tuple[str, ...] = (), **more: Any
) -> AsyncGenerator[BrowserContext]:
    """Open a browser's profile and check, on leaving, that its pages logged no fault but those that
    are expected."""
    context = await browser.new_context(viewport=viewport, **more)
    context.set_default_timeout(WAIT_MS)
    said: list[str] = []
    context.on("weberror", lambda error: said.append(str(error.error)))
    context.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    try:
        yield context
    finally:
        await context.close()
    assert [text for text in said if not any(fault in text for fault in faults)] == []


@asynccontextmanager
async def open_page(
    browser: Browser, viewport: ViewportSize = DESK, *, faults: tuple[str, ...] = (), **more: Any
) -> AsyncGenerator[Page]:
    """Open one page in a profile of its own."""
    async with context_of(browser, viewport, faults=faults, **more) as context:
        yield await context.new_page()


def link(hub: HubProcess, session: str = "") -> str:
    """The address that signs in, or that of a session."""
    return f"{hub.url}/#key={hub.key}" if not session else f"{hub.url}/#/s/{session}"


async def open_session(page: Page, hub: HubProcess, session: str) -> None:
    """Sign in and watch a session until it is live."""
    await page.goto(link(hub))
    await expect(page.locator("#panes")).to_be_visible()
    await page.goto(link(hub, session))
    await expect(page.locator("#stream-state")).to_have_text("live")


async def api(hub: HubProcess, method: str, path: str, body: Any = None) -> Any:
    """Call the hub over HTTP; a str is sent as NDJSON."""
    is_text = isinstance(body, str)
    headers = {
        "Authorization": f"Bearer {hub.key}",
        "Content-Type": "application/x-ndjson" if is_text else "application/json",
    }
    content = None if body is None else body if is_text else json.dumps(body)
    async with httpx2.AsyncClient(base_url=hub.url, headers=headers, timeout=60) as http:
        answer = await http.request(method, path, content=content)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


async def publish(hub: HubProcess, session: str, *events: dict[str, Any]) -> None:
    """Publish events, in order."""
    await api(hub, "POST", f"/v1/sessions/{session}/events", list(events))


def event(kind: str, *, ephemeral: bool = False, **data: Any) -> dict[str, Any]:
    """A copilot event; the hub mints its id and time."""
    passing = {"ephemeral": True} if ephemeral else {}
    return {"type": kind, "parentId": None, "data": data, **passing}


def numbered(first: int, last: int) -> list[dict[str, Any]]:
    """Events that say their number."""
    return [event("session.info", infoType="n", message=f"n{n}") for n in range(first, last + 1)]


async def until(page: Page, script: str, *wanted: Any) -> Any:
    """Evaluate `script` until it is one of `wanted`, or true where nothing is named; the value.

    The page's policy forbids what Playwright's own waiting for a function does.
    """
    ends = time.monotonic() + WAIT_MS / 1000
    value = None
    while time.monotonic() < ends:
        value = await page.evaluate(script)
        if value in wanted if wanted else value:
            return value
        await anyio.sleep(POLL_S)
    raise AssertionError(f"{script} stayed {value!r}, wanted {wanted or True!r}")


def lines(events: Iterable[dict[str, Any]]) -> str:
    """NDJSON of events."""
    return "\n".join(json.dumps(each) for each in events)
