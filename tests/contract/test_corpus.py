"""Every example event of both catalogs, through the whole hub (protocol.md §3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import is_event, publish
from tests.contract.wire import open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

DATA = Path(__file__).parent.parent / "data"

SECRETS = {"mcp.oauth_required": ("staticClientConfig.clientSecret", "httpResponse")}
"""Members that the hub cuts out before it stores an event (protocol.md §8)."""


def corpus(catalog: str) -> list[dict[str, Any]]:
    """The example events, in order, each id once."""
    lines = (DATA / f"{catalog}.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return list({event["id"]: event for event in events}.values())


ENDING = ("abort", "session.idle", "session.resume", "session.shutdown", "input.message", "turn.")
"""Types that end what is asked, for which the hub then adds an event of its own."""


def unrelated(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, so that none answers, repeats or ends what another one asks."""
    for event in events:
        if "requestId" in event["data"]:
            event["data"]["requestId"] = event["id"]
    return sorted(events, key=lambda event: not event["type"].startswith(ENDING))


def is_passing(catalog: str, event: dict[str, Any]) -> bool:
    """Judged by the flag and the names alone, not by the project's tables."""
    if event["type"] == "session.snapshot_rewind":
        return False
    if catalog == "everruns":
        return bool(event["type"].endswith(".delta"))
    return event.get("ephemeral") is True or event["type"] == "external_tool.completed"


def without_secrets(event: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(event))
    for path in SECRETS.get(event["type"], ()):
        inner: Any = copy["data"]
        *parents, last = path.split(".")
        for name in parents:
            inner = inner.get(name) or {}
        inner.pop(last, None)
    return copy


def spelled(event: dict[str, Any]) -> str:
    """JSON with order and spellings kept, for comparison."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("catalog", ["copilot", "everruns"])
@proves("corpus-survives", "as-written", "ephemeral-rule")
async def test_corpus_comes_out_as_it_went_in(hub: HubProcess, session: str, catalog: str) -> None:
    """Rewinds go to a session of their own, since they hide what stands before them."""
    events = [e for e in corpus(catalog) if e["type"] != "session.snapshot_rewind"]
    events = unrelated(events)
    assert len(events) > 100
    for start in range(0, len(events), 200):
        await publish(hub, session, events[start : start + 200])
    expected = [spelled(without_secrets(event)) for event in events]
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = [f for f in await stream.until("caught_up", timeout=60) if is_event(f)]
    durable: list[str] = []
    for frame, event, wanted in zip(frames, events, expected, strict=True):
        assert frame.event == event["type"]
        got = frame.json()
        sequence = got.pop("sequence", None)
        if "sequence" in event:
            wanted = spelled({k: v for k, v in event.items() if k != "sequence"})
        assert spelled(got) == wanted
        assert (sequence is not None) == (
            catalog == "everruns" and not is_passing(catalog, event)
        ), event["type"]
        if not is_passing(catalog, event):
            durable.append(frame.data or "")
    listed = (await request(hub, "GET", f"/v1/sessions/{session}/events")).body
    exported = (await request(hub, "GET", f"/v1/sessions/{session}/export")).body
    assert exported.decode().split("\n") == [*durable, ""]
    assert [spelled(e) for e in json.loads(listed)["data"]] == [
        spelled(json.loads(text)) for text in durable
    ]
    for text in durable:
        assert text.encode() in listed


@proves("corpus-survives", "rewind")
async def test_rewinds_of_the_corpus_survive(hub: HubProcess, session: str) -> None:
    rewinds = [e for e in corpus("copilot") if e["type"] == "session.snapshot_rewind"]
    assert rewinds
    await publish(hub, session, rewinds)
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = [f for f in await stream.until("caught_up") if is_event(f)]
    assert [frame.json() for frame in frames] == rewinds
