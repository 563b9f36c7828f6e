"""The console in a real browser, against a real hub: what a person sees (protocol.md §6, §10)."""

from __future__ import annotations

import anyio
import httpx2
import pytest
from playwright.async_api import Browser, Page, expect

from tests.chromium import WAIT_MS
from tests.e2e.console_page import (
    PHONE,
    api,
    event,
    link,
    numbered,
    open_page,
    open_session,
    publish,
)
from tests.hub_process import KEY, HubProcess, running_hub, start_hub

pytestmark = pytest.mark.anyio


async def test_a_key_in_the_address_signs_in_and_leaves_the_address(
    browser: Browser, hub: HubProcess
) -> None:
    async with open_page(browser) as page:
        await page.goto(link(hub))
        await expect(page.locator("#list-state")).to_have_text("live")
        assert "key" not in page.url
        await page.reload()
        await expect(page.locator("#list-state")).to_have_text("live")
        assert KEY not in await page.content()
        assert await page.evaluate("document.cookie") == ""


async def test_a_wrong_key_is_told_and_a_right_one_signs_in(
    browser: Browser, hub: HubProcess
) -> None:
    async with open_page(browser, faults=("401",)) as page:
        await page.goto(hub.url)
        await page.get_by_label("Key").fill("not-a-key")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).not_to_be_empty()
        await page.get_by_label("Key").fill(hub.key)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#list-state")).to_have_text("live")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Key")).to_be_visible()
        await page.reload()
        await expect(page.get_by_label("Key")).to_be_visible()


async def test_a_session_appears_in_the_list_with_its_first_event(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    async with open_page(browser) as page:
        await page.goto(link(hub))
        await expect(page.locator("#list-state")).to_have_text("live")
        await publish(hub, sid, event("user.message", content="Hello"))
        entry = page.locator(f'#session-list a[data-id="{sid}"]')
        await expect(entry).to_be_visible()
        await expect(entry).to_contain_text("active")
        await publish(hub, sid, event("session.title_changed", title="Greetings"))
        await expect(entry).to_contain_text("Greetings")


async def test_text_grows_while_it_is_written_and_the_whole_message_replaces_it(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="Say hello"))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        await expect(page.locator(".message .text")).to_have_text("Say hello")
        for word in ("Hello", " wide", " world"):
            delta = event("assistant.message_delta", messageId="m1", deltaContent=word)
            await publish(hub, sid, delta)
        await expect(page.locator(".row.open .text")).to_have_text("Hello wide world")
        whole = event("assistant.message", messageId="m1", content="Hello, wide world.")
        await publish(hub, sid, whole)
        await expect(page.locator(".row.open")).to_have_count(0)
        await expect(page.locator(".message .text").last).to_have_text("Hello, wide world.")


async def test_a_late_joiner_sees_the_text_so_far(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    for word in ("So", " far", " so", " good"):
        delta = event("assistant.message_delta", messageId="m1", deltaContent=word)
        await publish(hub, sid, delta)
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        await expect(page.locator(".row.open .text")).to_have_text("So far so good")


async def test_markup_in_an_event_is_shown_as_text(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    nasty = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    async with open_page(browser) as page:
        await _open_empty(page, hub, sid)
        await publish(
            hub,
            sid,
            event("user.message", content=nasty),
            event("session.title_changed", title=nasty),
            event("assistant.message_delta", messageId="m1", deltaContent=nasty),
            event("session.info", infoType="x", message=nasty),
        )
        await expect(page.locator(".message .text")).to_have_text(nasty)
        await expect(page.locator("#session-title")).to_have_text(nasty)
        await expect(page.locator("#events .what")).to_have_text(nasty)
        await page.locator("#events .line").first.click()
        await expect(page.locator("#inspector pre")).to_contain_text("onerror")
        assert await page.locator("img, script:not([src])").count() == 0
        assert "owned" not in await page.title() or nasty in await page.title()


async def _open_empty(page: Page, hub: HubProcess, sid: str) -> None:
    await api(hub, "POST", "/v1/sessions", {"id": sid, "catalog": "copilot"})
    await open_session(page, hub, sid)


async def test_earlier_events_come_when_one_scrolls_to_them(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    for first in (1, 251, 501):
        await publish(hub, sid, *numbered(first, first + 249))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        rows = page.locator("#events .row")
        await expect(rows.last).to_contain_text("n750")
        await expect(page.locator("#newest")).to_be_hidden()
        oldest = page.get_by_text("n1", exact=True)
        with anyio.fail_after(WAIT_MS / 1000):
            while await oldest.count() == 0:
                await page.evaluate("document.getElementById('log').scrollTop = 0")
                await page.evaluate("new Promise(requestAnimationFrame)")
        await expect(oldest).to_be_visible()
        assert await rows.count() < 80
        await page.get_by_role("button", name="Newest").click()
        await expect(rows.last).to_contain_text("n750")


async def test_it_says_that_the_hub_is_gone_and_comes_back_without_loss(
    browser: Browser, redis_url: str, sid: str
) -> None:
    async with open_page(browser, faults=("Failed to load resource", "ERR_")) as page:
        first = start_hub(redis_url)
        try:
            await publish(first, sid, *numbered(1, 2))
            await open_session(page, first, sid)
        finally:
            first.stop()
        await expect(page.locator("#stream-state")).to_contain_text("offline since")
        with running_hub(redis_url, args=["--port", str(first.port)]) as second:
            await publish(second, sid, *numbered(3, 4))
            await expect(page.locator("#stream-state")).to_have_text("live")
            await publish(second, sid, *numbered(5, 5))
            await expect(page.locator("#events .row").last).to_contain_text("n5")
            shown = await page.locator("#events .what").all_inner_texts()
            # The page goes before the hub does: its streams would keep the hub draining.
            await page.close()
    assert shown == [f"n{n}" for n in range(1, 6)]


async def test_a_phone_shows_one_pane_at_a_time_and_nothing_overflows(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="word " * 80 + "x" * 400))
    async with open_page(browser, PHONE) as page:
        await page.goto(link(hub))
        entry = page.locator(f'#session-list a[data-id="{sid}"]')
        await expect(entry).to_be_visible()
        await entry.click()
        await expect(page.locator("#stream-state")).to_have_text("live")
        await expect(entry).to_be_hidden()
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert await page.evaluate(wide) is False
        await page.get_by_role("link", name="All sessions").click()
        await expect(entry).to_be_visible()
        await expect(page.locator("#log")).to_be_hidden()


async def test_the_page_allows_no_code_but_its_own(browser: Browser, hub: HubProcess) -> None:
    async with httpx2.AsyncClient(base_url=hub.url) as http:
        answer = await http.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    async with open_page(browser, faults=("401", "Content Security Policy")) as page:
        await page.goto(hub.url)
        await expect(page.get_by_label("Key")).to_be_visible()
        await page.evaluate(
            "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
            " document.head.append(s);"
        )
        assert await page.evaluate("window.ran") is None


async def test_a_deleted_session_ends(browser: Browser, hub: HubProcess, sid: str) -> None:
    await publish(hub, sid, *numbered(1, 1))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        await api(hub, "DELETE", f"/v1/sessions/{sid}")
        await expect(page.locator("#stream-state")).to_have_text("deleted")
        await expect(page.locator(f'#session-list a[data-id="{sid}"]')).to_have_count(0)
