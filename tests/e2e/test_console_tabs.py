"""The console and its connection: many tabs, reloads, a network that goes and comes, a hub without
WebSockets (protocol.md §6, §7)."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.console_page import (
    context_of,
    event,
    link,
    numbered,
    open_page,
    open_session,
    publish,
    until,
)
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

TABS = 8
"""Two more than the connections that a browser opens to one host over HTTP/1.1."""


def _delta(text: str) -> dict[str, Any]:
    return event("assistant.message_delta", ephemeral=True, messageId="m", deltaContent=text)


async def _shown(page: Page) -> list[str]:
    return await page.locator("#events .what").all_inner_texts()


async def test_a_reload_in_the_middle_of_a_message_shows_its_text_once(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="Tell me"))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        await publish(hub, sid, _delta("Once"), _delta(" upon"))
        text = page.locator(".row.open .text")
        await expect(text).to_have_text("Once upon")
        await page.reload()
        await expect(text).to_have_text("Once upon")
        await publish(hub, sid, _delta(" a time"))
        await expect(text).to_have_text("Once upon a time")
        whole = event("assistant.message", messageId="m", content="Once upon a time.")
        await publish(hub, sid, whole)
        await expect(page.get_by_text("Once upon a time.")).to_have_count(1)
        await expect(page.locator(".row.open")).to_have_count(0)


async def test_eight_tabs_of_one_origin_are_all_live_over_one_connection(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    other = f"{sid}_other"
    for each in (sid, other):
        await publish(hub, each, *numbered(1, 3))
    async with context_of(browser) as context:
        pages = [await context.new_page() for _ in range(TABS)]
        for number, page in enumerate(pages):
            await open_session(page, hub, (sid, other)[number % 2])
        await publish(hub, sid, *numbered(4, 5), _delta("so far"))
        await publish(hub, other, *numbered(4, 6))
        for number, page in enumerate(pages):
            last = (5, 6)[number % 2]
            await expect(page.locator("#events .event").last).to_contain_text(f"n{last}")
            assert await _shown(page) == [f"n{n}" for n in range(1, last + 1)]
        await expect(pages[0].locator("#list-state")).to_have_text("live")
        facts = pages[0].locator("#session-facts")
        await expect(facts).to_contain_text("1 watching")
        # A tab that comes later has all of the text, and the others have none of it twice.
        late = await context.new_page()
        await open_session(late, hub, sid)
        for page in (late, pages[0]):
            await expect(page.locator(".row.open .text")).to_have_text("so far")
        for page in pages[:-1]:
            await page.close()
        await publish(hub, other, *numbered(7, 7))
        await expect(pages[-1].locator("#events .event").last).to_contain_text("n7")


NO_SOCKETS = """
window.WebSocket = class { constructor() { setTimeout(() => this.onclose({})); } close() {} };
"""
"""Lets no WebSocket be opened, as some proxies do."""


@pytest.mark.parametrize("way", ["websocket", "sse"])
async def test_a_network_that_goes_and_comes_loses_and_doubles_nothing(
    browser: Browser, hub: HubProcess, sid: str, way: str
) -> None:
    await publish(hub, sid, *numbered(1, 2))
    faults = ("ERR_INTERNET_DISCONNECTED", "WebSocket", "Failed to load resource")
    async with context_of(browser, faults=faults) as context:
        page = await context.new_page()
        # Playwright sees the network of pages, not of shared workers.
        await page.add_init_script("delete window.SharedWorker;")
        if way == "sse":
            await page.add_init_script(NO_SOCKETS)
        await open_session(page, hub, sid)
        await context.set_offline(True)
        await publish(hub, sid, *numbered(3, 4))
        await expect(page.locator("#stream-state")).to_contain_text("offline since")
        await context.set_offline(False)
        await publish(hub, sid, *numbered(5, 5))
        await expect(page.locator("#stream-state")).to_have_text("live")
        await expect(page.locator("#events .event").last).to_contain_text("n5")
        assert await _shown(page) == [f"n{n}" for n in range(1, 6)]


async def test_a_hidden_tab_lets_go_and_has_missed_nothing_when_it_is_back(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="Tell me"), _delta("Once"))
    async with open_page(browser) as page:
        await page.goto(link(hub))
        await expect(page.locator("#list-state")).to_have_text("live")
        states = "window.states.at(-1)"
        await page.evaluate(
            """async (sid) => {
                const { Hub, Texts, followSession } = await import("/console/client/index.js");
                window.states = []; window.seen = []; window.texts = new Texts();
                window.following = followSession(new Hub(), sid, {
                    onEvent: (event) => { window.seen.push(event.type); window.texts.add(event); },
                    onState: ({ name }) => window.states.push(name),
                }, { pauseHiddenMs: 1 });
                window.hide = (hidden) => {
                    const value = { value: hidden, configurable: true };
                    Object.defineProperty(document, "hidden", value);
                    document.dispatchEvent(new Event("visibilitychange"));
                };
            }""",
            sid,
        )
        await until(page, states, "live")
        await page.evaluate("window.hide(true)")
        await until(page, states, "paused")
        await publish(hub, sid, _delta(" upon"), event("session.info", infoType="n", message="x"))
        await page.evaluate("window.hide(false)")
        await until(page, states, "live")
        text = "[...window.texts.open.values()].map((each) => each.text).join()"
        assert await page.evaluate(text) == "Once upon"
        assert await page.evaluate("window.seen.length") == 4
