"""Sessions over a WebSocket, in both ways to send (protocol.md §7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.contract._requirements import proves
from tests.contract.events import (
    HUB_FRAMES,
    call,
    copilot,
    delta,
    message,
    new_session,
    note,
    place_of,
    publish,
    turn,
)
from tests.contract.rpc_client import Refused, RpcClient, open_socket
from tests.contract.wire import eventually, open_stream
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=["auto", "portable"])
def hub(request: pytest.FixtureRequest, redis_url: str) -> Generator[HubProcess]:
    """One hub a way to send."""
    env = {"send_mode": request.param, "filtered_cursor_every": 10, "max_calls_per_s": 10_000}
    with running_hub(redis_url, env=env) as hub:
        yield hub


def ids(params: list[dict[str, Any]]) -> list[str]:
    return [each["event"]["id"] for each in params if "event" in each]


async def on_sse(hub: HubProcess, session: str, count: int) -> list[tuple[str | None, Any]]:
    """The cursors and events that a stream gives."""
    async with open_stream(hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        found: list[tuple[str | None, Any]] = []
        while len(found) < count:
            frame = await stream.next()
            if frame.event not in HUB_FRAMES:
                found.append((frame.id, frame.json()))
        return found


@proves("ws-subscribe")
async def test_subscription_answers_then_replays_then_is_live(
    hub: HubProcess, session: str
) -> None:
    kept = await publish(hub, session, [note(), note(), note()])
    async with open_socket(hub) as client:
        assert client.socket.subprotocol == "sessionwire.v1.jsonrpc"
        result = await client.call("session.subscribe", session_id=session)
        assert set(result) == {
            *("cursor", "head", "epoch", "resumed", "gap", "prompts", "last", "session")
        }
        assert result["head"] == kept[-1]["cursor"]
        assert place_of(result["cursor"]).sequence == 0
        assert (result["gap"], result["resumed"], result["prompts"]) == (None, False, [])
        assert result["session"]["id"] == session
        assert result["session"]["viewers"] == 1
        replayed = await client.until("session.caught_up")
        assert [each["cursor"] for each in replayed] == [
            *(verdict["cursor"] for verdict in kept),
            kept[-1]["cursor"],
        ]
        assert [each.get("sequence") for each in replayed] == [1, 2, 3, None]
        live = await publish(hub, session, [note(), delta("m", "x")])
        after = await client.events(2)
        assert [each["cursor"] for each in after] == [verdict["cursor"] for verdict in live]
        assert ["sequence" in each for each in after] == [True, False]


@proves("ws-same")
@pytest.mark.parametrize("catalog", ["copilot", "everruns"])
async def test_both_transports_give_the_same_events_with_the_same_cursors(
    hub: HubProcess, session: str, catalog: str
) -> None:
    if catalog == "copilot":
        events = [note("ü\u2028\u0085"), delta("m", "a"), delta("m", "b"), message("m", "ab")]
    else:
        events = [turn(number) for number in range(1, 5)]
    await publish(hub, session, events)
    async with open_socket(hub) as client:
        await client.call("session.subscribe", session_id=session)
        got = [(each["cursor"], each["event"]) for each in await client.events(len(events))]
    assert got == await on_sse(hub, session, len(events))


@proves("ws-switch")
async def test_switching_transports_in_mid_session_loses_and_doubles_nothing(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, note())
    seen: list[str] = []
    published: list[str] = []
    cursor = ""
    done = asyncio.Event()

    async def produce() -> None:
        for number in range(60):
            batch = [note(), delta("m", str(number))]
            published.extend(event["id"] for event in batch)
            await publish(other_hub, session, batch)
        last = note("the end")
        published.append(last["id"])
        await publish(other_hub, session, last)
        done.set()

    producer = asyncio.ensure_future(produce())
    turns = 0
    while not (done.is_set() and published[-1] in seen):
        turns += 1
        assert turns < 200, "never got to the end"
        place = {"since_id": cursor} if cursor else {"from_": "now"}
        if turns % 2:
            async with open_socket(hub) as client:
                result = await client.call("session.subscribe", session_id=session, **place)
                cursor = cursor or result["cursor"]
                assert result["gap"] is None
                for each in await client.events(1 if done.is_set() else 7):
                    seen.append(each["event"]["id"])
                    cursor = each["cursor"]
        else:
            path = f"/v1/sessions/{session}/sse?control=1&since_id={cursor}"
            async with open_stream(other_hub, path) as stream:
                taken = 0
                while taken < (1 if done.is_set() else 5):
                    frame = await stream.next()
                    if frame.event in HUB_FRAMES:
                        continue
                    taken += 1
                    seen.append(frame.json()["id"])
                    cursor = frame.id or cursor
    await producer
    start = published.index(seen[0])
    assert seen == published[start:]
    assert turns > 3


async def test_every_kind_of_start_means_what_it_means_on_a_stream(
    hub: HubProcess, session: str
) -> None:
    kept = await publish(hub, session, [note() for _ in range(5)])
    starts: list[tuple[dict[str, Any], int]] = [
        ({}, 0),
        ({"from_": "start"}, 0),
        ({"from_": "now"}, 5),
        ({"from_": "-2"}, 3),
        ({"after_sequence": 0}, 0),
        ({"after_sequence": 4}, 4),
        ({"since_id": kept[1]["cursor"]}, 2),
        ({"since_id": kept[2]["id"]}, 3),
    ]
    async with open_socket(hub) as client:
        for place, begins in starts:
            result = await client.call("session.subscribe", session_id=session, **place)
            assert place_of(result["cursor"]).sequence == begins, place
            got = await client.until("session.caught_up")
            assert ids(got) == [verdict["id"] for verdict in kept[begins:]], place
            await client.call("session.unsubscribe", session_id=session)


async def test_a_place_that_does_not_hold_is_told_as_a_gap(hub: HubProcess, session: str) -> None:
    kept = await publish(hub, session, [note(), note()])
    place = place_of(kept[-1]["cursor"])
    async with open_socket(hub) as client:
        result = await client.call(
            "session.subscribe", session_id=session, since_id=str(place._replace(epoch="zzzzzzzz"))
        )
        assert result["gap"] == {
            "reason": "epoch_changed",
            "after_sequence": 0,
            "resumed_sequence": 0,
        }
        assert ids(await client.until("session.caught_up")) == [each["id"] for each in kept]


async def test_filters_hold_the_cursor_of_nobody_back(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    async with open_socket(hub) as client:
        await client.call("session.subscribe", session_id=session, types=["session.idle"])
        await client.until("session.caught_up")
        kept = await publish(hub, session, [note() for _ in range(10)])
        shown = kept[8]["cursor"]  # the tenth that was left out, the first of all being one
        told = ("session.cursor", {"session_id": session, "cursor": shown})
        assert await client.note() == told
        idle = await publish(hub, session, copilot("session.idle", {}))
        assert ids(await client.events(1)) == [idle[0]["id"]]
        await client.call("session.unsubscribe", session_id=session)
        await client.call("session.subscribe", session_id=session, exclude=["session.info"])
        assert ids(await client.events(1)) == [idle[0]["id"]]


async def test_last_values_come_with_the_result(hub: HubProcess, session: str) -> None:
    titles = [copilot("session.title_changed", {"title": text}) for text in ("a", "b")]
    await publish(hub, session, [*titles, note()])
    async with open_socket(hub) as client:
        result = await client.call("session.subscribe", session_id=session, from_="now")
        assert [event["id"] for event in result["last"]] == [titles[1]["id"]]
        assert result["session"]["title"] == "b"
        assert (await client.note())[0] == "session.caught_up"


@proves("ws-many")
async def test_one_connection_follows_many_sessions_and_lets_go_of_one(
    hub: HubProcess, other_hub: HubProcess
) -> None:
    sessions = [new_session() for _ in range(20)]
    for session in sessions:
        await publish(other_hub, session, note())
    async with open_socket(hub) as client:
        for session in sessions:
            await client.call("session.subscribe", session_id=session, from_="now")
            assert (await client.note())[0] == "session.caught_up"
        wanted: dict[str, list[str]] = {session: [] for session in sessions}
        for number in range(60):
            event = note()
            wanted[sessions[number % 20]].append(event["id"])
            await publish(other_hub, sessions[number % 20], event)
        got: dict[str, list[str]] = {session: [] for session in sessions}
        for each in await client.events(60):
            got[each["session_id"]].append(each["event"]["id"])
        assert got == wanted
        left, kept = sessions[:2]
        assert await client.call("session.unsubscribe", session_id=left) == {}
        assert await client.call("session.unsubscribe", session_id=left) == {}
        await publish(other_hub, left, note())
        event = note()
        await publish(other_hub, kept, event)
        assert ids(await client.events(1)) == [event["id"]]


@proves("ws-many")
async def test_a_session_may_be_left_as_soon_as_it_is_followed(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, note())
    params = {"session_id": session}
    async with open_socket(hub) as client:
        for _ in range(20):
            steps = ["session.subscribe", "session.unsubscribe", "sessions.subscribe"]
            steps += ["sessions.unsubscribe", "host.attach", "host.detach"]
            await client.send(
                [
                    {"jsonrpc": "2.0", "id": step, "method": step, "params": params}
                    if step.startswith(("session.", "host."))
                    else {"jsonrpc": "2.0", "id": step, "method": step}
                    for step in steps
                ]
            )
            answers: list[str] = []
            while len(answers) < len(steps):
                message = await client.receive()
                if "id" in message:
                    assert "result" in message, message
                    answers.append(message["id"])
            assert answers == steps
        assert await client.call("ping") == {}
        await client.call("session.subscribe", session_id=session)
    assert (await call(hub, "GET", f"/v1/sessions/{session}"))["host"]["connected"] is False


@proves("ws-publish")
async def test_publishing_answers_as_http_does(hub: HubProcess, session: str) -> None:
    events = [note(), delta("m", "x")]
    async with open_socket(hub) as client:
        first = await client.call("session.publish", session_id=session, events=events)
        again = await client.call("session.publish", session_id=session, events=events[0])
        assert [each["sequence"] for each in first["data"]] == [1, None]
        assert again["data"] == [{**first["data"][0], "duplicate": True}]
        body = json.dumps(events).encode()
        path = f"/v1/sessions/{session}/events"
        http = await call(hub, "POST", path, body=body)
        assert [each["cursor"] for each in http["data"]] == [e["cursor"] for e in first["data"]]
        with pytest.raises(Refused) as refused:
            await client.call("session.publish", session_id=session, events=[note(), turn()])
        assert (refused.value.code, refused.value.word) == (-32000, "catalog_mismatch")
        assert (refused.value.data["status"], refused.value.data["index"]) == (409, 1)
        raw = '{"id":"n-1","timestamp":"2026-08-21T09:31:03.123Z","parentId":null,"type":"x.y",'
        raw += '"data":{"n":1.0e2,"big":12345678901234567890123}}'
        params = f'{{"session_id":"{session}","events":[{raw}]}}'
        await client.send(
            f'{{"jsonrpc":"2.0","id":9,"method":"session.publish","params":{params}}}'
        )
        assert (await client.receive())["result"]["data"][0]["id"] == "n-1"
        await client.call("session.subscribe", session_id=session, from_="-1")
        await client.until("session.caught_up")
        assert any(text.endswith(f'"event":{raw}}}}}') for text in client.got)


async def about(client: RpcClient, session: str) -> tuple[str, dict[str, Any]]:
    """The next note of the list about a session; other tests' sessions leave it meanwhile."""
    while True:
        method, params = await client.note()
        if params["id"] == session:
            return method, params
        assert method == "sessions.deleted"


