"""The console with much to show: a log of 100,000 events, 5,000 sessions, and what it costs the
page (protocol.md §5, §6.8); whether everybody can use it."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from playwright.async_api import Browser, CDPSession, Page, ViewportSize, expect

from sessionwire_server.redis_link import RedisLink
from sessionwire_server.session_record import SessionFields
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.e2e.console_page import (
    DESK,
    PHONE,
    api,
    event,
    lines,
    link,
    open_page,
    open_session,
    publish,
)
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio

EVENTS = 100_000
PART = 25_000
SESSIONS = 5_000

NODES = 500
"""Elements of the whole page, the session list among them."""

FRAME_S = 0.05
"""Of the page's own time: what other processes take of the machine says nothing of the page."""

FILTER_S = 0.1

AXE = Path(__file__).parent / "node/node_modules/axe-core/axe.min.js"


@pytest.fixture(scope="module")
def redis() -> Generator[RedisProcess]:
    """A server of its own: so many sessions would be in the way of other tests."""
    with RedisProcess() as server:
        yield server


@pytest.fixture(scope="module")
def hub(redis: RedisProcess) -> Generator[HubProcess]:
    with running_hub(redis.url) as running:
        yield running


def _log(first: int, last: int) -> list[dict[str, Any]]:
    """Events of a log: every fifth a message, a tool of two events among the rest."""
    made: list[dict[str, Any]] = []
    for n in range(first, last):
        match n % 5:
            case 0:
                one = event("user.message", content=f"step {n}")
            case 1:
                one = event("assistant.reasoning", reasoningId=f"r{n}", content="so " * (n % 40))
            case 2:
                text = f"n{n}. " + "It was done. " * (n % 23)
                one = event("assistant.message", messageId=f"m{n}", content=text)
            case 3:
                given = {"command": f"make {n}"}
                one = event(
                    "tool.execution_start", toolCallId=f"c{n}", toolName="bash", arguments=given
                )
            case _:
                result = {"content": "ok\n" * (n % 9)}
                one = event(
                    "tool.execution_complete", toolCallId=f"c{n - 1}", success=True, result=result
                )
        made.append(one)
    return made


