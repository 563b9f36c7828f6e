"""Prompts and steering in the console: who answers, who wins, and what became of it (protocol.md
§8, §9)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.console_page import (
    api,
    context_of,
    event,
    link,
    open_page,
    open_session,
    publish,
)
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["region", "email"],
    "properties": {
        "region": {"type": "string", "title": "Region", "enum": ["eu", "us"]},
        "email": {"type": "string", "title": "Report to", "format": "email"},
        "replicas": {"type": "integer", "title": "Replicas", "minimum": 1, "default": 2},
        "dry": {"type": "boolean", "title": "Dry run"},
        "parts": {
            "type": "array",
            "title": "Parts",
            "items": {"type": "string", "enum": ["web", "worker"]},
        },
    },
}


@pytest.fixture(scope="module")
async def page(browser: Browser, hub: HubProcess) -> AsyncGenerator[Page]:
    """A page that is signed in and goes from session to session."""
    # The browser itself logs that a half-filled form was refused.
    async with open_page(browser, faults=("422",)) as opened:
        await opened.goto(link(hub))
        await expect(opened.locator("#list-state")).to_have_text("live")
        yield opened


def _shell(request_id: str, command: str = "make release", **more: Any) -> dict[str, Any]:
    request = {
        "kind": "shell",
        "fullCommandText": command,
        "intention": "Build the release",
        "commands": [{"identifier": "make", "readOnly": False}],
        "possiblePaths": [],
        "possibleUrls": [],
        "hasWriteFileRedirection": False,
        "canOfferSessionApproval": True,
        **more,
    }
    return event("permission.requested", requestId=request_id, permissionRequest=request)


def _ask(kind: str, **data: Any) -> dict[str, Any]:
    return event(f"{kind}", ephemeral=True, requestId="r", **data)


async def _press(page: Page, *names: str) -> None:
    for name in names:
        await page.locator(".prompt").get_by_role("button", name=name).click()


async def _fill_form(page: Page) -> None:
    card = page.locator(".prompt")
    await card.get_by_label("Report to").fill("me@example.org")
    await card.get_by_role("button", name="Send").click()
    await expect(card.get_by_text("is required")).to_be_visible()
    await card.get_by_label("Region").select_option("eu")
    await card.get_by_label("worker").check()
    await card.get_by_role("button", name="Send").click()


async def _choose_plan(page: Page) -> None:
    await page.get_by_label("Go on by itself").check()
    await _press(page, "Approve the plan")


async def _add_credits(page: Page) -> None:
    await _press(page, "Add")
    await expect(page.locator(".prompt [role=alert]")).to_contain_text("needs an answer")
    await page.get_by_label("Credits").fill("20")
    await _press(page, "Add")


async def _write(page: Page) -> None:
    await page.get_by_label("Your answer").fill("MariaDB")
    await _press(page, "Answer")


async def _tell_result(page: Page) -> None:
    await page.get_by_label("Result").fill("42")
    await _press(page, "Send the result")


async def _send_headers(page: Page) -> None:
    await page.get_by_label("Headers, one a line").fill("X-Token: abc")
    await _press(page, "Send the headers")


CHOICES: dict[str, Any] = {"question": "Which database?", "choices": ["PostgreSQL", "SQLite"]}
SERVER: dict[str, Any] = {"serverName": "github", "serverUrl": "https://mcp.example.org/"}
PLAN: dict[str, Any] = {
    "summary": "In two steps",
    "planContent": "1. this\n2. that",
    "actions": ["autopilot"],
}
TOOL: dict[str, Any] = {
    "sessionId": "s",
    "toolCallId": "c",
    "toolName": "look_up",
    "arguments": {"q": 1},
}

CASES: dict[str, tuple[dict[str, Any], Callable[[Page], Awaitable[None]], Any]] = {
    "question-choice": (
        _ask("user_input.requested", **CHOICES),
        lambda page: _press(page, "SQLite"),
        {"answer": "SQLite", "wasFreeform": False},
    ),
    "question-words": (
        _ask("user_input.requested", **CHOICES),
        _write,
        {"answer": "MariaDB", "wasFreeform": True},
    ),
    "form": (
        _ask("elicitation.requested", message="Deploy?", mode="form", requestedSchema=SCHEMA),
        _fill_form,
        {
            "action": "accept",
            "content": {
                "region": "eu",
                "email": "me@example.org",
                "replicas": 2,
                "dry": False,
                "parts": ["worker"],
            },
        },
    ),
    "page": (
        _ask("elicitation.requested", message="Sign in", mode="url", url="https://example.org/"),
        lambda page: _press(page, "Done"),
        {"action": "accept"},
    ),
    "plan": (
        _ask("exit_plan_mode.requested", recommendedAction="autopilot", **PLAN),
        _choose_plan,
        {"approved": True, "selectedAction": "autopilot"},
    ),
    "limits": (
        _ask("session_limits_exhausted.requested", usedAiCredits=9, maxAiCredits=9),
        _add_credits,
        {"action": "add", "additionalAiCredits": 20},
    ),
    "switch": (
        _ask("auto_mode_switch.requested", errorCode="limit"),
        lambda page: _press(page, "Always"),
        "yes_always",
    ),
    "tool": (
        event("external_tool.requested", requestId="r", **TOOL),
        _tell_result,
        {"result": "42"},
    ),
    "headers": (
        _ask("mcp.headers_refresh_required", reason="startup", **SERVER),
        _send_headers,
        {"redacted": True},
    ),
    "sampling": (
        _ask("sampling.requested", serverName="github", mcpRequestId=1),
        lambda page: _press(page, "Reject"),
        None,
    ),
    "command": (
        _ask("command.execute", command="/deploy", commandName="deploy", args=""),
        lambda page: _press(page, "It was run"),
        {},
    ),
    "url": (
        event(
            "permission.requested",
            requestId="r",
            permissionRequest={"kind": "url", "intention": "Read", "url": "https://a.example/x"},
        ),
        lambda page: _press(page, "For this session"),
        {"kind": "approve-for-session", "domain": "a.example"},
    ),
    "server-tool": (
        event(
            "permission.requested",
            requestId="r",
            permissionRequest={
                "kind": "mcp",
                "serverName": "github",
                "toolName": "create_issue",
                "toolTitle": "Create an issue",
                "readOnly": False,
                "args": {"title": "x"},
            },
        ),
        lambda page: _press(page, "For this session"),
        {
            "kind": "approve-for-session",
            "approval": {"kind": "mcp", "serverName": "github", "toolName": "create_issue"},
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_every_kind_of_prompt_has_a_form_whose_answer_is_taken(
    page: Page, hub: HubProcess, sid: str, case: str
) -> None:
    asked, act, wanted = CASES[case]
    await publish(hub, sid, asked)
    await page.goto(link(hub, sid))
    await expect(page.locator("#session-id")).to_have_text(sid)
    await expect(page.locator(".prompt")).to_have_count(1)
    await act(page)
    await expect(page.locator(".prompt.over")).to_contain_text("You answered")
    found = await api(hub, "GET", f"/v1/sessions/{sid}/prompts/r")
    assert (found["status"], found["answer"]) == ("completed", wanted)


def _calls(name: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": f"tool_approval_{name}", "name": name, "arguments": arguments}
    return {"type": "tool.call_requested", "context": {}, "data": {"tool_calls": [call]}}


async def test_questions_and_approvals_of_everruns_are_answered(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    options = [{"label": "Blue"}, {"label": "Green"}]
    asked = _calls("ask_user", questions=[{"id": "q", "question": "Colour?", "options": options}])
    async with open_page(browser) as page:
        await publish(hub, sid, asked)
        await open_session(page, hub, sid)
        await _press(page, "Answer")
        await expect(page.locator(".prompt [role=alert]")).to_contain_text("needs an answer")
        await page.get_by_label("Green").check()
        await _press(page, "Answer")
        await expect(page.locator(".prompt.over")).to_contain_text("You answered")
        await publish(hub, sid, _calls("approve_tool_call", tool_name="deploy"))
        await expect(page.locator(".prompt").last).to_contain_text("May the agent call deploy?")
        await page.locator(".prompt").last.get_by_role("button", name="Allow").click()
        await expect(page.locator(".prompt.over").last).to_contain_text("You answered")
        path = f"/v1/sessions/{sid}/prompts/tool_approval_"
        question = await api(hub, "GET", f"{path}ask_user")
        assert question["answer"]["answers"] == [{"id": "q", "selected": ["Green"]}]
        approval = await api(hub, "GET", f"{path}approve_tool_call")
        assert approval["answer"] == {"decision": "allow"}


async def test_of_two_tabs_that_answer_one_wins_and_the_other_is_told(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="Go"), _shell("r"))
    async with context_of(browser, faults=("409",)) as context:
        pages = [await context.new_page() for _ in range(2)]
        for page in pages:
            await open_session(page, hub, sid)
            await expect(page.locator(".prompt")).to_have_count(1)
        # Pressed where the other's answer cannot have arrived yet.
        press = "document.querySelector('.prompt .{}').click()"
        for page, kind in zip(pages, ("good", "bad"), strict=True):
            await page.evaluate(press.format(kind))
        for page in pages:
            await expect(page.locator(".prompt.over")).to_have_count(1)
            await expect(page.locator("#events .ask .state")).to_contain_text(
                "approved", ignore_case=True
            )
        ends = [await page.locator(".prompt.over .ended").inner_text() for page in pages]
        assert ends[0].startswith("You answered")
        assert ends[1].startswith("Answered by")
        found = await api(hub, "GET", f"/v1/sessions/{sid}/prompts/r")
        assert found["answer"] == {"kind": "approve-once"}


async def test_keys_answer_only_where_the_focus_is_in_the_card(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, _shell("r"))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        card = page.locator(".prompt")
        await expect(card).to_have_count(1)
        await page.keyboard.press("y")
        await page.locator("#log").focus()
        await page.keyboard.press("n")
        await expect(card.get_by_role("button", name="Approve")).to_be_enabled()
        await page.keyboard.press("p")
        await expect(card).to_be_focused()
        await card.get_by_label("A word to the agent").focus()
        await page.keyboard.type("yes, but n")
        await page.keyboard.press("Escape")
        await page.keyboard.press("n")
        await expect(page.locator(".prompt.over")).to_contain_text("You answered")
    found = await api(hub, "GET", f"/v1/sessions/{sid}/prompts/r")
    assert found["answer"] == {"kind": "reject", "feedback": "yes, but n"}


async def test_a_prompt_that_waits_is_told_in_the_list_and_counts_down(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    call: dict[str, Any] = {"id": "c", "name": "look_up", "arguments": {}}
    asked: dict[str, Any] = {
        "type": "tool.call_requested",
        "context": {},
        "data": {"tool_calls": [call]},
    }
    async with open_page(browser) as page:
        await publish(hub, sid, asked)
        await open_session(page, hub, sid)
        entry = page.locator(f'#session-list a[data-id="{sid}"]')
        await expect(entry).to_contain_text("waiting for you: 1")
        await expect(page.locator(".prompt .facts-line")).to_contain_text("expires in")
        done = {"tool_call_id": "c", "tool_name": "", "success": True, "status": "success"}
        await publish(hub, sid, {"type": "tool.completed", "context": {}, "data": done})
        await expect(page.locator(".prompt.over")).to_contain_text("Answered by the host")
        await expect(entry).not_to_contain_text("waiting for you")


async def _first_command(hub: HubProcess, sid: str) -> dict[str, Any]:
    """Be the host until the first command comes."""
    headers = {"Authorization": f"Bearer {hub.key}"}
    async with (
        httpx2.AsyncClient(base_url=hub.url, headers=headers) as http,
        http.stream("GET", f"/v1/sessions/{sid}/commands/sse") as response,
    ):
        is_command = False
        async for line in response.aiter_lines():
            if is_command and line.startswith("data: "):
                return cast("dict[str, Any]", json.loads(line.removeprefix("data: ")))
            is_command = is_command or line == "event: command"
    raise AssertionError("no command came")


async def test_what_is_sent_to_the_host_shows_its_receipt(
    browser: Browser, hub: HubProcess, sid: str
) -> None:
    await publish(hub, sid, event("user.message", content="Go"))
    async with open_page(browser) as page:
        await open_session(page, hub, sid)
        await page.get_by_label("Message to the agent").fill("And the tests")
        await page.get_by_label("When").select_option("immediate")
        await page.get_by_role("button", name="Send").click()
        receipt = page.locator("#receipts li")
        await expect(receipt).to_contain_text("no host has read it yet")
        sent = await _first_command(hub, sid)
        assert sent["data"] == {"prompt": "And the tests", "mode": "immediate"}
        await expect(receipt).to_contain_text("with the host")
        done = {"outcome": "consumed"}
        await api(hub, "POST", f"/v1/sessions/{sid}/commands/{sent['id']}/ack", done)
        await expect(receipt).to_contain_text("taken")
        await page.get_by_role("button", name="Abort").click()
        await expect(receipt).to_have_count(2)
        assert (await _first_command(hub, sid))["type"] == "abort"