@proves("ws-list")
async def test_the_session_list_is_the_one_of_the_stream(hub: HubProcess) -> None:
    word = new_session("list")
    async with open_socket(hub) as client:
        assert await client.call("sessions.subscribe", q=word) == {}
        assert await client.note() == ("sessions.snapshot", {"data": []})
        await publish(hub, word, note())
        method, made = await about(client, word)
        assert (method, made["catalog"]) == ("sessions.updated", "copilot")
        await call(hub, "DELETE", f"/v1/sessions/{word}", status=204)
        assert await about(client, word) == ("sessions.deleted", {"id": word})
        assert await client.call("sessions.unsubscribe") == {}
        await publish(hub, new_session(word), note())
        assert await client.silent(1)
        with pytest.raises(Refused) as refused:
            await client.call("sessions.subscribe", status="asleep")
        assert (refused.value.code, refused.value.word) == (-32602, "invalid_parameter")


@proves("ws-errors")
async def test_what_is_refused_says_why_and_ends_nothing(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    refusals: list[tuple[str, dict[str, Any], int, str]] = [
        ("session.subscribe", {"session_id": "no-such"}, -32000, "session_not_found"),
        ("session.subscribe", {"session_id": "a b"}, -32602, "invalid_session_id"),
        ("session.subscribe", {"session_id": "sse"}, -32602, "invalid_session_id"),
        ("session.subscribe", {}, -32602, "invalid_parameter"),
        ("session.subscribe", {"session_id": 7}, -32602, "invalid_parameter"),
        (
            "session.subscribe",
            {"session_id": session, "since_id": "a.b.c.d"},
            -32602,
            "invalid_cursor",
        ),
        ("session.subscribe", {"session_id": session, "from": "-0"}, -32602, "invalid_parameter"),
        (
            "session.subscribe",
            {"session_id": session, "since_id": "x", "after_sequence": 1},
            -32602,
            "cursor_conflict",
        ),
        (
            "session.subscribe",
            {"session_id": session, "types": ["a b"]},
            -32602,
            "invalid_parameter",
        ),
        ("session.publish", {"session_id": session}, -32602, "invalid_parameter"),
        ("session.publish", {"session_id": session, "events": [1]}, -32000, "invalid_event"),
        ("session.publish", {"session_id": session, "events": []}, -32000, "empty_batch"),
        ("prompt.answer", {}, -32602, "invalid_parameter"),
        ("host.attach", {}, -32602, "invalid_parameter"),
    ]
    async with open_socket(hub) as client:
        for method, params, code, word in refusals:
            with pytest.raises(Refused) as refused:
                await client.call(method, **params)
            assert (refused.value.code, refused.value.word) == (code, word), (method, params)
            assert 400 <= refused.value.data["status"] < 500
        await client.call("session.subscribe", session_id=session)
        with pytest.raises(Refused) as refused:
            await client.call("session.subscribe", session_id=session)
        assert (refused.value.word, refused.value.data["status"]) == ("already_subscribed", 409)
        assert await client.call("ping") == {}


@proves("ws-rpc")
async def test_json_rpc_is_spoken_whole(hub: HubProcess) -> None:
    async with open_socket(hub, path="/api/v1/ws", subprotocols=None) as client:
        assert client.socket.subprotocol is None

        async def says(text: str, *codes: int | None) -> list[Any]:
            await client.send(text)
            answers = [await client.receive() for _ in codes]
            for answer, code in zip(answers, codes, strict=True):
                assert answer.get("error", {}).get("code") == code, (text, answer)
            return [answer["id"] for answer in answers]

        ping = '{"jsonrpc":"2.0","method":"ping","id":%s}'
        for spelled in (
            '"a"',
            "1",
            "1.50",
            "-3e2",
            "null",
            "[1,2]",
            '{"a":null}',
            "true",
            '"\\u00e9"',
        ):
            await says(ping % spelled, None)
            assert f'"id":{spelled},' in client.got[-1]
        assert await says("{", -32700) == [None]
        assert await says("", -32700) == [None]
        assert await says("[]", -32600) == [None]
        assert await says("1", -32600) == [None]
        assert await says("[1,2]", -32600, -32600) == [None, None]
        assert await says('{"jsonrpc":"1.0","method":"ping","id":4}', -32600) == [4]
        assert await says('{"jsonrpc":"2.0","method":1,"id":5}', -32600) == [5]
        assert await says('{"jsonrpc":"2.0","method":"ping","params":"x","id":6}', -32600) == [6]
        assert await says('{"jsonrpc":"2.0","method":"ping","params":[1],"id":7}', -32602) == [7]
        assert await says('{"jsonrpc":"2.0","method":"pong","id":8}', -32601) == [8]
        batch = ",".join([ping % 1, '{"jsonrpc":"2.0","method":"ping"}', "{}", ping % 2])
        assert await says(f"[{batch}]", None, -32600, None) == [1, None, 2]
        await says("[" + ",".join([ping % 1] * 257) + "]", -32600)
        # Notifications are never answered, not even with an error.
        await client.send('[{"jsonrpc":"2.0","method":"nope"},{"jsonrpc":"2.0","method":"ping"}]')
        assert await says(ping % 3, None) == [3]


@proves("ws-deleted")
async def test_deleting_the_only_session_closes_with_4504_and_one_of_two_does_not(
    hub: HubProcess, other_hub: HubProcess
) -> None:
    first, second = new_session(), new_session()
    for session in (first, second):
        await publish(hub, session, note())
    async with open_socket(hub) as client:
        for session in (first, second):
            await client.call("session.subscribe", session_id=session, from_="now")
        assert {(await client.note())[0] for _ in range(2)} == {"session.caught_up"}
        await call(other_hub, "DELETE", f"/v1/sessions/{first}", status=204)
        told = ("disconnecting", {"session_id": first, "reason": "deleted"})
        assert await client.note() == told
        with pytest.raises(Refused) as refused:
            await client.call("session.subscribe", session_id=first)
        assert (refused.value.word, refused.value.data["status"]) == ("session_deleted", 410)
        event = note()
        await publish(other_hub, second, event)
        assert ids(await client.events(1)) == [event["id"]]
        await call(other_hub, "DELETE", f"/v1/sessions/{second}", status=204)
        code, before = await client.closed()
        assert code == 4504
        assert [each["params"]["reason"] for each in before] == ["deleted"]


async def test_a_binary_message_closes_with_4502(hub: HubProcess) -> None:
    async with open_socket(hub) as client:
        await client.socket.send(b"{}")
        assert (await client.closed())[0] == 4502


async def test_a_message_above_the_limit_closes_with_1009(redis_url: str) -> None:
    for mode in ("auto", "portable"):
        env = {"send_mode": mode, "max_message_bytes": 4096}
        with running_hub(redis_url, env=env) as hub:
            async with open_socket(hub) as client:
                assert await client.call("ping", padding="x" * 3000) == {}
                await client.send(json.dumps("x" * 4096))
                assert (await client.closed())[0] == 1009


async def caught_up(client: RpcClient, session: str) -> None:
    await client.call("session.subscribe", session_id=session, from_="now")
    assert (await client.note())[0] == "session.caught_up"


async def test_a_session_begun_anew_is_another_epoch(hub: HubProcess, session: str) -> None:
    old = await publish(hub, session, note())
    async with open_socket(hub) as client:
        await caught_up(client, session)
        other = new_session()
        await publish(hub, other, note())
        await caught_up(client, other)
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        assert (await client.note())[0] == "disconnecting"
        await call(
            hub, "POST", "/v1/sessions", status=201, body=json.dumps({"id": session}).encode()
        )
        event = note()
        await publish(hub, session, event)
        result = await client.call(
            "session.subscribe", session_id=session, since_id=old[0]["cursor"]
        )
        assert result["gap"]["reason"] == "epoch_changed"
        assert ids(await client.until("session.caught_up")) == [event["id"]]


async def test_a_gone_client_leaves_nothing_behind(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    clients = [open_socket(hub) for _ in range(10)]
    for each in clients:
        client = await each.__aenter__()
        await caught_up(client, session)
        client.socket.transport.abort()
        with pytest.raises(ConnectionClosed):
            await client.socket.recv()
    deadline = asyncio.get_running_loop().time() + 10
    while hub.metrics()["sessionwire_viewers"]:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    for each in clients:
        await each.__aexit__(None, None, None)


async def test_open_connections_are_counted(redis_url: str) -> None:
    with running_hub(redis_url) as lone:

        def count() -> float:
            return lone.metrics()["sessionwire_websockets"]

        async def none_is_left() -> bool:
            return count() == 0

        assert count() == 0
        async with open_socket(lone) as one, open_socket(lone) as two:
            assert count() == 2
            await one.call("authenticate", token=lone.key)
            two.socket.transport.abort()
        await eventually(none_is_left, "a closed and a cut one are counted off")
