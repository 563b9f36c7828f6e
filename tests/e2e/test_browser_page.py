"""The programs of docs/browser.md run in a browser as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.e2e.console_page import api, event, link, open_page, publish, until
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parent.parent.parent / "docs/browser.md"
FOLLOW, PROMPTS, STEER = re.findall(r"^```js\n(.*?)^```", PAGE.read_text(), re.M | re.S)

IMPORT = 'import { Hub, followSession } from "/console/client/index.js";\nconst hub = new Hub();\n'
GIVEN = """
const sessionId = new URL(import.meta.url).searchParams.get("session");
const note = (where) => (text) => (window[where] ??= []).push(text);
const show = note("shown"), say = note("said");
"""


async def _run(page: Page, hub: HubProcess, session: str, program: str) -> None:
    """Run a program as a module of the hub's own origin, where somebody is signed in."""

    async def serve(route: Route) -> None:
        await route.fulfill(content_type="text/javascript", body=GIVEN + program)

    await page.route("**/program.js*", serve)
    await page.goto(link(hub))
    await expect(page.locator("#list-state")).to_have_text("live")
    await page.evaluate("(session) => void import(`/program.js?session=${session}`)", session)


async def test_following_shows_text_as_it_is_written(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="Go"))
    async with open_page(browser) as page:
        await _run(page, hub, sid, FOLLOW)
        await until(page, "window.said?.includes('live')")
        for word in ("Once", " upon"):
            delta = event("assistant.message_delta", messageId="m", deltaContent=word)
            await publish(hub, sid, delta)
        await until(page, "window.shown?.at(-1)", "message: Once upon")
        assert await page.evaluate("window.shown[0]") == "user.message"


async def test_a_prompt_is_answered(browser: Browser, hub: HubProcess, sid: str) -> None:
    asked = event("user_input.requested", ephemeral=True, requestId="r", question="Well?")
    async with open_page(browser) as page:
        await publish(hub, sid, asked)
        await _run(page, hub, sid, IMPORT + PROMPTS)
        path = f"/v1/sessions/{sid}/prompts/r?wait_s=20"
        found = await api(hub, "GET", path)
        assert found["answer"] == {"answer": "yes", "wasFreeform": True}


async def test_a_message_shows_its_receipt(browser: Browser, hub: HubProcess, sid: str) -> None:
    await publish(hub, sid, event("user.message", content="Go"))
    async with open_page(browser) as page:
        await _run(page, hub, sid, IMPORT + STEER)
        await until(page, "window.said?.[0]", "accepted")
