"""Messages and cancellation as everruns' clients know them (protocol.md §4.8)."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from sessionwire_server.everruns_message import named_id
from tests.contract.events import everruns
from tests.server.conftest import OpenHub, bearer, check_problem

pytestmark = pytest.mark.anyio


def said(text: str, **more: Any) -> dict[str, Any]:
    """The body of a message."""
    return {"message": {"role": "user", "content": [{"type": "text", "text": text}]}, **more}


async def new(client: httpx2.AsyncClient, sid: str, catalog: str = "everruns") -> str:
    made = await client.post("/v1/sessions", json={"id": sid, "catalog": catalog})
    assert made.status_code == 201
    return f"/v1/sessions/{sid}"


async def publish(client: httpx2.AsyncClient, path: str, *events: dict[str, Any]) -> None:
    sid = path.rpartition("/")[2]
    body = [{**event, "session_id": sid} for event in events]
    answer = await client.post(f"{path}/events", json=body)
    assert answer.status_code == 200, answer.text


async def commands(client: httpx2.AsyncClient, path: str, *ids: str) -> list[dict[str, Any]]:
    """What became of some commands."""
    answers = [await client.get(f"{path}/commands/{name}") for name in ids]
    assert all(answer.status_code == 200 for answer in answers)
    return [answer.json() for answer in answers]


async def test_a_message_is_an_event_and_a_command_of_its_id(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await new(client, sid)
    more = {"controls": {"locale": "de"}, "metadata": {"n": 1}, "tags": ["a"]}
    answer = await client.post(f"{path}/messages", json=said("hello", **more))
    assert answer.status_code == 201
    message = answer.json()
    assert message["role"] == "user"
    assert message["content"] == [{"type": "text", "text": "hello"}]
    assert (message["controls"], message["metadata"]) == ({"locale": "de"}, {"n": 1})
    (event,) = (await client.get(f"{path}/events")).json()["data"]
    assert event["type"] == "input.message"
    assert event["data"]["message"] == message
    assert event["tags"] == ["a"]
    assert event["context"] == {"input_message_id": message["id"]}
    (command,) = await commands(client, path, message["id"])
    assert (command["type"], command["status"]) == ("message.send", "accepted")
    assert (await client.get(f"{path}/messages")).json() == {"data": [message]}


async def test_a_message_sent_again_under_its_key_is_one(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path, headers = await new(client, sid), {"Idempotency-Key": "k 1"}
    first = await client.post(f"{path}/messages", json=said("hello"), headers=headers)
    again = await client.post(f"{path}/messages", json=said("hello"), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    other = await client.post(f"{path}/messages", json=said("bye"), headers=headers)
    check_problem(other, 422, "idempotency_reused")
    unnamed = await client.post(f"{path}/messages", json=said("hello"))
    assert unnamed.json()["id"] != first.json()["id"]
    assert len((await client.get(f"{path}/messages")).json()["data"]) == 2


async def test_the_list_holds_only_what_the_official_client_can_read(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await new(client, sid)
    parts = [{"type": "reasoning", "provider": "p"}, {"type": "text", "text": "done"}]
    agents = {
        "id": "message_1",
        "role": "agent",
        "content": parts,
        "created_at": "2026-01-01T00:00:00Z",
    }
    result = {"tool_call_id": "c", "tool_name": "", "success": True, "status": "success"}
    note = {"message_id": "message_2", "text": "by the way", "tool_call_id": "c2"}
    await publish(
        client,
        path,
        everruns("turn.started", {"turn_id": "t", "input_message_id": "m"}),
        everruns(
            "output.message.completed",
            {"message": {**agents, "id": "message_0", "content": parts[:1]}},
        ),
        everruns("output.message.completed", {"message": agents}),
        everruns("tool.completed", {**result, "result": [{"type": "text", "text": "42"}]}),
        everruns("conversation.message", note),
    )
    listed = (await client.get(f"{path}/messages")).json()["data"]
    assert [(one["role"], one["content"]) for one in listed] == [
        ("agent", parts[1:]),
        (
            "tool_result",
            [
                {
                    "type": "tool_result",
                    "tool_call_id": "c",
                    "result": [{"type": "text", "text": "42"}],
                }
            ],
        ),
        ("agent", [{"type": "text", "text": "by the way"}]),
    ]
    assert all(one["id"] and one["created_at"] for one in listed)


async def test_an_empty_session_has_no_messages(client: httpx2.AsyncClient, sid: str) -> None:
    path = await new(client, sid)
    assert (await client.get(f"{path}/messages")).json() == {"data": []}


WRONG = {
    "no JSON": "{",
    "no object": "[]",
    "no message": "{}",
    "not a user's": '{"message": {"role": "agent", "content": [{"type": "text", "text": "x"}]}}',
    "empty": '{"message": {"role": "user", "content": []}}',
    "no parts": '{"message": {"role": "user", "content": "hello"}}',
    "a part of the agent's": '{"message": {"role": "user", "content": [{"type": "tool_call"}]}}',
    "a text without text": '{"message": {"role": "user", "content": [{"type": "text"}]}}',
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_message_is_400_and_leaves_nothing(
    client: httpx2.AsyncClient, sid: str, wrong: str
) -> None:
    path = await new(client, sid)
    headers = {"Content-Type": "application/json"}
    answer = await client.post(f"{path}/messages", content=WRONG[wrong], headers=headers)
    check_problem(answer, 400, "malformed_json" if wrong == "no JSON" else "invalid_body")
    assert (await client.get(path)).json()["sequence"] == 0


async def test_a_session_of_the_other_catalog_has_no_such_verbs(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await new(client, sid, "copilot")
    for answer in (
        await client.post(f"{path}/messages", json=said("hello")),
        await client.get(f"{path}/messages"),
        await client.post(f"{path}/cancel"),
    ):
        check_problem(answer, 409, "catalog_mismatch")


async def test_an_unknown_session_is_not_made_by_a_message(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = f"/v1/sessions/{sid}"
    for answer in (
        await client.post(f"{path}/messages", json=said("hello")),
        await client.get(f"{path}/messages"),
        await client.post(f"{path}/cancel"),
    ):
        check_problem(answer, 404, "session_not_found")


async def test_a_cancel_reaches_the_host_once_for_each_turn(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = await new(client, sid)
    cancel = f"{path}/cancel"
    assert (await client.post(cancel)).json()["status"] == "no_op"
    await client.post(f"{path}/messages", json=said("hello"))
    queued = await client.post(cancel, json={})
    assert (queued.status_code, queued.json()["status"]) == (200, "cancelled")
    turn = {"turn_id": "turn_1", "input_message_id": "m"}
    await publish(client, path, everruns("turn.started", turn))
    for _ in range(2):
        assert (await client.post(cancel)).json()["status"] == "cancelled"
    asked, begun = [event["id"] for event in (await client.get(f"{path}/events")).json()["data"]]
    names = [named_id("cancel", sid, event_id) for event_id in (asked, begun)]
    told = await commands(client, path, *names)
    assert [command["type"] for command in told] == ["abort", "abort"]
    assert int(told[1]["cursor"].rpartition(".")[2]) == 3, "one message and two aborts"
    await publish(
        client,
        path,
        everruns("turn.completed", {"turn_id": "turn_1", "iterations": 1}),
        everruns("session.idled", {"turn_id": "turn_1"}),
    )
    assert (await client.post(cancel)).json()["status"] == "no_op"


@pytest.mark.parametrize("verb", ["messages", "cancel"])
async def test_talking_to_the_host_needs_the_scope_steer(
    open_hub: OpenHub, tmp_path: Any, sid: str, verb: str
) -> None:
    keys = [
        {"key": "sender", "scopes": ["steer"], "sessions": ["*"]},
        {"key": "reader", "scopes": ["read"], "sessions": ["*"]},
    ]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(keys))
    async with open_hub(keys_file=file) as client:
        path = await new(client, sid)
        refused = await client.post(f"{path}/{verb}", json=said("x"), headers=bearer("reader"))
        check_problem(refused, 403, "forbidden")
        taken = await client.post(f"{path}/{verb}", json=said("x"), headers=bearer("sender"))
        assert taken.is_success
        listed = await client.get(f"{path}/messages", headers=bearer("sender"))
        check_problem(listed, 403, "forbidden")


async def test_a_message_that_the_host_may_not_be_told_is_stored_nowhere(
    open_hub: OpenHub, sid: str
) -> None:
    async with open_hub(commands_max=1) as client:
        path = await new(client, sid)
        first = await client.post(f"{path}/messages", json=said("one"))
        assert first.status_code == 201
        check_problem(await client.post(f"{path}/messages", json=said("two")), 429, "commands_full")
        listed = (await client.get(f"{path}/messages")).json()["data"]
        assert listed == [first.json()]


async def test_a_message_comes_once_also_while_something_is_asked(
    client: httpx2.AsyncClient, sid: str
) -> None:
    """It ends what is asked, in the same step."""
    path, headers = await new(client, sid), {"Idempotency-Key": "k"}
    call: dict[str, Any] = {"id": "c", "name": "get_time", "arguments": {}}
    await publish(client, path, everruns("tool.call_requested", {"tool_calls": [call]}))
    answers = [
        await client.post(f"{path}/messages", json=said("hello"), headers=headers) for _ in range(3)
    ]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    types = [event["type"] for event in (await client.get(f"{path}/events")).json()["data"]]
    assert sorted(types) == ["input.message", "tool.call_requested", "tool.completed"]
    (command,) = await commands(client, path, answers[0].json()["id"])
    assert command["cursor"].endswith(".1")


async def test_a_command_of_the_message_s_id_stands_in_its_way(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path, headers = await new(client, sid), {"Idempotency-Key": "k"}
    name = (await client.post(f"{path}/messages", json=said("x"), headers=headers)).json()["id"]
    other = f"{path}-2"
    await new(client, f"{sid}-2")
    taken = {"id": name, "type": "queue.clear"}
    assert (await client.post(f"{other}/commands", json=taken)).status_code == 202
    same = await client.post(f"{path}/commands", json=taken)
    check_problem(same, 409, "command_id_reused")
