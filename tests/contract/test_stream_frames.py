"""What stands on the wire of an event stream (protocol.md §6, response and frames)."""

from __future__ import annotations

import json
import re
import time

import anyio
import pytest

from tests.contract._requirements import proves
from tests.contract.conftest import HEARTBEAT_S
from tests.contract.events import (
    CURSOR,
    call,
    copilot,
    delta,
    events_of,
    everruns,
    is_event,
    note,
    place_of,
    publish,
    try_publish,
    turn,
)
from tests.contract.wire import EventStream, open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio

SEPARATORS = ["\x85", "\u2028", "\u2029"]
"""Line ends to a naive reader, and legal inside a JSON string."""


async def whole(stream: EventStream, last_id: str) -> None:
    """Read up to the event with this id."""
    await stream.until(lambda frame: is_event(frame) and frame.json()["id"] == last_id)


@proves("sse-headers")
async def test_stream_is_not_cached_buffered_or_compressed(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    asked = {"Accept-Encoding": "gzip, br, deflate, zstd"}
    async with open_stream(hub, f"/v1/sessions/{session}/sse", headers=asked) as stream:
        assert stream.headers["content-type"].split(";")[0] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in stream.headers
        assert (await stream.next()).event == "connected"


@proves("sse-at-once")
async def test_headers_and_connected_come_before_any_event(hub: HubProcess, session: str) -> None:
    await call(hub, "POST", "/v1/sessions", status=201, body=json.dumps({"id": session}).encode())
    began = time.monotonic()
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        frame = await stream.next()
    assert frame.event == "connected"
    assert time.monotonic() - began < HEARTBEAT_S, "it waited for the first heartbeat"


@proves("sse-lf-only", "line-breaks")
async def test_naive_line_splitters_see_the_same_lines(hub: HubProcess, session: str) -> None:
    text = "a".join(SEPARATORS) + " é 漢 🙂 \\u2028 \r\n\t end"
    event = note(text)
    body = json.dumps(event, ensure_ascii=False, indent=2).replace("\n", "\r\n").encode()
    assert (await try_publish(hub, session, body)).status == 200
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        await stream.until("caught_up")
        raw = b"".join(frame.raw for frame in stream.frames)
        got = events_of(stream.frames)
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    assert raw.decode().splitlines() == raw.decode().split("\n")[:-1]
    assert got == [event]


@proves("sse-lf-only")
async def test_stream_begins_without_byte_order_mark(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        assert (await stream.next()).raw.startswith(b"event: connected\n")


@pytest.mark.parametrize(
    "forged",
    [
        note("x", id="a\nid: 999"),
        note("x", id="a\rid: 999"),
        copilot("session.info\rid: 999"),
        copilot("session.info\nretry: 1"),
        copilot("session.info\x00"),
    ],
    ids=["lf-in-id", "cr-in-id", "cr-in-type", "lf-in-type", "nul-in-type"],
)
@proves("sse-forgery")
async def test_fields_cannot_be_forged_by_names(
    hub: HubProcess, session: str, forged: dict[str, object]
) -> None:
    answer = await try_publish(hub, session, json.dumps(forged).encode())
    assert answer.status == 422, answer
    assert answer.code in ("invalid_type", "invalid_event")
    assert (await request(hub, "GET", f"/v1/sessions/{session}")).status == 404


@proves("sse-forgery")
async def test_fields_cannot_be_forged_by_data(hub: HubProcess, session: str) -> None:
    texts = ["a\rretry: 1\nid: 9\n\nevent: connected\ndata: {}\n\n", "\r\r: x", "\x00\x0b\x0c\x1c"]
    sent = [note(text) for text in texts]
    await publish(hub, session, sent)
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        await stream.until("caught_up")
        frames = [frame for frame in stream.frames if is_event(frame)]
    assert events_of(frames) == sent
    assert [frame.event for frame in frames] == ["session.info"] * 3
    assert all(frame.retry is None and CURSOR.fullmatch(frame.id or "") for frame in frames)


@proves("connected-first", "cursor-shape")
async def test_connected_tells_where_delivery_starts(hub: HubProcess, session: str) -> None:
    verdicts = await publish(hub, session, [note(), delta("m", "x"), note()])
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        frame = await stream.next()
    said = frame.json()
    assert frame.event == "connected"
    assert frame.retry is not None
    assert 1000 <= frame.retry <= 3000
    assert frame.id == said["cursor"]
    assert place_of(frame.id)[1:] == (0, 0, "0")
    assert said["status"] == "connected"
    assert said["session_id"] == session
    assert said["epoch"] == place_of(frame.id).epoch
    assert said["head"] == verdicts[-1]["cursor"]
    assert said["gap"] is None
    assert said["pending_prompts"] == 0
    assert said["resumed"] in (True, False)


@proves("connected-first")
async def test_connected_says_resumed_only_with_a_cursor(hub: HubProcess, session: str) -> None:
    first, _ = await publish(hub, session, [note(), note()])
    async with open_stream(hub, f"/v1/sessions/{session}/sse?since_id={first['cursor']}") as stream:
        said = (await stream.next()).json()
    assert said["resumed"] is True
    assert said["cursor"] == first["cursor"]
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        assert (await stream.next()).json()["resumed"] is False


@proves("connected-first")
async def test_viewer_that_drops_before_the_first_event_can_resume(
    hub: HubProcess, session: str
) -> None:
    await call(hub, "POST", "/v1/sessions", status=201, body=json.dumps({"id": session}).encode())
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        cursor = (await stream.next()).id
    sent = [note(str(n)) for n in range(3)]
    await publish(hub, session, sent)
    resumed = {"Last-Event-ID": cursor or ""}
    async with open_stream(hub, f"/v1/sessions/{session}/sse", headers=resumed) as stream:
        assert (await stream.next()).json()["gap"] is None
        got = events_of(await stream.take(3))
    assert [event["id"] for event in got] == [event["id"] for event in sent]


@proves("event-frame")
async def test_event_frame_is_type_cursor_and_one_line(hub: HubProcess, session: str) -> None:
    event = note("multi\nline")
    verdict = (await publish(hub, session, event))[0]
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        _, frame = await stream.take(2)
    lines = frame.raw.decode().split("\n")
    assert lines[0] == "event: session.info"
    assert lines[1] == f"id: {verdict['cursor']}"
    assert lines[2].startswith("data: {")
    assert lines[3:] == ["", ""]
    assert json.loads(lines[2][6:]) == event


@proves("every-cursor", "cursor-shape", "tail-replay")
async def test_every_cursor_resumes_just_after_its_event(hub: HubProcess, session: str) -> None:
    sent = [note(), delta("m", "a"), delta("m", "b"), note(), note(), delta("n", "c"), note()]
    verdicts = await publish(hub, session, sent)
    for n, verdict in enumerate(verdicts[:-1]):
        path = f"/v1/sessions/{session}/sse?since_id={verdict['cursor']}&control=1"
        async with open_stream(hub, path) as stream:
            frames = await stream.until("caught_up")
        got = [frame for frame in frames if is_event(frame)]
        assert [event["id"] for event in events_of(got)] == [event["id"] for event in sent[n + 1 :]]
        assert [frame.id for frame in got] == [v["cursor"] for v in verdicts[n + 1 :]]


@proves("heartbeat")
async def test_silent_stream_gets_heartbeats(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        await stream.take(2)
        began = time.monotonic()
        beats = [await stream.read(timeout=HEARTBEAT_S * 3) for _ in range(2)]
    assert [beat and beat.raw for beat in beats] == [b": heartbeat\n\n"] * 2
    assert time.monotonic() - began < HEARTBEAT_S * 4


@proves("names-off")
async def test_names_off_leaves_the_event_line_out(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [note(), note()])
    async with open_stream(hub, f"/v1/sessions/{session}/sse?names=0&control=1") as stream:
        frames = await stream.until("caught_up")
    assert frames[0].event == "connected"
    assert [frame.event for frame in frames if is_event(frame)] == [None, None]
    assert all(event["type"] == "session.info" for event in events_of(frames))


@proves("retry-jitter")
async def test_reconnection_times_differ(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    seen: set[int] = set()
    for _ in range(16):
        async with open_stream(hub, f"/v1/sessions/{session}/sse?from=now") as stream:
            seen.add((await stream.next()).retry or 0)
    assert all(1000 <= value <= 3000 for value in seen)
    assert len(seen) > 4


@proves("everruns-plain", "sequence-is-ours", "ephemeral-rule")
async def test_everruns_stream_is_that_of_its_own_server(hub: HubProcess, session: str) -> None:
    piece = {"turn_id": "turn_1", "message_id": "m", "delta": "a", "accumulated": "a"}
    sent = [turn(1), everruns("output.message.delta", piece), turn(2)]
    await publish(hub, session, sent)
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        connected, *frames = await stream.take(4)
    assert connected.id is not None, "a viewer that drops now must have a cursor"
    assert [frame.event for frame in frames] == [event["type"] for event in sent]
    assert [frame.id for frame in frames] == [sent[0]["id"], None, sent[2]["id"]]
    first, passing, second = events_of(frames)
    assert (first["sequence"], second["sequence"]) == (1, 2)
    assert "sequence" not in passing


@proves("everruns-plain")
async def test_everruns_stream_with_control_has_cursors(hub: HubProcess, session: str) -> None:
    piece = {"turn_id": "turn_1", "message_id": "m", "delta": "a", "accumulated": "a"}
    await publish(hub, session, [turn(1), everruns("output.message.delta", piece)])
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up")
    assert all(CURSOR.fullmatch(frame.id or "") for frame in frames if is_event(frame))


@proves("everruns-plain-strict")
async def test_no_foreign_frame_without_control(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [turn(n) for n in range(1, 4)])
    path = f"/v1/sessions/{session}/sse?since_id=event_{'0' * 32}"
    async with open_stream(hub, path) as stream:
        frames = await stream.take(4)
        assert await stream.silent(HEARTBEAT_S * 1.5)
        comments = [line for frame in stream.frames for line in frame.comments]
    assert [frame.event for frame in frames] == ["connected"] + ["turn.started"] * 3
    assert frames[0].json()["gap"]["reason"] == "unknown_id"
    assert any("gap" in line for line in comments)


@proves("head-request")
async def test_head_gives_headers_without_a_stream(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    for path in (f"/v1/sessions/{session}/sse", "/v1/sessions/sse"):
        answer = await request(hub, "HEAD", path)
        assert answer.status == 200
        assert answer.headers["content-type"].split(";")[0] == "text/event-stream"
        assert answer.body == b""
    assert hub.get("/livez")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@proves("wrong-method")
async def test_stream_takes_no_other_method(hub: HubProcess, session: str, method: str) -> None:
    await publish(hub, session, note())
    answer = await request(hub, method, f"/v1/sessions/{session}/sse", body=b"{}")
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]


@proves("order")
async def test_replay_comes_before_live_and_nothing_twice(hub: HubProcess, session: str) -> None:
    before = [note(str(n)) for n in range(40)]
    after = [note(str(n)) for n in range(40)]
    await publish(hub, session, before)
    async with open_stream(hub, f"/v1/sessions/{session}/sse") as stream:
        for event in after:
            await publish(hub, session, event)
        await whole(stream, after[-1]["id"])
        got = [event["id"] for event in events_of(stream.frames)]
    assert got == [event["id"] for event in before + after]


@proves("caught-up")
async def test_caught_up_comes_once_between_replay_and_live(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [note() for _ in range(20)])
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up")
        assert len(events_of(frames)) == 20
        last = [frame for frame in frames if is_event(frame)][-1]
        assert frames[-1].json()["cursor"] == frames[-1].id == last.id
        live = [note() for _ in range(5)]
        await publish(hub, session, live)
        await whole(stream, live[-1]["id"])
        names = [frame.event for frame in stream.frames]
    assert names.count("caught_up") == 1
    assert names.count("connected") == 1


@proves("snapshot")
async def test_snapshot_brings_last_values_that_replay_does_not(
    hub: HubProcess, session: str
) -> None:
    titles = [copilot("session.title_changed", {"title": t}, ephemeral=True) for t in ("a", "b")]
    usage = copilot("session.usage_info", {"tokenLimit": 9, "currentTokens": 1}, ephemeral=True)
    await publish(hub, session, [*titles, usage, note()])
    async with open_stream(hub, f"/v1/sessions/{session}/sse?from=now&control=1") as stream:
        frames = await stream.until("caught_up")
        assert await stream.silent(0.3)
    snapshots = [frame.json()["events"] for frame in frames if frame.event == "snapshot"]
    assert len(snapshots) == 1
    assert [event["id"] for event in snapshots[0]] == [titles[1]["id"], usage["id"]]
    async with open_stream(hub, f"/v1/sessions/{session}/sse?from=start&control=1") as stream:
        frames = await stream.until("caught_up")
    brought = [
        event for frame in frames if frame.event == "snapshot" for event in frame.json()["events"]
    ]
    assert brought == [], "replay inside the tail brings them all"


async def test_ids_are_safe_for_any_header(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [note(), delta("m", "x")])
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up")
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", frame.id) for frame in frames if frame.id)


@proves("numbers-dense")
async def test_numbers_have_no_holes_with_many_publishers(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    async def publish_some(server: HubProcess) -> None:
        for n in range(20):
            await publish(server, session, [note(), delta(f"m{n}", "x")])

    async with anyio.create_task_group() as group:
        for server in (hub, other_hub) * 4:
            group.start_soon(publish_some, server)
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = [f for f in await stream.until("caught_up") if is_event(f)]
    places = [place_of(frame.id) for frame in frames]
    assert [place.offset for place in places] == list(range(1, 321))
    durable = [p.sequence for p, f in zip(places, frames, strict=True) if f.event == "session.info"]
    assert durable == list(range(1, 161))
