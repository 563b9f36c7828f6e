"""Where a stream starts: cursors and their spellings, ids, numbers, `from` (protocol.md §6)."""

from __future__ import annotations

import random
import time
from urllib.parse import quote, urlencode

import pytest

from tests.contract._requirements import proves
from tests.contract.events import (
    delta,
    event_id,
    events_of,
    everruns,
    note,
    place_of,
    publish,
    turn,
)
from tests.contract.wire import Frame, open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


async def replay(
    hub: HubProcess,
    session: str,
    query: dict[str, str],
    headers: dict[str, str | bytes] | None = None,
) -> tuple[Frame, list[str]]:
    """Open with `control=1`; the connected frame and the ids replayed."""
    path = f"/v1/sessions/{session}/sse?{urlencode({'control': '1', **query})}"
    async with open_stream(hub, path, headers=headers) as stream:
        frames = await stream.until("caught_up")
    return frames[0], [event["id"] for event in events_of(frames)]


async def five(hub: HubProcess, session: str) -> tuple[list[str], list[str]]:
    """Publish five durable events; their ids and cursors."""
    verdicts = await publish(hub, session, [note(str(n)) for n in range(5)])
    return [v["id"] for v in verdicts], [v["cursor"] for v in verdicts]


@pytest.mark.parametrize(
    ("headers", "query", "wins"),
    [
        ({"Last-Event-ID": 3}, {"lastEventId": 1, "since_id": 0}, 3),
        ({}, {"lastEventId": 3, "last_event_id": 1, "since_id": 0}, 3),
        ({}, {"last_event_id": 3, "since_id": 0}, 3),
        ({}, {"since_id": 3}, 3),
        ({"Last-Event-ID": None}, {"since_id": 3}, 3),
        ({"Last-Event-ID": None}, {"lastEventId": None, "last_event_id": 3}, 3),
    ],
    ids=["header", "camel-query", "snake-query", "since", "empty-header", "empty-query"],
)
@proves("cursor-choice")
async def test_first_spelling_that_is_not_empty_counts(
    hub: HubProcess,
    session: str,
    headers: dict[str, int | None],
    query: dict[str, int | None],
    wins: int,
) -> None:
    ids, cursors = await five(hub, session)

    def spelled(given: dict[str, int | None]) -> dict[str, str]:
        return {name: "" if n is None else cursors[n] for name, n in given.items()}

    connected, got = await replay(hub, session, spelled(query), {**spelled(headers)})
    assert connected.json()["cursor"] == cursors[wins]
    assert got == ids[wins + 1 :]


@proves("cursor-choice")
async def test_last_event_id_beats_from(hub: HubProcess, session: str) -> None:
    """A browser repeats its URL, `from` with it, when it reconnects."""
    ids, cursors = await five(hub, session)
    for start in ("start", "now", "-1"):
        _, got = await replay(hub, session, {"from": start}, {"Last-Event-ID": cursors[1]})
        assert got == ids[2:]


@proves("cursor-conflict")
async def test_since_id_and_after_sequence_exclude_each_other(
    hub: HubProcess, session: str
) -> None:
    _, cursors = await five(hub, session)
    path = f"/v1/sessions/{session}/sse?since_id={cursors[0]}&after_sequence=1"
    answer = await request(hub, "GET", path)
    assert (answer.status, answer.code) == (400, "cursor_conflict")


@proves("after-sequence")
async def test_after_sequence_starts_after_that_event(hub: HubProcess, session: str) -> None:
    ids, cursors = await five(hub, session)
    for n in range(6):
        connected, got = await replay(hub, session, {"after_sequence": str(n)})
        assert got == ids[n:], n
        assert connected.json()["gap"] is None
        assert n == 0 or connected.json()["cursor"] == cursors[n - 1]


@pytest.mark.parametrize("bad", ["-1", "1.5", "x", "99999999999999999999", "0x1", "1e3"])
@proves("after-sequence", "cursor-malformed")
async def test_after_sequence_must_be_a_number(hub: HubProcess, session: str, bad: str) -> None:
    await five(hub, session)
    answer = await request(hub, "GET", f"/v1/sessions/{session}/sse?after_sequence={quote(bad)}")
    assert answer.status == 400, answer
    assert answer.code


@pytest.mark.parametrize(
    ("start", "first"), [("start", 0), ("now", 5), ("-2", 3), ("-5", 0), ("-99", 0)]
)
@proves("from")
async def test_from_chooses_the_start(
    hub: HubProcess, session: str, start: str, first: int
) -> None:
    ids, _ = await five(hub, session)
    connected, got = await replay(hub, session, {"from": start})
    assert got == ids[first:]
    assert connected.json()["gap"] is None
    assert place_of(connected.id).sequence == first