class _Work:
    """What the page's main thread did, in seconds of its own."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        self._before = 0.0

    @classmethod
    async def of(cls, page: Page) -> _Work:
        session = await page.context.new_cdp_session(page)
        await cast("Any", session).send("Performance.enable", {"timeDomain": "threadTicks"})
        work = cls(session)
        await work.since()
        return work

    async def since(self) -> float:
        """Seconds since it was last asked."""
        # Playwright's types leave out what its dictionaries hold.
        session = cast("Any", self._session)
        found: dict[str, list[dict[str, Any]]] = await session.send("Performance.getMetrics")
        values = {each["name"]: float(each["value"]) for each in found["metrics"]}
        now = values["TaskDuration"]
        before, self._before = self._before, now
        return now - before


SCROLL = """async (by) => {
    document.getElementById("log").scrollTop += by;
    await new Promise(requestAnimationFrame);
    return document.querySelectorAll("*").length;
}"""


async def test_a_log_of_100_000_events_scrolls_in_short_frames_with_few_nodes(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    for first in range(0, EVENTS, PART):
        path = f"/v1/sessions/{sid}/events"
        await api(hub, "POST", path, lines(_log(first, first + PART)))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        await expect(page.locator("#events .row").last).to_contain_text("make 99998")
        work = await _Work.of(page)
        frames: list[float] = []
        nodes = 0
        for step in [-1_400] * 70 + [1_400] * 20:
            nodes = max(nodes, await page.evaluate(SCROLL, step))
            frames.append(await work.since())
        assert nodes <= NODES
        assert max(frames) <= FRAME_S, sorted(frames)[-5:]
        # Far behind what the stream brought: pages of the list were fetched.
        shown = await page.locator("#events .row .text").first.inner_text()
        assert int(shown.removeprefix("step ").removeprefix("n").split(".")[0]) < EVENTS - 400
        await page.get_by_role("button", name="Jump").click()
        await page.get_by_role("button", name="To the start").click()
        await expect(page.locator("#events .row").first).to_contain_text("step 0")
        await page.get_by_label("Filter events by text").fill("step 54320")
        await expect(page.locator("#events .row")).to_have_count(1)
        await page.get_by_label("Filter events by text").fill("")
        await publish(hub, sid, event("user.message", content="the newest"))
        await expect(page.get_by_text("the newest", exact=True)).to_be_visible()
        assert await page.evaluate("document.querySelectorAll('*').length") <= NODES


async def _make_sessions(url: str) -> None:
    settings = Settings(redis_url=url)
    limit = anyio.CapacityLimiter(64)
    async with RedisLink(settings) as redis_link:
        store = EventStore(redis_link, settings)

        async def make(n: int) -> None:
            async with limit:
                fields = SessionFields(catalog="copilot", title=f"Session number {n}")
                await store.create_session(f"many_{n}", fields)

        async with anyio.create_task_group() as group:
            for n in range(SESSIONS):
                group.start_soon(make, n)


async def test_5_000_sessions_are_filtered_as_one_types(
    browser: Browser, hub: HubProcess, redis: RedisProcess
) -> None:
    await _make_sessions(redis.url)
    async with open_page(browser) as page:
        await page.goto(link(hub))
        count = page.locator("#session-count")
        # Sessions of the other tests may be among them.
        await expect(count).to_have_text(re.compile(r"500\d"))
        work = await _Work.of(page)
        for typed in ("number 4", "number 49", "number 499", "number 4999"):
            await page.evaluate(
                """async (typed) => {
                    const field = document.getElementById("find");
                    field.value = typed;
                    field.dispatchEvent(new Event("input"));
                    await new Promise(requestAnimationFrame);
                    await new Promise(requestAnimationFrame);
                }""",
                typed,
            )
            assert await work.since() <= FILTER_S
        await expect(page.locator("#session-list .entry")).to_have_count(1)
        await expect(page.locator("#session-list")).to_contain_text("Session number 4999")
        await page.get_by_label("Find a session").fill("")
        assert await page.locator("#session-list .entry").count() < 40


RICH = [
    event("user.message", content="Please release"),
    event("assistant.reasoning", reasoningId="r", content="I should build it first."),
    event(
        "tool.execution_start",
        toolCallId="c",
        toolName="bash",
        arguments={"command": "make"},
    ),
    event("tool.execution_complete", toolCallId="c", success=False, error={"message": "no rule"}),
    event("session.error", errorType="x", message="Something broke"),
    event(
        "permission.requested",
        requestId="p",
        permissionRequest={
            "kind": "write",
            "intention": "Add a rule",
            "fileName": "Makefile",
            "diff": "--- a/Makefile\n+++ b/Makefile\n@@ -1 +1,2 @@\n all:\n+\tcc x.c",
            "canOfferSessionApproval": True,
        },
    ),
    event(
        "elicitation.requested",
        ephemeral=True,
        requestId="e",
        message="Where to?",
        mode="form",
        requestedSchema={
            "type": "object",
            "properties": {
                "where": {"type": "string", "enum": ["eu", "us"]},
                "parts": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "dry": {"type": "boolean"},
            },
        },
    ),
    event("assistant.message_delta", ephemeral=True, messageId="m", deltaContent="Let me see"),
]


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk-light", "phone-dark"]
)
async def test_axe_finds_no_serious_fault(
    browser: Browser, hub: HubProcess, sid: str, viewport: ViewportSize, scheme: str
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed")
    await publish(hub, sid, *RICH)
    # axe is no script of the page; and who is not signed in is told so with 401.
    more: dict[str, Any] = {"faults": ("401",), "color_scheme": scheme, "bypass_csp": True}
    async with open_page(browser, viewport, **more) as page:
        await page.goto(hub.url)
        await expect(page.get_by_label("Key")).to_be_visible()
        found = await _axe(page)
        await open_session(page, hub, sid)
        await expect(page.locator(".prompt")).to_have_count(2)
        await page.locator("#events .tool .line").click()
        found += await _axe(page)
        await page.locator("#events .message .line").first.click()
        await expect(page.locator("#inspector")).to_be_visible()
        found += await _axe(page)
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert await page.evaluate(wide) is False
        await page.goto(link(hub).replace(f"key={hub.key}", "/"))
        await expect(page.locator("#nothing-open")).to_be_attached()
        found += await _axe(page)
    assert found == []


async def _axe(page: Page) -> list[str]:
    """The serious and critical faults of the page as it is."""
    if not await page.evaluate("'axe' in window"):
        await page.add_script_tag(path=AXE)
    results = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(results["passes"]) > 10
    return [
        f"{each['id']}: {json.dumps([node['target'] for node in each['nodes']])}"
        for each in results["violations"]
        if each["impact"] in ("serious", "critical")
    ]
