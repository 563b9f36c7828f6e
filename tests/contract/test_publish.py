"""Publishing: forms, bounds, and refusals that leave nothing behind (protocol.md §4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import CURSOR, call, note, publish, try_publish, turn
from tests.contract.wire import Answer, Connection, request
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio

PROBLEM = {"type", "title", "status", "detail", "code", "error"}


def check_problem(answer: Answer, status: int, code: str | None = None) -> Any:
    """Both vocabularies in one body; the body."""
    assert answer.status == status, answer
    assert answer.headers["content-type"].split(";")[0] == "application/problem+json"
    body = answer.json()
    assert body.keys() >= PROBLEM
    assert body["status"] == status
    assert body["code"] == body["error"]["code"]
    assert body["error"]["message"]
    assert code is None or body["code"] == code, body
    return body


async def stored(hub: HubProcess, session: str) -> list[str]:
    """Ids of what a session holds; empty where there is none."""
    answer = await request(hub, "GET", f"/v1/sessions/{session}/events")
    return [event["id"] for event in answer.json()["data"]] if answer.status == 200 else []


async def upload(hub: HubProcess, session: str, lines: list[bytes]) -> Answer:
    headers = {"Content-Type": "application/x-ndjson"}
    path = f"/v1/sessions/{session}/events"
    return await request(hub, "POST", path, headers=headers, body=b"\n".join(lines) + b"\n")


@proves("publish-forms", "publish-creates", "two-prefixes")
async def test_one_event_an_array_and_lines_are_taken(hub: HubProcess, session: str) -> None:
    one, two, three, four, five = (note(str(n)) for n in range(5))
    told = await publish(hub, session, one)
    assert told[0].keys() >= {"id", "cursor", "sequence", "duplicate"}
    assert CURSOR.fullmatch(told[0]["cursor"])
    await publish(hub, session, [two])
    body = json.dumps(three).encode()
    await call(hub, "POST", f"/api/v1/sessions/{session}/events", body=body)
    lines = [json.dumps(event).encode() for event in (four, five)]
    said = (await upload(hub, session, [lines[0], b"", lines[1]])).json()
    assert (said["stored"], said["duplicates"]) == (2, 0)
    assert (said["first_sequence"], said["last_sequence"]) == (4, 5)
    assert CURSOR.fullmatch(said["cursor"])
    assert await stored(hub, session) == [e["id"] for e in (one, two, three, four, five)]


@proves("publish-creates")
async def test_nothing_is_made_by_an_empty_array(hub: HubProcess, session: str) -> None:
    answer = await try_publish(hub, session, b"[]")
    assert answer.status in (200, 400, 422)
    if answer.status == 200:
        assert answer.json()["data"] == []
    else:
        check_problem(answer, answer.status)


@proves("publish-creates")
async def test_unknown_session_is_made_only_where_allowed(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"create_on_publish": "false"}) as hub:
        answer = await try_publish(hub, session, json.dumps(note()).encode())
        check_problem(answer, 404, "session_not_found")
        assert (await request(hub, "GET", f"/v1/sessions/{session}")).status == 404


@pytest.mark.parametrize("path", ["", "/events", "/events/summary", "/export", "/sse"])
@proves("publish-creates", "problem-body")
async def test_reading_an_unknown_session_is_404(hub: HubProcess, session: str, path: str) -> None:
    answer = await request(hub, "GET", f"/v1/sessions/{session}{path}")
    check_problem(answer, 404, "session_not_found")


MALFORMED = [
    b"",
    b"{",
    b'{"type": "session.info"',
    b"nonsense",
    b"\xff\xfe{}",
    b'{"type": "session.info", "data": {"x": "\xff"}}',
    b"NaN",
    b'{"type": "session.info", "data": {"n": NaN}}',
    b'{"type": "session.info", "data": {}} trailing',
    b'[{"type": "session.info", "data": {}},]',
    b'{"type": "session.info", "data": {"a": "\x01"}}',
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: repr(body[:40]))
@proves("publish-place", "problem-body", "publish-atomic")
async def test_malformed_json_names_the_place(hub: HubProcess, session: str, body: bytes) -> None:
    answer = await try_publish(hub, session, body)
    said = check_problem(answer, 400)
    assert said["code"] in ("invalid_json", "malformed_json")
    assert isinstance(said.get("offset"), int), said
    assert await stored(hub, session) == []


WRONG_SHAPE: dict[str, Any] = {
    "number": 7,
    "string": "x",
    "null": None,
    "true": True,
    "number-in-array": [7],
    "array-in-array": [[note()]],
    "data-array": {"type": "session.info", "data": []},
    "data-null": {"type": "session.info", "data": None},
    "no-type": {"data": {}},
    "parent-number": {**note(), "parentId": 7},
    "timestamp-number": {**note(), "timestamp": 7},
    "ephemeral-string": {**note(), "ephemeral": "yes"},
    "agent-number": {**note(), "agentId": 7},
    "context-null": {**turn(), "context": None},
    "ts-number": {**turn(), "ts": 1},
}


@pytest.mark.parametrize("shape", WRONG_SHAPE.values(), ids=WRONG_SHAPE.keys())
@proves("publish-place", "publish-atomic")
async def test_wrong_shapes_are_refused(hub: HubProcess, session: str, shape: Any) -> None:
    answer = await try_publish(hub, session, json.dumps(shape).encode())
    assert answer.status in (400, 422), answer
    check_problem(answer, answer.status)
    assert await stored(hub, session) == []


@proves("publish-place", "publish-atomic")
async def test_one_bad_event_refuses_the_whole_batch(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    before = await stored(hub, session)
    batch = [note(), note(), {**note(), "type": "bad type"}, note()]
    answer = await try_publish(hub, session, json.dumps(batch).encode())
    assert check_problem(answer, 422, "invalid_type")["index"] == 2
    assert await stored(hub, session) == before


@proves("publish-bounds")
async def test_more_than_256_events_are_refused(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [note() for _ in range(256)])
    answer = await try_publish(hub, session, json.dumps([note() for _ in range(257)]).encode())
    assert answer.status in (400, 413, 422), answer
    check_problem(answer, answer.status)
    assert len(await stored(hub, session)) == 256


@proves("publish-bounds", "publish-atomic")
async def test_oversize_event_names_its_index(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"max_event_bytes": 4096, "max_batch_bytes": 65536}) as hub:
        batch = [note(), note("x" * 5000), note()]
        answer = await try_publish(hub, session, json.dumps(batch).encode())
        said = check_problem(answer, 413)
        assert said["index"] == 1
        answer = await try_publish(hub, session, json.dumps([note("y" * 3000)] * 30).encode())
        check_problem(answer, 413)
        lines = [json.dumps(note()).encode(), json.dumps(note("z" * 5000)).encode()]
        said = check_problem(await upload(hub, session, lines), 413)
        assert said["line"] == 2
        assert await stored(hub, session) in ([], [json.loads(lines[0])["id"]])
        await publish(hub, session, note("fits"))


@proves("publish-bounds")
async def test_oversize_body_is_refused_before_it_is_sent(hub: HubProcess, session: str) -> None:
    """By its announced length, or once too much of a chunked one has come."""
    path = f"/v1/sessions/{session}/events"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {hub.host}\r\nAuthorization: Bearer {hub.key}\r\n"
        "Content-Type: application/json\r\n"
    )
    async with Connection(hub) as connection:
        reader = await connection.send(f"{head}Content-Length: {2**33}\r\n\r\n[".encode())
        assert b" 413 " in await reader.readline()


@proves("publish-forms", "publish-place", "ndjson-resend")
async def test_broken_upload_tells_the_line_and_can_be_sent_again(
    hub: HubProcess, session: str
) -> None:
    events = [note(str(n)) for n in range(600)]
    lines = [json.dumps(event).encode() for event in events]
    broken = [*lines[:400], b'{"type": "session.info", "data"', *lines[401:]]
    said = check_problem(await upload(hub, session, broken), 400)
    assert said["line"] == 401
    kept = await stored(hub, session)
    assert said["stored"] == len(kept)
    assert kept == [event["id"] for event in events[: len(kept)]]
    answer = await upload(hub, session, lines)
    assert answer.status == 200, answer
    again = answer.json()
    assert again["stored"] + again["duplicates"] == 600
    assert again["duplicates"] == len(kept)
    assert again["last_sequence"] == 600
    assert await stored(hub, session) == [event["id"] for event in events]


@proves("session-id-shape")
@pytest.mark.parametrize("bad", ["a.b", "a%20b", "%2F", "%C3%A9", "a" * 129, "sse", "%00"])
async def test_malformed_session_ids_are_refused(hub: HubProcess, bad: str) -> None:
    body = json.dumps(note()).encode()
    path = f"/v1/sessions/{bad}/events"
    answer = await request(hub, "POST", path, body=body)
    assert 400 <= answer.status < 500, answer
    check_problem(answer, answer.status)


@proves("problem-body")
async def test_unknown_routes_have_the_same_body(hub: HubProcess) -> None:
    check_problem(await request(hub, "GET", "/v1/nothing"), 404)
    check_problem(await request(hub, "PUT", "/v1/sessions", body=b"{}"), 405)


@proves("publish-forms")
async def test_body_type_must_be_known(hub: HubProcess, session: str) -> None:
    path = f"/v1/sessions/{session}/events"
    headers = {"Content-Type": "text/csv"}
    answer = await request(hub, "POST", path, headers=headers, body=b"a,b")
    assert answer.status in (400, 415), answer
    check_problem(answer, answer.status)
    assert await stored(hub, session) == []


async def test_large_event_survives(hub: HubProcess, session: str) -> None:
    """Bigger than a live message, a tail entry and a page."""
    event = turn(1, metadata={"blob": "é" * 1_000_000})
    await publish(hub, session, event)
    listed = await call(hub, "GET", f"/v1/sessions/{session}/events")
    assert listed["data"] == [{**event, "sequence": 1}]