@proves("from")
async def test_from_counts_durable_events_only(hub: HubProcess, session: str) -> None:
    sent = [note(), note(), delta("m", "a"), note(), delta("m", "b")]
    await publish(hub, session, sent)
    _, got = await replay(hub, session, {"from": "-2"})
    assert [id for id in got if id in {sent[1]["id"], sent[3]["id"]}] == [
        sent[1]["id"],
        sent[3]["id"],
    ]
    assert sent[0]["id"] not in got


@pytest.mark.parametrize("bad", ["then", "-", "--1", "-x", "1", "-0.5"])
@proves("from")
async def test_from_takes_nothing_else(hub: HubProcess, session: str, bad: str) -> None:
    await five(hub, session)
    answer = await request(hub, "GET", f"/v1/sessions/{session}/sse?from={quote(bad)}")
    assert answer.status == 400, answer
    assert answer.code


@proves("since-event-id")
async def test_since_id_takes_ids_of_both_kinds(hub: HubProcess, session: str) -> None:
    piece = {"turn_id": "t", "message_id": "m", "delta": "a", "accumulated": "a"}
    sent = [turn(1), everruns("output.message.delta", piece), turn(2), turn(3)]
    ids = [event["id"] for event in sent]
    await publish(hub, session, sent)
    for n, id in enumerate(ids):
        connected, got = await replay(hub, session, {"since_id": id})
        assert connected.json()["gap"] is None
        assert got == ids[n + 1 :]


@proves("since-event-id")
async def test_ids_are_looked_up_and_not_compared(hub: HubProcess, session: str) -> None:
    """Ids of several writers in one millisecond are in no order."""
    ids = sorted((event_id() for _ in range(6)), reverse=True)
    await publish(hub, session, [turn(n, id=id) for n, id in enumerate(ids)])
    for n, id in enumerate(ids):
        _, got = await replay(hub, session, {"since_id": id})
        assert got == ids[n + 1 :]


@proves("since-time")
async def test_unknown_id_of_this_moment_resumes_by_its_time(hub: HubProcess, session: str) -> None:
    ids = [verdict["id"] for verdict in await publish(hub, session, [turn(1), turn(2)])]
    connected, got = await replay(hub, session, {"since_id": event_id()})
    assert connected.json()["gap"] is None
    assert got == ids, "received within 5 s of the id's time: repeated rather than lost"


@pytest.mark.parametrize("years", [-20, 20])
@proves("since-time", "gap-unknown")
async def test_unknown_id_of_another_time_is_a_gap(
    hub: HubProcess, session: str, years: int
) -> None:
    ids = [verdict["id"] for verdict in await publish(hub, session, [turn(1), turn(2)])]
    stamp = int((time.time() + years * 31_557_600) * 1000)
    connected, got = await replay(hub, session, {"since_id": f"event_{stamp:012x}70008{'0' * 15}"})
    assert connected.json()["gap"]["reason"] == "unknown_id"
    assert got == ids


