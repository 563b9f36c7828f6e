"""What happens to an event between its producer and its viewers (protocol.md §3)."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import anyio
import pytest

from tests.contract._requirements import proves
from tests.contract.events import (
    Event,
    call,
    copilot,
    delta,
    events_of,
    everruns,
    is_event,
    note,
    publish,
    try_publish,
    turn,
)
from tests.contract.wire import Connection, open_stream, request
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio


async def streamed(hub: HubProcess, session: str) -> list[bytes]:
    """The data lines of a session's events, as they stood on the wire."""
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        frames = await stream.until("caught_up")
    return [(frame.data or "").encode() for frame in frames if is_event(frame)]


ODD = (
    '{"id":"7f1d","timestamp":"2026-08-21T09:31:03.123Z","parentId":null,"type":"session.info",'
    '"zeta":1.0,"alpha":1e5,"data":{"infoType":"x","message":"\\u00e9é\\/ \\ud83d\\ude42","big":'
    '12345678901234567890123,"exp":1E+2,"neg":-0.0,"small":1e-7,"null":null,"empty":{},"list":'
    '[ ],"dup":1,"nested":{"b":1,"a":[1.50,2.0]}},"unknown":{"x":[null,true]}}'
)
"""Spellings that a parse and a re-write would change."""


@proves("as-written")
async def test_event_keeps_its_members_order_and_numbers(hub: HubProcess, session: str) -> None:
    assert (await try_publish(hub, session, ODD.encode())).status == 200
    assert await streamed(hub, session) == [ODD.encode()]
    listed = (await request(hub, "GET", f"/v1/sessions/{session}/events")).body
    assert ODD.encode() in listed
    exported = (await request(hub, "GET", f"/v1/sessions/{session}/export")).body
    assert exported == ODD.encode() + b"\n"


@proves("as-written", "sequence-is-ours")
async def test_everruns_event_only_gains_its_sequence(hub: HubProcess, session: str) -> None:
    raw = (
        '{"id":"event_01a0c4506c0270028000000000000002","type":"turn.started","ts":'
        f'"2026-08-21T09:00:00.123Z","session_id":"{session}",'
        '"context":{"turn_id":"t","x":1.0},'
        '"data":{"turn_id":"t","input_message_id":"m","n":1e3},"metadata":null}'
    )
    assert (await try_publish(hub, session, raw.encode())).status == 200
    (data,) = await streamed(hub, session)
    got, sent = json.loads(data), json.loads(raw)
    assert got.pop("sequence") == 1
    assert got == sent
    assert list(got) == list(sent)
    assert b'"x":1.0' in data
    assert b'"n":1e3' in data
    assert b'"metadata":null' in data


@proves("sequence-is-ours")
async def test_sequence_of_the_producer_is_replaced(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [turn(n, sequence=99) for n in range(3)])
    got = [json.loads(data)["sequence"] for data in await streamed(hub, session)]
    assert got == [1, 2, 3]
    listed = await call(hub, "GET", f"/v1/sessions/{session}/events")
    assert [event["sequence"] for event in listed["data"]] == [1, 2, 3]


@pytest.mark.parametrize("bad", ["x", -1, 1.5, None, 2**70], ids=repr)
@proves("sequence-is-ours")
async def test_no_sequence_of_the_producer_is_an_error(
    hub: HubProcess, session: str, bad: Any
) -> None:
    await publish(hub, session, turn(1, sequence=bad))
    assert [json.loads(data)["sequence"] for data in await streamed(hub, session)] == [1]


@proves("line-breaks")
async def test_line_breaks_between_tokens_become_spaces(hub: HubProcess, session: str) -> None:
    event = note("x")
    pretty = json.dumps(event, indent=1)
    await try_publish(hub, session, pretty.encode())
    (data,) = await streamed(hub, session)
    assert data.decode() == pretty.replace("\n", " ")


@proves("minted")
async def test_copilot_members_left_out_are_minted(hub: HubProcess, session: str) -> None:
    await call(
        hub,
        "POST",
        "/v1/sessions",
        status=201,
        body=json.dumps({"id": session, "catalog": "copilot"}).encode(),
    )
    verdicts = await publish(hub, session, [{"type": "session.info", "data": {"n": 1}}] * 2)
    first, second = (json.loads(data) for data in await streamed(hub, session))
    assert [first["id"], second["id"]] == [verdict["id"] for verdict in verdicts]
    assert uuid.UUID(first["id"]).version == 4
    assert first["id"] != second["id"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["timestamp"])
    assert first["data"] == {"n": 1}


