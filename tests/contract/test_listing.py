"""The list, the summary and the export of a session's log (protocol.md §5)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest

from tests.contract._requirements import proves
from tests.contract.events import (
    call,
    copilot,
    delta,
    events_of,
    everruns,
    is_event,
    message,
    new_session,
    note,
    publish,
    turn,
)
from tests.contract.test_publish import check_problem, upload
from tests.contract.wire import open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


async def listed(hub: HubProcess, session: str, query: Any = ()) -> list[int]:
    """Sequences of what the list gives."""
    path = f"/v1/sessions/{session}/events?{urlencode(query, doseq=True)}"
    return [event["sequence"] for event in (await call(hub, "GET", path))["data"]]


async def a_story(hub: HubProcess, session: str) -> list[dict[str, Any]]:
    """Three turns of four events each."""
    sent: list[dict[str, Any]] = []
    for n in range(3):
        context = {"turn_id": f"turn_{n}", "trace_id": f"turn_{n}", "exec_id": f"exec_{n}"}
        sent.append(turn(n, context=context))
        for tool in ("bash", "view"):
            data: dict[str, Any] = {"tool_call_id": f"{tool}{n}", "tool_name": tool}
            data["result"] = [{"type": "text", "text": f"Result {n}"}]
            sent.append(everruns("tool.completed", data, context=context, tags=[tool, "all"]))
        sent.append(everruns("turn.completed", {"turn_id": f"turn_{n}"}, context=context))
    await publish(hub, session, sent)
    return sent


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, range(1, 13)),
        ({"limit": 3}, [10, 11, 12]),
        ({"limit": 3, "order_desc": "true"}, [12, 11, 10]),
        ({"after_sequence": 4, "limit": 3}, [5, 6, 7]),
        ({"after_sequence": 12}, []),
        ({"before_sequence": 9, "limit": 2}, [5, 6, 7, 8]),
        ({"before_sequence": 6, "limit": 1}, [5]),
        ({"before_sequence": 1, "limit": 5}, []),
        ({"types": ["turn.started"]}, [1, 5, 9]),
        ({"exclude": ["tool.completed", "turn.completed"]}, [1, 5, 9]),
        ({"turn_id": "turn_1"}, [5, 6, 7, 8]),
        ({"exec_id": "exec_2"}, [9, 10, 11, 12]),
        ({"trace_id": "turn_0"}, [1, 2, 3, 4]),
        ({"tags": ["bash"]}, [2, 6, 10]),
        ({"tags": ["bash", "view"]}, [2, 3, 6, 7, 10, 11]),
        ({"tool_name": "view"}, [3, 7, 11]),
        ({"q": "RESULT 1"}, [6, 7]),
        ({"q": "result", "turn_id": "turn_2", "tool_name": "bash"}, [10]),
        ({"from_ts": "2000-01-01T00:00:00Z", "to_ts": "2099-01-01T00:00:00Z"}, range(1, 13)),
        ({"to_ts": "2000-01-01T00:00:00Z"}, []),
    ],
    ids=lambda value: json.dumps(value) if hasattr(value, "keys") else "",
)
@proves("list-filters", "list-pages")
async def test_list_keeps_what_its_parameters_say(
    hub: HubProcess, session: str, query: Any, expected: Any
) -> None:
    await a_story(hub, session)
    assert await listed(hub, session, query) == list(expected)


@proves("list-filters")
async def test_around_takes_a_window_on_both_sides(hub: HubProcess, session: str) -> None:
    sent = await a_story(hub, session)
    query = {"around": sent[5]["id"], "window": 2}
    assert await listed(hub, session, query) == [4, 5, 6, 7, 8]
    assert await listed(hub, session, {"around": f"event_{'0' * 32}"}) == []


@proves("list-pages")
async def test_paging_back_covers_each_event_once(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [note(str(n)) for n in range(25)])
    path = f"/v1/sessions/{session}/events?limit=4"
    seen: list[int] = []
    page = await call(hub, "GET", path)
    while page["data"]:
        answer = await request(hub, "GET", path)
        assert answer.headers["x-total-count"] == "25"
        ids = {event["id"] for event in page["data"]}
        assert len(ids) == len(page["data"])
        seen = [*range(page["first_sequence"], page["last_sequence"] + 1), *seen]
        assert len(page["data"]) == page["last_sequence"] - page["first_sequence"] + 1
        page = await call(hub, "GET", f"{path}&before_sequence={page['first_sequence']}")
    assert seen == list(range(1, 26))
    assert (page["first_sequence"], page["last_sequence"]) == (None, None)


@proves("list-pages")
async def test_paging_forward_ends_with_an_empty_page(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [turn(n) for n in range(10)])
    seen: list[int] = []
    while page := await listed(hub, session, {"after_sequence": len(seen), "limit": 3}):
        seen += page
    assert seen == list(range(1, 11))


@proves("list-follow")
async def test_list_then_follow_loses_and_repeats_nothing(hub: HubProcess, session: str) -> None:
    sent: list[str] = []

    async def pour() -> None:
        for n in range(150):
            events = [note(str(n)), delta(f"m{n}", "x"), message(f"m{n}", "x")]
            await publish(hub, session, events)
            sent.extend(event["id"] for event in (events[0], events[2]))
        await publish(hub, session, copilot("abort", {"reason": "end"}))

    await publish(hub, session, note("first"))
    seen: list[list[str]] = []

    async def look() -> None:
        page = await call(hub, "GET", f"/v1/sessions/{session}/events")
        path = f"/v1/sessions/{session}/sse?control=1&since_id={page['cursor']}"
        async with open_stream(hub, path) as stream:
            frames = await stream.until("abort", timeout=30)
        assert frames[0].json()["gap"] is None
        followed = [f.json()["id"] for f in frames if is_event(f) and f.event != "abort"]
        listed = [event["id"] for event in page["data"]][1:]
        seen.append(listed + followed)

    async with anyio.create_task_group() as group:
        group.start_soon(pour)
        for _ in range(20):
            group.start_soon(look)
            await anyio.sleep(0.02)
    for ids in seen:
        assert [id for id in ids if id in set(sent)] == sent


BAD_QUERIES = [
    "limit=0",
    "limit=1001",
    "limit=x",
    "limit=-1",
    "before_sequence=x",
    "after_sequence=-1",
    "after_sequence=x",
    "window=5",
    "around=a&window=0",
    "around=a&window=501",
    "around=a&since_id=b",
    "around=a&after_sequence=1",
    "around=a&before_sequence=1",
    "from_ts=yesterday",
    "to_ts=2026",
    "from_ts=2026-02-01T00:00:00Z&to_ts=2026-01-01T00:00:00Z",
    "order_desc=perhaps",
    "types=no.such.type",
    "exclude=no.such.type",
    "&".join(f"tags=t{n}" for n in range(21)),
    "&".join(["types=turn.started"] * 26),
    f"q={'x' * 4097}",
    f"q={'+'.join('w' * 65)}",
]


@pytest.mark.parametrize("query", BAD_QUERIES, ids=lambda query: query[:40])
@proves("list-errors")
async def test_bad_parameters_are_refused(hub: HubProcess, session: str, query: str) -> None:
    await publish(hub, session, turn())
    check_problem(await request(hub, "GET", f"/v1/sessions/{session}/events?{query}"), 400)


@proves("summary")
async def test_summary_counts_by_type(hub: HubProcess, session: str) -> None:
    await a_story(hub, session)
    failed = everruns("turn.failed", {"turn_id": "t", "error": "x"})
    await publish(hub, session, failed)
    said = await call(hub, "GET", f"/v1/sessions/{session}/events/summary")
    assert said["total"] == 13
    assert said["by_type"] == [
        {"event_type": "tool.completed", "count": 6},
        {"event_type": "turn.completed", "count": 3},
        {"event_type": "turn.failed", "count": 1},
        {"event_type": "turn.started", "count": 3},
    ]
    assert (said["turn_count"], said["error_count"]) == (3, 1)


@proves("export", "export-round-trip")
async def test_export_can_be_published_again(hub: HubProcess, session: str) -> None:
    sent = [note(f"{n} é 漢") for n in range(700)]
    for start in range(0, 700, 200):
        await publish(hub, session, sent[start : start + 200])
    answer = await request(hub, "GET", f"/v1/sessions/{session}/export")
    assert answer.headers["content-type"].split(";")[0] == "application/x-ndjson"
    lines = answer.body.splitlines()
    assert [json.loads(line) for line in lines] == sent
    copy = new_session()
    said = (await upload(hub, copy, lines)).json()
    assert (said["stored"], said["last_sequence"]) == (700, 700)
    again = await request(hub, "GET", f"/v1/sessions/{copy}/export")
    assert again.body == answer.body
    async with open_stream(hub, f"/v1/sessions/{copy}/sse?control=1") as stream:
        assert events_of(await stream.until("caught_up")) == sent
