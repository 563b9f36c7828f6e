"""The list of events, its summary and the export (protocol.md §5, the everruns rules)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionwire_schemas.cursor import Cursor
from sessionwire_server import listing, log_scan
from sessionwire_server.limits import Scans
from sessionwire_server.metrics import Metrics
from sessionwire_server.openapi import document
from tests.server.conftest import OpenHub, check_problem, error_of

pytestmark = pytest.mark.anyio

TIMES = [f"2026-01-01T00:00:{n:02d}.500Z" for n in range(12)]


def event_id(n: int) -> str:
    return f"event_{n:032x}"


async def tell_story(client: httpx2.AsyncClient, sid: str) -> None:
    """Three turns of four events: started, two tools, completed."""
    events: list[dict[str, Any]] = []
    for turn in range(3):
        context = {"turn_id": f"turn_{turn}", "exec_id": f"exec_{turn}", "trace_id": f"t{turn}"}
        tools = [
            {
                "type": "tool.completed",
                "tags": [name, "all"],
                "data": {
                    "tool_call_id": f"{name}{turn}",
                    "tool_name": name,
                    "success": True,
                    "status": "success",
                    "result": [{"type": "text", "text": f'Said "hi" {turn} \u00c4rger'}],
                },
            }
            for name in ("bash", "view")
        ]
        data = {"turn_id": f"turn_{turn}", "input_message_id": "m"}
        first = {"type": "turn.started", "data": data}
        last = {"type": "turn.completed", "data": {"turn_id": f"turn_{turn}"}}
        events += [{**event, "context": context} for event in (first, *tools, last)]
    for n, event in enumerate(events):
        event |= {"id": event_id(n + 1), "ts": TIMES[n]}
    answer = await client.post(f"/v1/sessions/{sid}/events", json=events)
    assert answer.status_code == 200, answer.text


async def ask(client: httpx2.AsyncClient, sid: str, query: Any = "") -> Any:
    text = query if isinstance(query, str) else urlencode(query, doseq=True)
    answer = await client.get(f"/v1/sessions/{sid}/events?{text}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(page: Any) -> list[int]:
    return [event["sequence"] for event in page["data"]]


ALL = range(1, 13)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ALL),
        ({"order_desc": "true"}, range(12, 0, -1)),
        ({"order_desc": "false"}, ALL),
        ({"limit": 1000}, ALL),
        ({"limit": 3}, [10, 11, 12]),
        ({"limit": 3, "order_desc": "true"}, [12, 11, 10]),
        ({"limit": 3, "types": ["turn.started", "turn.completed"]}, [8, 9, 12]),
        ({"limit": 2, "turn_id": "turn_1"}, [7, 8]),
        ({"limit": 2, "since_id": event_id(4)}, [11, 12]),
        ({"after_sequence": 0}, ALL),
        ({"after_sequence": 4, "limit": 3}, [5, 6, 7]),
        ({"after_sequence": 4, "limit": 3, "order_desc": "true"}, [12, 11, 10]),
        ({"after_sequence": 4, "limit": 2, "tool_name": "view"}, [7, 11]),
        ({"after_sequence": 12, "limit": 3}, []),
        ({"after_sequence": 99}, []),
        ({"before_sequence": 4}, [1, 2, 3]),
        ({"before_sequence": 0}, []),
        ({"before_sequence": 99, "limit": 1}, [9, 10, 11, 12]),
        ({"before_sequence": 1, "limit": 5}, []),
        ({"before_sequence": 9, "limit": 2}, [5, 6, 7, 8]),
        ({"before_sequence": 9, "limit": 4}, [5, 6, 7, 8]),
        ({"before_sequence": 9, "limit": 5}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"before_sequence": 9, "limit": 2, "order_desc": "true"}, [8, 7]),
        ({"before_sequence": 9, "limit": 2, "turn_id": "turn_1"}, [7, 8]),
        ({"before_sequence": 9, "limit": 2, "exclude": "turn.started"}, [7, 8]),
        ({"before_sequence": 9, "limit": 2, "types": "tool.completed"}, [6, 7]),
        ({"before_sequence": 9, "limit": 2, "exclude": "turn.completed"}, [5, 6, 7]),
        ({"before_sequence": 9, "limit": 2, "since_id": event_id(6)}, [7, 8]),
        ({"before_sequence": 9, "limit": 2, "after_sequence": 2}, [3, 4]),
        ({"after_sequence": 2, "before_sequence": 6}, [3, 4, 5]),
        ({"since_id": event_id(3), "after_sequence": 5, "before_sequence": 8}, [6, 7]),
        ({"since_id": event_id(12)}, []),
        ({"around": event_id(6), "window": 1}, [5, 6, 7]),
        ({"around": event_id(1), "window": 2}, [1, 2, 3]),
        ({"around": event_id(12)}, ALL),
        ({"around": event_id(6), "limit": 1, "order_desc": "true", "window": 2}, [4, 5, 6, 7, 8]),
        ({"around": event_id(6), "types": "tool.completed", "window": 2}, [6, 7]),
        ({"around": event_id(99)}, []),
        ({"types": ["turn.started"]}, [1, 5, 9]),
        ({"types": ["turn.started", "turn.completed"], "exclude": "turn.completed"}, [1, 5, 9]),
        ({"exclude": ["tool.completed", "turn.completed"]}, [1, 5, 9]),
        ({"types": ["session.idled"]}, []),
        ({"exec_id": "exec_2"}, [9, 10, 11, 12]),
        ({"trace_id": "t0"}, [1, 2, 3, 4]),
        ({"trace_id": "t0", "exec_id": "exec_2"}, []),
        ({"tags": "bash"}, [2, 6, 10]),
        ({"tags": ["bash", "view"]}, [2, 3, 6, 7, 10, 11]),
        ({"tags": ["none"]}, []),
        ({"tool_name": "view"}, [3, 7, 11]),
        ({"q": "SAID 1"}, [6, 7]),
        ({"q": '"hi"'}, [2, 3, 6, 7, 10, 11]),
        ({"q": "\u00e4rger turn_2"}, []),
        ({"q": "\u00e4RGER", "turn_id": "turn_2"}, [10, 11]),
        ({"q": "turn_1"}, [5, 8]),
        ({"q": "nowhere"}, []),
        ({"from_ts": TIMES[10]}, [11, 12]),
        ({"to_ts": TIMES[1]}, [1, 2]),
        ({"from_ts": TIMES[3], "to_ts": TIMES[3]}, [4]),
        (
            {"from_ts": "2026-01-01T01:00:03.5+01:00", "to_ts": "2025-12-31T23:00:04.5-01:00"},
            [4, 5],
        ),
        ({"limit": "", "types": "", "q": "", "since_id": "", "order_desc": ""}, ALL),
        ({"unknown": "x"}, ALL),
    ],
    ids=str,
)
async def test_the_list_keeps_what_is_asked_for(
    client: httpx2.AsyncClient, sid: str, query: Any, expected: Any
) -> None:
    await tell_story(client, sid)
    page = await ask(client, sid, query)
    wanted = list(expected)
    assert numbers(page) == wanted
    edges = (min(wanted), max(wanted)) if wanted else (None, None)
    assert (page["first_sequence"], page["last_sequence"]) == edges
    cursor = Cursor.parse(page["cursor"])
    assert cursor.sequence == edges[1] if wanted else cursor.sequence <= 12


async def test_an_unescaped_offset_is_understood(client: httpx2.AsyncClient, sid: str) -> None:
    await tell_story(client, sid)
    page = await ask(client, sid, "from_ts=2026-01-01T01:00:10.5+01:00")
    assert numbers(page) == [11, 12]


@pytest.mark.parametrize(
    ("query", "total"),
    [
        ("limit=1", 12),
        ("limit=1&types=turn.started&turn_id=turn_1&after_sequence=3", 12),
        ("limit=1&exclude=tool.completed", 6),
        ("limit=5&exclude=tool.completed&exclude=turn.started", 3),
        ("before_sequence=3", None),
    ],
)
async def test_the_total_counts_all_but_what_is_excluded(
    client: httpx2.AsyncClient, sid: str, query: str, total: int | None
) -> None:
    await tell_story(client, sid)
    delta = {"type": "output.message.delta", "data": {"message_id": "m", "delta": "x"}}
    await client.post(f"/v1/sessions/{sid}/events", json=delta)
    answer = await client.get(f"/v1/sessions/{sid}/events?{query}")
    assert answer.headers.get("x-total-count") == (None if total is None else str(total))


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=1.5", "limit"),
        ("limit=-1", "limit"),
        ("limit=%D9%A1", "limit"),
        ("limit=1&limit=2", "limit"),
        ("before_sequence=x", "before_sequence"),
        ("before_sequence=-1", "before_sequence"),
        ("after_sequence=99999999999999999", "after_sequence"),
        ("window=5", "window"),
        ("around=a&window=0", "window"),
        ("around=a&window=501", "window"),
        ("around=a&since_id=b", "around"),
        ("around=a&after_sequence=0", "around"),
        ("around=a&before_sequence=1", "around"),
        ("from_ts=yesterday", "from_ts"),
        ("to_ts=2026-01-01", "to_ts"),
        ("to_ts=2026-01-01T00:00:00", "to_ts"),
        ("from_ts=2026-01-01T00:00:01Z&to_ts=2026-01-01T00:00:00Z", "from_ts"),
        ("order_desc=perhaps", "order_desc"),
        ("include_rewound=2", "include_rewound"),
        ("types=no.such.type", "types"),
        ("types=turn.started,turn.completed", "types"),
        ("exclude=no.such.type", "exclude"),
        ("types=" + "&types=".join(["turn.started"] * 26), "types"),
        ("tags=" + "&tags=".join("abcdefghijklmnopqrstu"), "tags"),
        (f"q={'x' * 4097}", "q"),
        (f"q={'+'.join('w' * 65)}", "q"),
        (f"turn_id={'x' * 1025}", "turn_id"),
    ],
    ids=lambda value: value[:40],
)
async def test_wrong_parameters_are_named(
    client: httpx2.AsyncClient, sid: str, query: str, parameter: str
) -> None:
    await tell_story(client, sid)
    answer = await client.get(f"/v1/sessions/{sid}/events?{query}")
    assert check_problem(answer, 400, "invalid_parameter")["parameter"] == parameter
    if not query.startswith("types=turn.started&"):
        # Parameters are checked before the session is looked up.
        answer = await client.get(f"/v1/sessions/{sid}-unknown/events?{query}")
        check_problem(answer, 400, "invalid_parameter")


@pytest.mark.parametrize("text", ["a b", "a.b.c.d", "abcdefgh.1.0.aaaaa", "é", "x" * 129])
async def test_a_malformed_cursor_is_refused(
    client: httpx2.AsyncClient, sid: str, text: str
) -> None:
    for name in (sid, "unknown"):
        answer = await client.get(f"/v1/sessions/{name}/events", params={"since_id": text})
        check_problem(answer, 400, "invalid_cursor")


async def test_an_unknown_session_is_404(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/sessions/unknown/events?types=turn.started")
    check_problem(answer, 404, "session_not_found")


async def test_a_since_id_may_be_a_cursor_or_an_ephemeral_id(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await tell_story(client, sid)
    page = await ask(client, sid, "limit=5&before_sequence=5&exclude=turn.started")
    assert numbers(await ask(client, sid, {"since_id": page["cursor"]})) == list(range(5, 13))
    data = {"message_id": "m", "delta": "x", "accumulated": "x"}
    delta = {"id": event_id(77), "type": "output.message.delta", "data": data}
    await client.post(f"/v1/sessions/{sid}/events", json=delta)
    assert numbers(await ask(client, sid, {"since_id": event_id(77)})) == []


async def test_what_cannot_be_resumed_begins_at_the_oldest_and_says_so(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await tell_story(client, sid)
    head = Cursor.parse((await ask(client, sid))["cursor"])
    for since, reason in (
        ("no-such-id", "unknown_id"),
        (f"aaaaaaaa.3.3.{head.check}", "epoch_changed"),
        (f"{head.epoch}.99.99.aaaaa", "future_cursor"),
    ):
        page = await ask(client, sid, {"since_id": since})
        assert numbers(page) == list(ALL)
        assert page["gap"]["reason"] == reason
    assert "gap" not in await ask(client, sid, {"since_id": str(head)})


async def test_paging_back_and_following_lose_and_double_nothing(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await tell_story(client, sid)
    page = await ask(client, sid, "limit=2")
    newest = page["cursor"]
    seen = numbers(page)
    while page["data"]:
        page = await ask(client, sid, f"limit=2&before_sequence={page['first_sequence']}")
        seen = numbers(page) + seen
    assert seen == list(ALL)
    assert numbers(await ask(client, sid, {"since_id": newest})) == []
    more = {"type": "turn.completed", "data": {"turn_id": "turn_9"}}
    await client.post(f"/v1/sessions/{sid}/events", json=more)
    assert numbers(await ask(client, sid, {"since_id": newest})) == [13]


async def test_an_empty_answer_under_a_filter_can_still_be_followed(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await tell_story(client, sid)
    page = await ask(client, sid, "types=session.idled")
    assert Cursor.parse(page["cursor"]).sequence == 12
    page = await ask(client, sid, "types=session.idled&before_sequence=5")
    assert Cursor.parse(page["cursor"]).sequence == 0


async def rewound_story(client: httpx2.AsyncClient, sid: str) -> list[str]:
    """Five durable events, 2 to 4 rewound by the fifth, and a sixth."""
    ids = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(6)]
    events: list[dict[str, Any]] = [
        {"id": id, "type": "session.info", "data": {"infoType": "x", "message": id}} for id in ids
    ]
    events[4]["type"] = "session.snapshot_rewind"
    events[4] |= {"ephemeral": True, "data": {"upToEventId": ids[1], "eventsRemoved": 3}}
    await client.post(f"/v1/sessions/{sid}/events", json=events)
    return ids


async def test_rewound_events_are_shown_only_where_asked_for(
    client: httpx2.AsyncClient, sid: str
) -> None:
    ids = await rewound_story(client, sid)
    shown = [ids[0], ids[4], ids[5]]
    path = f"/v1/sessions/{sid}"
    for query, expected, total in (
        ("limit=9", shown, "3"),
        ("limit=9&include_rewound=1", ids, "6"),
        ("limit=2&exclude=session.snapshot_rewind", [ids[0], ids[5]], "2"),
        ("limit=2&before_sequence=5", [ids[0]], "3"),
        ("limit=2&include_rewound=true&before_sequence=5", [ids[2], ids[3]], "6"),
    ):
        answer = await client.get(f"{path}/events?{query}")
        assert [event["id"] for event in answer.json()["data"]] == expected, query
        assert answer.headers["x-total-count"] == total
    for query, expected in (("", shown), ("?include_rewound=1", ids)):
        lines = (await client.get(f"{path}/export{query}")).text.splitlines()
        assert [json.loads(line)["id"] for line in lines] == expected
    summary = (await client.get(f"{path}/events/summary")).json()
    assert summary["total"] == 3
    answer = await client.get(f"{path}/export?include_rewound=maybe")
    check_problem(answer, 400, "invalid_parameter")


async def test_copilot_sessions_are_listed_by_the_same_rules(
    client: httpx2.AsyncClient, sid: str
) -> None:
    tool = {"toolCallId": "c", "toolName": "bash", "arguments": {"command": "ls"}}
    events: list[dict[str, Any]] = []
    for n in range(3):
        events.append({"type": "user.message", "data": {"content": f"Ask {n}"}})
        events.append({"type": "tool.execution_start", "data": tool})
        events.append({"type": "x.unknown", "data": {}})
    await client.post(f"/v1/sessions/{sid}/events", json=events)
    ids = [event["id"] for event in (await ask(client, sid))["data"]]

    async def places(query: str) -> list[int]:
        return [ids.index(event["id"]) + 1 for event in (await ask(client, sid, query))["data"]]

    assert await places("limit=1&before_sequence=7") == [4, 5, 6]
    assert await places("tool_name=bash") == [2, 5, 8]
    assert await places("q=ask+1") == [4]
    assert await places("types=x.unknown&limit=1") == [9]
    assert await places(f"around={ids[4]}&window=1") == [4, 5, 6]


async def test_text_is_found_however_it_is_spelled(client: httpx2.AsyncClient, sid: str) -> None:
    digits, deep = b"9" * 5000, b"[" * 900 + b"]" * 900
    data = b'{"s":"\\u00c4rger \\ud83d\\ude00 \\\\u0041 \\u0022x","n":1.50,"m":%b,"d":%b}' % (
        digits,
        deep,
    )
    event = b'{"type":"session.info","timestamp":"2026-01-01T00:00:00Z","data":%b}' % data
    answer = await client.post(f"/v1/sessions/{sid}/events", content=event)
    assert answer.status_code == 200, answer.text
    for word, count in (
        *(
            (word, 1)
            for word in ("\u00e4rger", "\U0001f600", "1.50", "9" * 4000, r"\u0041", '"x', "[[[")
        ),
        *((word, 0) for word in (r"\u00c4", r"\ud83d", "other")),
    ):
        path = f"/v1/sessions/{sid}/events?{urlencode({'q': word})}"
        # Not read as JSON: Python takes no number this long.
        assert (await client.get(path)).content.count(b"session.info") == count, word[:20]


async def test_times_that_utc_cannot_spell_do_not_break_the_summary(
    client: httpx2.AsyncClient, sid: str
) -> None:
    for ts in ("9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00"):
        event = {"type": "turn.started", "data": {"turn_id": "t"}, "ts": ts}
        await client.post(f"/v1/sessions/{sid}/events", json=event)
    answer = await client.get(f"/v1/sessions/{sid}/events/summary")
    assert (answer.status_code, answer.json()["total"]) == (200, 2)


async def test_the_summary_counts_by_type(client: httpx2.AsyncClient, sid: str) -> None:
    await tell_story(client, sid)
    failed = {"type": "turn.failed", "data": {"turn_id": "t", "error": "x"}, "ts": "odd"}
    await client.post(f"/v1/sessions/{sid}/events", json=[failed, {**failed, "type": "x.error"}])
    told = (await client.get(f"/v1/sessions/{sid}/events/summary")).json()
    counts = {each["event_type"]: each["count"] for each in told["by_type"]}
    assert list(counts) == sorted(counts)
    assert counts["tool.completed"] == 6
    assert (told["total"], told["turn_count"], told["error_count"]) == (14, 3, 2)
    assert told["first_ts"] == TIMES[0]
    assert told["last_ts"].endswith("Z")
    await client.post("/v1/sessions", json={"id": f"{sid}-empty"})
    told = (await client.get(f"/v1/sessions/{sid}-empty/events/summary")).json()
    assert told == {"total": 0, "by_type": [], "turn_count": 0, "error_count": 0}


async def test_long_logs_are_streamed_whole(
    client: httpx2.AsyncClient, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_scan, "PAGE_EVENTS", 7)
    monkeypatch.setattr(listing, "KEPT_BYTES", 2_000)
    data = {"infoType": "x", "message": "y" * 1_000}
    events = [{"type": "session.info", "data": data} for _ in range(250)]
    await client.post(f"/v1/sessions/{sid}/events", json=events)
    page = await ask(client, sid)
    assert len(page["data"]) == 250
    assert page["last_sequence"] == 250
    page = await ask(client, sid, "limit=100")
    assert (len(page["data"]), page["first_sequence"]) == (100, 151)
    page = await ask(client, sid, "limit=100&order_desc=true")
    assert (len(page["data"]), page["first_sequence"]) == (100, 151)
    page = await ask(client, sid, "limit=100&after_sequence=10")
    assert (len(page["data"]), page["first_sequence"]) == (100, 11)
    page = await ask(client, sid, "limit=3&before_sequence=50")
    assert (len(page["data"]), page["first_sequence"]) == (3, 47)
    lines = (await client.get(f"/v1/sessions/{sid}/export")).text.splitlines()
    assert len(lines) == 250


async def test_a_scan_without_an_end_is_stopped(
    open_hub: OpenHub, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_scan, "PAGE_EVENTS", 2)
    async with open_hub(list_scan_s=1e-6) as client:
        await tell_story(client, sid)
        path = f"/v1/sessions/{sid}"
        for read in ("/events?q=nowhere", "/events/summary", "/events?limit=9"):
            answer = await client.get(f"{path}{read}")
            check_problem(answer, 503, "query_too_broad")
            assert answer.headers["retry-after"]


async def test_too_many_scans_are_refused_and_short_reads_are_not(
    open_hub: OpenHub, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = Scans.enter

    def enter_behind_another(scans: Scans) -> None:
        enter(scans)
        enter(scans)

    async with open_hub(max_scans=1) as client:
        await tell_story(client, sid)
        monkeypatch.setattr(Scans, "enter", enter_behind_another)
        assert len((await ask(client, sid, "limit=9"))["data"]) == 9
        monkeypatch.setattr(log_scan, "PAGE_EVENTS", 2)
        answer = await client.get(f"/v1/sessions/{sid}/events?limit=9")
        check_problem(answer, 429, "busy")


async def test_places_for_scans_are_counted_and_given_back() -> None:
    metrics = Metrics()
    scans = Scans(2, metrics)
    scans.enter()
    scans.enter()
    error = error_of(scans.enter)
    assert error is not None
    assert (error.status, error.code, metrics.scans_refused) == (429, "busy", 1)
    turned = anyio.Event()

    async def wait() -> None:
        async with scans.turn():
            turned.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not turned.is_set()
        scans.leave()
        with anyio.fail_after(5):
            await turned.wait()
    scans.enter()


async def test_a_finished_request_leaves_its_place(
    open_hub: OpenHub, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_scan, "PAGE_EVENTS", 2)
    async with open_hub(max_scans=1) as client:
        await tell_story(client, sid)
        for _ in range(3):
            assert len((await ask(client, sid, "limit=9"))["data"]) == 9
            answer = await client.get(f"/v1/sessions/{sid}/events?q=x&limit=9")
            assert answer.status_code == 200
            assert (await client.get(f"/v1/sessions/{sid}/export")).status_code == 200


_LIST = document()["paths"]["/v1/sessions/{sid}/events"]["get"]
NAMES = st.sampled_from([parameter["name"] for parameter in _LIST["parameters"]])
WORDS = st.sampled_from(
    ["0", "1", "5", "true", "false", "turn.started", event_id(3), TIMES[3], "bash", '"', "\\", "%"]
)


@given(st.lists(st.tuples(NAMES, WORDS | st.text(max_size=8)), max_size=5))
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_no_query_gives_a_5xx_and_every_answer_is_a_part_of_the_log(
    client: httpx2.AsyncClient, sid: str, query: list[tuple[str, str]]
) -> None:
    await tell_story(client, sid)
    answer = await client.get(f"/v1/sessions/{sid}/events?{urlencode(query)}")
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 200:
        found = numbers(answer.json())
        assert found in (sorted(set(found)), sorted(set(found), reverse=True))
        assert set(found) <= set(ALL)