@proves("minted", "parent-chain")
async def test_parent_left_out_is_the_durable_event_before(hub: HubProcess, session: str) -> None:
    def orphan(event: Event) -> Event:
        return {name: value for name, value in event.items() if name != "parentId"}

    sent = [orphan(event) for event in (note(), delta("m", "x"), note(), note())]
    await publish(hub, session, sent)
    got = [json.loads(data) for data in await streamed(hub, session)]
    assert [event["parentId"] for event in got] == [None, *[sent[n]["id"] for n in (0, 0, 2)]]
    given = copilot("session.info")
    given["parentId"] = "11111111-1111-4111-8111-111111111111"
    await publish(hub, session, given)
    assert json.loads((await streamed(hub, session))[-1])["parentId"] == given["parentId"]


@proves("minted")
async def test_everruns_members_left_out_are_minted(hub: HubProcess, session: str) -> None:
    await call(
        hub,
        "POST",
        "/v1/sessions",
        status=201,
        body=json.dumps({"id": session, "catalog": "everruns"}).encode(),
    )
    await publish(hub, session, [{"type": "turn.started", "data": {"turn_id": "t"}}] * 50)
    got = [json.loads(data) for data in await streamed(hub, session)]
    ids = [event["id"] for event in got]
    assert all(re.fullmatch(r"event_[0-9a-f]{12}7[0-9a-f]{19}", id) for id in ids)
    assert ids == sorted(set(ids)), "minted ids rise"
    assert {event["session_id"] for event in got} == {session}
    assert all(event["context"] == {} for event in got)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", got[0]["ts"])


@proves("one-catalog", "publish-atomic")
async def test_event_of_the_other_catalog_is_refused(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    for wrong in (turn(), [note(), turn()]):
        answer = await try_publish(hub, session, json.dumps(wrong).encode())
        assert answer.status in (409, 422), answer
        assert answer.code == "catalog_mismatch"
    assert len(await streamed(hub, session)) == 1


@proves("ephemeral-rule")
async def test_passing_events_are_not_stored(hub: HubProcess, session: str) -> None:
    by_table = copilot("assistant.message_delta", {"messageId": "m", "deltaContent": "x"})
    by_flag = note(ephemeral=True)
    flag_off = note(ephemeral=False)
    verdicts = await publish(hub, session, [by_table, by_flag, flag_off, note()])
    assert [verdict["sequence"] for verdict in verdicts] == [None, None, 1, 2]
    listed = await call(hub, "GET", f"/v1/sessions/{session}/events")
    assert [event["id"] for event in listed["data"]] == [v["id"] for v in verdicts[2:]]
    assert len(await streamed(hub, session)) == 4


@proves("validation")
async def test_lenient_takes_what_does_not_fit_the_catalog(hub: HubProcess, session: str) -> None:
    odd = [copilot("user.message", {"content": 7}), copilot("brand.new", {"x": 1})]
    before = hub.metrics()
    await publish(hub, session, odd)
    assert [json.loads(data) for data in await streamed(hub, session)] == odd
    grown = [name for name, value in hub.metrics().items() if value != before.get(name, 0)]
    assert any("schema_mismatch" in name for name in grown), grown


@proves("validation", "publish-atomic")
async def test_strict_refuses_with_a_pointer(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"validation": "strict"}) as hub:
        good = copilot("user.message", {"content": "x"})
        await publish(hub, session, good)
        body = json.dumps([good, copilot("user.message", {"content": 7})]).encode()
        answer = await try_publish(hub, session, body)
        assert answer.status == 422, answer
        assert answer.code
        assert answer.json()["index"] == 1
        assert answer.json()["pointer"].endswith("/data/content")
        assert len(await streamed(hub, session)) == 1


@proves("validation", "type-names")
async def test_off_still_refuses_names(redis_url: str, session: str) -> None:
    with running_hub(redis_url, env={"validation": "off"}) as hub:
        await publish(hub, session, copilot("user.message", {"content": 7}))
        answer = await try_publish(hub, session, json.dumps(copilot("connected")).encode())
        assert (answer.status, answer.code) == (422, "reserved_type")


NAMES = """
    connected disconnecting prompts snapshot gap caught_up cursor presence reset command open
    error message
"""
RESERVED = NAMES.split()


@pytest.mark.parametrize("type", RESERVED)
@proves("type-names")
async def test_names_of_the_hubs_frames_are_reserved(
    hub: HubProcess, session: str, type: str
) -> None:
    for event in (copilot(type), everruns(type)):
        answer = await try_publish(hub, session, json.dumps(event).encode())
        assert (answer.status, answer.code) == (422, "reserved_type")


