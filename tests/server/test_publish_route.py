"""POST events: bodies, uploads of lines, catalogs, refusals that store nothing (protocol.md §4)."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionwire_schemas.cursor import Cursor
from sessionwire_server import bodies
from sessionwire_server.ndjson import Lines
from tests.server.conftest import OpenHub, check_problem, error_of

pytestmark = pytest.mark.anyio

LINES = {"Content-Type": "application/x-ndjson"}


def note(text: str = "x") -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "type": "session.info",
        "data": {"infoType": "note", "message": text},
    }


def lines_of(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


async def stored(client: httpx2.AsyncClient, sid: str) -> list[Any]:
    answer = await client.get(f"/v1/sessions/{sid}/events")
    if answer.status_code == 404:
        return []
    return [event["data"]["message"] for event in answer.json()["data"]]


async def test_verdicts_come_in_order_with_cursors(client: httpx2.AsyncClient, sid: str) -> None:
    first, second = note(), note()
    data = {"messageId": "m", "deltaContent": "x"}
    delta = {"type": "assistant.message_delta", "ephemeral": True, "data": data}
    path = f"/v1/sessions/{sid}/events"
    answer = await client.post(path, json=[first, delta, second, first])
    told = answer.json()["data"]
    assert [each["sequence"] for each in told] == [1, None, 2, 1]
    assert [each["duplicate"] for each in told] == [False, False, False, True]
    assert told[0]["cursor"] == told[3]["cursor"]
    places = [Cursor.parse(each["cursor"]) for each in told[:3]]
    assert [(place.sequence, place.offset) for place in places] == [(1, 1), (1, 2), (2, 3)]
    again = (await client.post(path, json=second)).json()["data"]
    assert again == [{**told[2], "duplicate": True}]


@pytest.mark.parametrize(
    "media", ["application/json; charset=utf-8", "application/cloudevents+json", "APPLICATION/JSON"]
)
async def test_json_by_any_of_its_names_is_taken(
    client: httpx2.AsyncClient, sid: str, media: str
) -> None:
    headers = {"Content-Type": media}
    body = json.dumps(note())
    answer = await client.post(f"/v1/sessions/{sid}/events", content=body, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "media",
    ["text/csv", "text/plain", "multipart/form-data", "application/json; charset=utf-16"],
)
async def test_other_bodies_are_refused(client: httpx2.AsyncClient, sid: str, media: str) -> None:
    headers = {"Content-Type": media}
    body = json.dumps(note())
    answer = await client.post(f"/v1/sessions/{sid}/events", content=body, headers=headers)
    check_problem(answer, 415, "unsupported_media_type")
    assert await stored(client, sid) == []


async def test_a_body_is_refused_as_soon_as_it_is_too_large(open_hub: OpenHub, sid: str) -> None:
    asked = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield b" " * 1024

    path = f"/v1/sessions/{sid}/events"
    async with open_hub(max_batch_bytes=4096, max_event_bytes=2048) as client:
        answer = await client.post(path, content=endless())
        check_problem(answer, 413, "batch_too_large")
        assert asked <= 6
        body = check_problem(await client.post(path, content=b"[" * 5000), 413, "batch_too_large")
        assert body["limit"] == 4096
        answer = await client.post(path, content=endless(), headers=LINES)
        assert check_problem(answer, 413, "event_too_large")["line"] == 1
        assert await stored(client, sid) == []


async def test_a_refused_batch_leaves_nothing(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/v1/sessions/{sid}/events"
    batch = [note(), {**note(), "type": "no good"}, note()]
    body = check_problem(await client.post(path, json=batch), 422, "invalid_type")
    assert (body["index"], body["pointer"]) == (1, "/type")
    body = check_problem(
        await client.post(path, content=b'[{"a": 1}, {"b"]'), 400, "malformed_json"
    )
    assert (body["index"], body["offset"]) == (1, 15)
    check_problem(await client.get(path), 404, "session_not_found")


async def test_a_session_keeps_its_catalog(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/v1/sessions/{sid}/events"
    turn = {"type": "turn.started", "ts": "2026-01-01T00:00:00.000Z", "data": {"turn_id": "t"}}
    bare: dict[str, Any] = {"type": "x.unknown", "data": {}}
    check_problem(await client.post(path, json=bare), 422, "catalog_unknown")
    assert (await client.post(path, json=turn)).status_code == 200
    body = check_problem(await client.post(path, json=[note(), turn]), 409, "catalog_mismatch")
    assert body["catalog"] == "everruns"
    assert body["index"] == 0
    answer = await client.post(path, json=bare)
    assert answer.json()["data"][0]["id"].startswith("event_")


async def test_a_session_of_another_hub_tells_its_catalog(open_hub: OpenHub, sid: str) -> None:
    path = f"/v1/sessions/{sid}/events"
    bare = {"type": "x.unknown", "data": {"message": "m"}}
    async with open_hub() as first, open_hub() as second:
        await first.post("/v1/sessions", json={"id": sid, "catalog": "copilot"})
        assert (await second.post(path, json=bare)).status_code == 200
        turn = {"type": "turn.started", "data": {"turn_id": "t"}}
        for client in (first, second):
            check_problem(await client.post(path, json=turn), 409, "catalog_mismatch")
        # Deleted and begun anew with the other catalog: what a hub remembers is stale then.
        await first.delete(f"/v1/sessions/{sid}")
        check_problem(await second.post(path, json=note()), 410, "session_deleted")
        await first.post("/v1/sessions", json={"id": sid, "catalog": "everruns"})
        for client in (second, first):
            assert (await client.post(path, json=turn)).status_code == 200
            assert (await client.post(path, json=bare)).status_code == 200


async def test_unknown_sessions_are_made_only_where_allowed(open_hub: OpenHub, sid: str) -> None:
    path = f"/v1/sessions/{sid}/events"
    async with open_hub(create_on_publish=False) as client:
        check_problem(await client.post(path, json=note()), 404, "session_not_found")
        answer = await client.post(path, content=lines_of([note()]), headers=LINES)
        check_problem(answer, 404, "session_not_found")
        await client.post("/v1/sessions", json={"id": sid})
        assert (await client.post(path, json=note())).status_code == 200


async def test_lines_are_stored_and_counted(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/v1/sessions/{sid}/events"
    events = [note(str(n)) for n in range(600)]
    body = b"\n \r\n" + lines_of(events[:300]).replace(b"\n", b"\r\n") + lines_of(events[300:])
    told = (await client.post(path, content=body.rstrip(b"\n"), headers=LINES)).json()
    assert (told["stored"], told["duplicates"]) == (600, 0)
    assert (told["first_sequence"], told["last_sequence"]) == (1, 600)
    assert Cursor.parse(told["cursor"]).sequence == 600
    again = (await client.post(path, content=body, headers=LINES)).json()
    assert again == {**told, "stored": 0, "duplicates": 600}
    assert await stored(client, sid) == [str(n) for n in range(600)]


async def test_no_lines_store_nothing(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/v1/sessions/{sid}/events"
    for body in (b"", b"\n\n \r\n"):
        told = (await client.post(path, content=body, headers=LINES)).json()
        assert told == {
            "stored": 0,
            "duplicates": 0,
            "first_sequence": None,
            "last_sequence": None,
            "cursor": None,
        }
    check_problem(await client.get(path), 404, "session_not_found")


@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        (b'{"type": "session.info", "data"', 400, "malformed_json"),
        (b'{"type": "session.info", "data": {"x": "\xff"}}', 400, "malformed_json"),
        (b'[{"type": "session.info", "data": {}}]', 422, "invalid_event"),
        (b'{"type": "connected", "data": {}}', 422, "reserved_type"),
        (b'{"type": "session.info", "ts": "x", "data": {}}', 409, "catalog_mismatch"),
        (b'{"type": "x.y", "data": {"x": "%s"}}' % (b"y" * 2048), 413, "event_too_large"),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("before", [0, 1, 300])
async def test_a_fault_names_its_line_and_what_is_stored_before_it(
    open_hub: OpenHub, sid: str, before: int, bad: bytes, status: int, code: str
) -> None:
    events = [note(str(n)) for n in range(before)]
    path = f"/v1/sessions/{sid}/events"
    async with open_hub(max_event_bytes=2048) as client:
        await client.post("/v1/sessions", json={"id": sid, "catalog": "copilot"})
        body = lines_of(events) + b"\n" + bad + b"\n" + lines_of([note("after")])
        told = check_problem(await client.post(path, content=body, headers=LINES), status, code)
        assert told["line"] == before + 2
        assert (told["stored"], told["duplicates"]) == (before, 0)
        assert told["last_sequence"] == (before or None)
        assert await stored(client, sid) == [str(n) for n in range(before)]
        repaired = lines_of(events) + lines_of([note("repaired")])
        told = (await client.post(path, content=repaired, headers=LINES)).json()
        assert (told["stored"], told["duplicates"]) == (1, before)


async def test_lines_are_live_while_the_upload_goes_on(
    client: httpx2.AsyncClient, sid: str
) -> None:
    seen = anyio.Event()

    async def slowly() -> AsyncGenerator[bytes]:
        yield lines_of([note("one")]) + b'{"type": "session.info", '
        with anyio.fail_after(10):
            await seen.wait()
        yield b'"data": {"message": "two"}}'

    async def upload() -> None:
        answer = await client.post(f"/v1/sessions/{sid}/events", content=slowly(), headers=LINES)
        assert answer.json()["stored"] == 2

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(upload)
        with anyio.fail_after(10):
            while await stored(client, sid) != ["one"]:
                await anyio.lowlevel.checkpoint()
        seen.set()
    assert await stored(client, sid) == ["one", "two"]


def _chunked(body: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        yield body[start:end]


@given(
    st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=8),
    st.lists(st.integers(0, 200), max_size=8),
    st.booleans(),
)
def test_lines_do_not_depend_on_how_they_are_chunked(
    texts: list[bytes], cuts: list[int], ends: bool
) -> None:
    body = b"\n".join(texts) + (b"\n" if ends else b"")
    lines = Lines(1_000)
    found: list[tuple[int, bytes]] = []
    for chunk in _chunked(body, cuts):
        found += [(lines.number, line) for line in lines.feed(chunk)]
    found += [(lines.number, line) for line in lines.end()]
    expected = enumerate((text.strip(b" \t\r") for text in texts), 1)
    assert found == [(number, text) for number, text in expected if text]


def test_a_line_without_end_is_refused_at_the_limit() -> None:
    lines = Lines(10)
    assert list(lines.feed(b"one\n12345")) == [b"one"]
    assert list(lines.feed(b"67890")) == []
    error = error_of(lambda: list(lines.feed(b"x")))
    assert error is not None
    assert (error.code, lines.number) == ("event_too_large", 2)


@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/x-ndjson"]))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_no_body_gives_a_5xx(
    client: httpx2.AsyncClient, sid: str, body: bytes, media: str
) -> None:
    path = f"/v1/sessions/{sid}/events"
    answer = await client.post(path, content=body, headers={"Content-Type": media})
    assert answer.status_code < 500, answer.text


async def test_a_client_that_stops_sending_is_not_waited_for(
    open_hub: OpenHub, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "PAUSE_S", 0.05)

    async def stuck() -> AsyncGenerator[bytes]:
        yield b"[{"
        await anyio.sleep_forever()

    async with open_hub() as client:
        answer = await client.post(f"/v1/sessions/{sid}/events", content=stuck())
        check_problem(answer, 408, "request_timeout")
        check_problem(await client.get(f"/v1/sessions/{sid}"), 404, "session_not_found")
