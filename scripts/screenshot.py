"""Take the README's picture of the console: `docs/console.png`.

    .venv/bin/python scripts/screenshot.py

Starts a hub of its own, publishes a session that waits for a permission, and looks at it with the
system's Chromium.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent.parent / "docs/console.png"
START_S = 60.0

DIFF = """--- a/upload/session.py
+++ b/upload/session.py
@@ -40,4 +40,6 @@ class Session:
     def acknowledged(self, answer):
-        self.offset = answer.offset
+        if answer.attempt != self.attempt:
+            return  # an answer to an attempt that was given up
+        self.offset = answer.offset
"""


def _event(kind: str, agent: str = "", *, ephemeral: bool = False, **data: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind, "parentId": None, "data": data}
    if agent:
        event["agentId"] = agent
    if ephemeral:
        event["ephemeral"] = True
    return event


def _tool(call: str, name: str, agent: str = "", *, result: str, **given: str) -> list[Any]:
    start: dict[str, Any] = {"toolCallId": call, "toolName": name, "arguments": given}
    end: dict[str, Any] = {"toolCallId": call, "success": True, "result": {"content": result}}
    return [
        _event("tool.execution_start", agent, **start),
        _event("tool.execution_complete", agent, **end),
    ]


SCOUT: dict[str, Any] = {"toolCallId": "c2", "agentName": "explore", "agentDisplayName": "Explore"}

STORY: list[Any] = [
    _event("session.title_changed", ephemeral=True, title="Fix the flaky upload test"),
    _event("user.message", content="test_upload_resumes fails now and then. Please fix the cause."),
    _event("assistant.reasoning", reasoningId="r", content="Something depends on timing. First …"),
    _event(
        "assistant.message",
        messageId="m1",
        content="I will read the test, and send a scout for others that share its fixture.",
    ),
    *_tool("c1", "view", result="def test_upload_resumes(): …", path="tests/test_upload.py"),
    _event("subagent.started", "scout", agentDescription="Searches the code", **SCOUT),
    *_tool("c3", "grep", "scout", result="3 matches", pattern="upload_server"),
    _event("subagent.completed", "scout", totalToolCalls=1, durationMs=2_140, **SCOUT),
    *_tool("c4", "bash", result="9 failed, 191 passed", command="pytest -k resumes --count 200 -q"),
    _event(
        "permission.requested",
        requestId="r1",
        permissionRequest={
            "kind": "write",
            "intention": "Drop answers to attempts that were given up",
            "fileName": "upload/session.py",
            "diff": DIFF,
            "canOfferSessionApproval": True,
        },
    ),
    _event(
        "assistant.message_delta",
        ephemeral=True,
        messageId="m2",
        deltaContent="Reproduced: a late answer to an abandoned attempt resets the offset. I will",
    ),
]

OTHERS = {
    "report": ("Make the report page load faster", "user.message"),
    "keys": ("Rotate the signing keys", "session.idle"),
}


class _Hub:
    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key

    def publish(self, session: str, events: list[Any]) -> None:
        request = urllib.request.Request(
            f"{self.url}/v1/sessions/{session}/events",
            data=json.dumps(events).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()


def _running(folder: Path, process: subprocess.Popen[bytes]) -> _Hub:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        if (folder / "hub.json").exists():
            told = json.loads((folder / "hub.json").read_text())
            return _Hub(told["url"], told["key"])
        time.sleep(0.1)
    raise SystemExit("the hub did not start")


def _photograph(hub: _Hub) -> None:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 860}, color_scheme="light")
        page.goto(f"{hub.url}/#key={hub.key}")
        page.locator("#panes").wait_for()
        page.goto(f"{hub.url}/#/s/upload")
        page.locator(".prompt").wait_for()
        page.locator("#stream-state[data-state=live]").wait_for()
        page.locator("#session-list a").nth(2).wait_for()
        page.screenshot(path=TARGET)
        browser.close()


def main() -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "sessionwire", "serve", "--port", "0"]
        process = subprocess.Popen([*command, "--data-dir", name], stderr=subprocess.DEVNULL)
        try:
            hub = _running(folder, process)
            for session, (title, kind) in OTHERS.items():
                titled = _event("session.title_changed", ephemeral=True, title=title)
                last = _event(kind, content=title) if "message" in kind else _event(kind)
                hub.publish(session, [_event("user.message", content=title), titled, last])
            hub.publish("upload", STORY)
            _photograph(hub)
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