@pytest.mark.parametrize("type", ["", " ", ".a", "-a", "a b", "a/b", "é", "a" * 129, 7, None])
@proves("type-names")
async def test_malformed_types_are_refused(hub: HubProcess, session: str, type: Any) -> None:
    answer = await try_publish(hub, session, json.dumps(copilot(type)).encode())
    assert answer.status == 422, answer
    assert answer.code == "invalid_type"


@pytest.mark.parametrize("id", ["", "a b", "é", "a" * 129, "\x7f", 7, {}], ids=repr)
@proves("event-ids")
async def test_malformed_ids_are_refused(hub: HubProcess, session: str, id: Any) -> None:
    event = {**note(), "id": id}
    answer = await try_publish(hub, session, json.dumps(event).encode())
    assert answer.status == 422, answer
    assert answer.code


@pytest.mark.parametrize("id", ["!", "~", "a" * 128, 'q"uo\\te', "a:b/c?d#e%20&f", "-1"])
@proves("event-ids", "idempotent")
async def test_every_allowed_id_is_kept_and_known_again(
    hub: HubProcess, session: str, id: str
) -> None:
    first = (await publish(hub, session, note(id=id)))[0]
    again = (await publish(hub, session, note("other", id=id)))[0]
    assert first["id"] == again["id"] == id
    assert again["duplicate"] is True
    assert again["cursor"] == first["cursor"]


@proves("idempotent")
async def test_second_publish_of_an_id_is_a_duplicate(hub: HubProcess, session: str) -> None:
    first = [note("one"), delta("m", "x"), note("two")]
    told = await publish(hub, session, first)
    assert [verdict["duplicate"] for verdict in told] == [False] * 3
    changed = [{**event, "data": {"infoType": "note", "message": "changed"}} for event in first]
    again = await publish(hub, session, [*changed, note("three")])
    assert [verdict["duplicate"] for verdict in again] == [True, True, True, False]
    assert [v["cursor"] for v in again[:3]] == [v["cursor"] for v in told]
    assert [v["sequence"] for v in again] == [1, None, 2, 3]
    got = [json.loads(data) for data in await streamed(hub, session)]
    assert got[:3] == first
    assert len(got) == 4


@proves("idempotent")
async def test_one_id_twice_in_a_batch_is_one_event(hub: HubProcess, session: str) -> None:
    event = note("first")
    other = {**event, "data": {"infoType": "note", "message": "second"}}
    told = await publish(hub, session, [event, note(), other])
    assert [verdict["duplicate"] for verdict in told] == [False, False, True]
    assert told[2]["cursor"] == told[0]["cursor"]
    assert json.loads((await streamed(hub, session))[0]) == event


@proves("idempotent-race")
async def test_hundred_simultaneous_publishes_store_one_event(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    event = note()
    told: list[Any] = []

    async def one(server: HubProcess) -> None:
        told.extend(await publish(server, session, event))

    async with open_stream(hub, f"/v1/sessions/{session}/sse", expect=404):
        pass
    await publish(hub, session, note("opens it"))
    async with open_stream(hub, f"/v1/sessions/{session}/sse?from=now&control=1") as stream:
        await stream.until("caught_up")
        async with anyio.create_task_group() as group:
            for server in (hub, other_hub) * 50:
                group.start_soon(one, server)
        await publish(hub, session, note("end"))
        frames = await stream.until(lambda f: is_event(f) and f.json()["id"] != event["id"])
    assert [verdict["duplicate"] for verdict in told].count(False) == 1
    assert len({verdict["cursor"] for verdict in told}) == 1
    assert len(events_of(frames)) == 2


@proves("ndjson-split-utf8")
async def test_character_cut_by_chunks_arrives_whole(hub: HubProcess, session: str) -> None:
    event = note("漢字 🙂 é")
    body = json.dumps(event, ensure_ascii=False).encode() + b"\n"
    async with Connection(hub) as connection:
        head = (
            f"POST /v1/sessions/{session}/events HTTP/1.1\r\nHost: {hub.host}\r\n"
            f"Authorization: Bearer {hub.key}\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        pieces = b"".join(b"1\r\n" + body[n : n + 1] + b"\r\n" for n in range(len(body)))
        reader = await connection.send(head.encode() + pieces + b"0\r\n\r\n")
        with anyio.fail_after(10):
            assert b" 200 " in await reader.readline()
    assert [json.loads(data) for data in await streamed(hub, session)] == [event]