@proves("two-hubs")
async def test_cursor_of_one_hub_resumes_at_another(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    ids, cursors = await five(hub, session)
    async with open_stream(other_hub, f"/v1/sessions/{session}/sse?since_id={cursors[1]}") as far:
        assert (await far.next()).json()["gap"] is None
        assert [event["id"] for event in events_of(await far.take(3))] == ids[2:]
        late = (await publish(hub, session, note()))[0]
        assert (await far.next()).id == late["cursor"]


@proves("order", "every-cursor")
async def test_going_away_twice_repeats_nothing(hub: HubProcess, session: str) -> None:
    ids, cursors = await five(hub, session)
    connected, got = await replay(hub, session, {"since_id": cursors[2]})
    assert got == ids[3:]
    for _ in range(2):
        connected, got = await replay(hub, session, {"since_id": cursors[4]})
        assert got == []
        assert connected.json()["gap"] is None
        assert connected.json()["resumed"] is True


async def test_unknown_session_is_not_found(hub: HubProcess, session: str) -> None:
    answer = await request(hub, "GET", f"/v1/sessions/{session}/sse")
    assert (answer.status, answer.code) == (404, "session_not_found")


HOSTILE: list[bytes] = [
    *(b"null undefined -1 0 NaN 1.5 18446744073709551616 -9223372036854775808 $ * + - 0-0".split()),
    *(b"1526919030474-55 event_ session_ ../../etc {} [] <script> %00 %ff %0d%0a".split()),
    *(b"abcdefgh abcdefgh.1 abcdefgh.1.1 abcdefgh.1.1.aaaaa.x abcdefgh.2.1.aaaaa".split()),
    *(b"abcdefgh.-1.1.aaaaa abcdefgh.01.1.aaaaa abcdefgh.1.1.AAAAA abcdefgh.1.1.0".split()),
    *(b"abcdefgh.0.0.aaaaa ABCDEFGH.1.1.aaaaa abcdefgh.9007199254740993.9007199254740993".split()),
    b"abcdefgh.99999999999999999999.99999999999999999999.aaaaa",
    b"a" * 129,
    b"a" * 4096,
    b"\x01",
    b"\x0c",
    b"a\x0cb",
    b"\xff\xfe",
    b"\xc3\xa9",
    "漢".encode(),
    b"a b",
    b'"quoted"',
    b"event_" + b"0" * 31,
    b"event_" + b"f" * 32,
    b"event_" + b"F" * 32,
    b"00000000-0000-0000-0000-000000000000",
    b"ffffffff-ffff-7fff-bfff-ffffffffffff",
]


@pytest.mark.parametrize("bad", HOSTILE, ids=lambda bad: repr(bad[:24]))
@proves("cursor-malformed")
async def test_hostile_cursor_is_refused_or_a_gap(
    hub: HubProcess, session: str, bad: bytes
) -> None:
    """Never an error of the server, and never the whole session without saying so."""
    await five(hub, session)
    path = f"/v1/sessions/{session}/sse"
    tries: list[tuple[str, dict[str, str | bytes]]] = [(path, {"Last-Event-ID": bad})]
    tries += [(f"{path}?{name}={quote(bad)}", {}) for name in ("since_id", "lastEventId")]
    for target, headers in tries:
        async with open_stream(hub, target, headers=headers, expect=(200, 400)) as stream:
            if stream.status == 200:
                assert (await stream.next()).json()["gap"], (target, bad)


@proves("cursor-malformed")
async def test_malformed_cursor_is_told_so(hub: HubProcess, session: str) -> None:
    await five(hub, session)
    for bad in ("abcdefgh.2.1.aaaaa", "a b", "a" * 129):
        answer = await request(hub, "GET", f"/v1/sessions/{session}/sse?since_id={quote(bad)}")
        assert answer.status == 400, (bad, answer)
        assert answer.headers["content-type"].split(";")[0] == "application/problem+json"
        assert answer.code == "invalid_cursor"


def mutated(pick: random.Random, cursor: str) -> bytes:
    """A cursor with something changed, or anything at all."""
    text = bytearray(cursor.encode())
    match pick.randrange(5):
        case 0:
            text[pick.randrange(len(text))] = pick.randrange(256)
        case 1:
            del text[pick.randrange(len(text))]
        case 2:
            text.insert(pick.randrange(len(text)), pick.randrange(256))
        case 3:
            parts = cursor.split(".")
            parts[pick.randrange(4)] = str(pick.randrange(-(2**65), 2**65))
            text = bytearray(".".join(parts).encode())
        case _:
            text = bytearray(pick.randbytes(pick.randrange(200)))
    return bytes(text)


@proves("cursor-malformed")
async def test_no_cursor_input_gives_a_server_error(hub: HubProcess, session: str) -> None:
    """Fuzz with a fixed seed: 200 or 400, and the hub goes on."""
    _, cursors = await five(hub, session)
    pick = random.Random(11)
    for _ in range(400):
        bad = mutated(pick, pick.choice(cursors))
        name = pick.choice(["since_id", "lastEventId", "last_event_id", "after_sequence", "from"])
        path = f"/v1/sessions/{session}/sse?{name}={quote(bad)}"
        headers: dict[str, str | bytes] = {}
        if pick.random() < 0.3:
            headers["Last-Event-ID"] = bad.translate(None, b"\x00\r\n")
        async with open_stream(hub, path, headers=headers, expect=(200, 400)) as stream:
            if stream.status == 200:
                assert (await stream.next()).event == "connected"
        for query in (f"since_id={quote(bad)}", f"around={quote(bad)}"):
            answer = await request(hub, "GET", f"/v1/sessions/{session}/events?{query}")
            assert answer.status in (200, 400), (bad, answer)
    assert hub.get("/livez")[0] == 200
