"""Prompts over a WebSocket, in both ways to send (protocol.md §7, §8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.contract import prompting
from tests.contract._requirements import proves
from tests.contract.events import HUB_FRAMES, call, copilot, note, publish
from tests.contract.prompting import ALLOW, REJECT, ask, ask_calls, look, permit, tool
from tests.contract.rpc_client import Refused, RpcClient, open_socket
from tests.contract.wire import eventually, open_stream
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio

YES = {"answer": "yes", "wasFreeform": True}


@pytest.fixture(scope="module", params=["auto", "portable"])
def hub(request: pytest.FixtureRequest, redis_url: str) -> Generator[HubProcess]:
    """One hub a way to send."""
    with running_hub(redis_url, env={"send_mode": request.param, "max_calls_per_s": 10_000}) as hub:
        yield hub


async def refused(client: RpcClient, method: str, **params: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await client.call(method, **params)
    return caught.value


def ids(state: Any) -> list[str]:
    """The request ids of `session.prompts`."""
    return [each["request_id"] for each in state["data"]]


def are(*wanted: str) -> Callable[[Any], bool]:
    """Whether these are open."""

    def is_so(state: Any) -> bool:
        return ids(state) == list(wanted)

    return is_so


@proves("ws-prompt")
async def test_what_is_open_comes_with_the_subscription_and_whenever_it_changes(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [ask("q1"), permit("p1")])
    async with open_socket(hub) as client:
        result = await client.call("session.subscribe", session_id=session, from_="now")
        shown = {each["request_id"]: each for each in result["prompts"]}
        assert list(shown) == ["q1", "p1"]
        assert shown["q1"] == await look(hub, session, "q1")
        assert shown["q1"]["event"]["type"] == "user_input.requested"
        assert result["session"]["pending_prompts"] == 2
        await client.state(session, "prompts", are("q1", "p1"))
        await publish(other_hub, session, tool("t1"))
        await client.state(session, "prompts", are("q1", "p1", "t1"))
        await prompting.answered(other_hub, session, "q1", YES)
        state = await client.state(session, "prompts", are("p1", "t1"))
        assert state["session_id"] == session
        assert await prompting.open_ids(hub, session) == ["p1", "t1"]
        await publish(hub, session, copilot("abort", {"reason": "user_initiated"}))
        await client.state(session, "prompts", are())


@proves("ws-prompt")
async def test_presence_is_told_and_who_may_answer_is_there(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, ask("q"))
    async with open_socket(hub) as one:
        await one.call("session.subscribe", session_id=session, from_="now")
        told = await one.state(session, "presence", lambda each: each["viewers"] == 1)
        assert told == {
            "session_id": session,
            "viewers": 1,
            "can_answer": 1,
            "host": {"connected": False},
        }

        async def is_attended() -> bool:
            return (await look(other_hub, session, "q"))["unattended"] is False

        await eventually(is_attended, "another hub knows that somebody may answer")
        async with open_socket(other_hub) as two:
            await two.call("session.subscribe", session_id=session, from_="now")
            await one.state(session, "presence", lambda each: each["viewers"] == 2)
            await two.call("host.attach", session_id=session)
            await one.state(session, "presence", lambda each: each["host"]["connected"])
            await two.call("session.unsubscribe", session_id=session)
            await one.state(session, "presence", lambda each: each["viewers"] == 1)
            await two.call("host.detach", session_id=session)
            await one.state(session, "presence", lambda each: not each["host"]["connected"])


@proves("ws-prompt")
async def test_an_answer_is_taken_once_and_reaches_the_host(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, permit("p"))
    headers = {"User-Agent": "test-client/1"}
    async with (
        open_socket(hub) as host,
        open_socket(other_hub, user_agent_header=None, headers=headers) as client,
    ):
        await host.call("host.attach", session_id=session)
        said = {"session_id": session, "request_id": "p", "answer": ALLOW, "comment": "fine"}
        prompt = await client.call("prompt.answer", **said, idempotency_key="k1")
        assert prompt["status"] == "completed"
        assert (prompt["answer"], prompt["comment"]) == (ALLOW, "fine")
        assert prompt["answered_by"]["via"] == "websocket test-client/1"
        assert prompt == await look(hub, session, "p")
        again = await client.call("prompt.answer", **said, idempotency_key="k1")
        assert again == prompt
        method, told = await host.note()
        assert (method, told["type"]) == ("command", "prompt.answer")
        assert (told["data"]["request_id"], told["data"]["answer"]) == ("p", ALLOW)
        await host.call("command.ack", session_id=session, id=told["id"], outcome="consumed")
        assert await host.silent(0.1)
        other = {**said, "answer": REJECT}
        error = await refused(client, "prompt.answer", **other, idempotency_key="k1")
        assert (error.word, error.data["status"]) == ("idempotency_reused", 422)
        error = await refused(client, "prompt.answer", **other)
        assert (error.word, error.data["status"]) == ("prompt_already_answered", 409)
        assert error.data["answered_by"] == prompt["answered_by"]
        assert error.data["answered_at"] == prompt["answered_at"]


@proves("ws-prompt")
async def test_a_claim_keeps_others_out_over_both_transports(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [tool("t"), ask("q")])
    async with open_socket(hub) as client:
        place = {"session_id": session, "request_id": "t"}
        held = await client.call("prompt.claim", **place, lease_s=60)
        assert set(held) == {"claim_id", "expires_at"}
        again = await client.call("prompt.claim", **place, claim_id=held["claim_id"])
        assert again["claim_id"] == held["claim_id"]
        assert (await client.call("prompt.get", **place))["status"] == "claimed"
        late = await prompting.answer(other_hub, session, "t", {"result": "other"})
        assert (late.status, late.code) == (409, "prompt_claimed")
        error = await refused(client, "prompt.claim", **place)
        assert (error.word, error.data["status"]) == ("prompt_claimed", 409)
        error = await refused(client, "prompt.claim", session_id=session, request_id="q")
        assert error.word == "not_claimable"
        assert await client.call("prompt.release", **place, claim_id=held["claim_id"]) == {}
        held = await client.call("prompt.claim", **place)
        answer = {"answer": {"result": "mine"}, "claim_id": held["claim_id"]}
        assert (await client.call("prompt.answer", **place, **answer))["status"] == "completed"


@proves("ws-prompt")
async def test_prompts_are_listed_and_shown_as_over_http(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [ask("a"), permit("b"), ask("c")])
    await prompting.answered(hub, session, "a", YES)
    path = prompting.prompts(session)
    async with open_socket(hub) as client:
        assert await client.call("prompt.list", session_id=session) == await call(hub, "GET", path)
        params = {"status": ["completed", "pending"], "limit": 2}
        page = await client.call("prompt.list", session_id=session, **params)
        query = "?status=completed&status=pending&limit=2"
        assert page == await call(hub, "GET", path + query)
        rest = await client.call(
            "prompt.list", session_id=session, **params, page_token=page["next_page_token"]
        )
        assert len(page["data"]) + len(rest["data"]) == 3
        for name in "abc":
            seen = await client.call("prompt.get", session_id=session, request_id=name)
            assert seen == await look(hub, session, name)


REFUSALS: list[tuple[str, dict[str, Any], int, str]] = [
    ("prompt.answer", {}, -32602, "invalid_parameter"),
    ("prompt.answer", {"request_id": 7}, -32602, "invalid_parameter"),
    ("prompt.answer", {"request_id": "q", "odd": 1}, -32602, "invalid_body"),
    ("prompt.answer", {"request_id": "q", "comment": 7}, -32602, "invalid_body"),
    ("prompt.answer", {"request_id": "q", "idempotency_key": "é"}, -32602, "invalid_parameter"),
    ("prompt.answer", {"request_id": "q", "answer": {"odd": 1}}, 422, "invalid_answer"),
    ("prompt.answer", {"request_id": "q"}, 422, "invalid_answer"),
    ("prompt.answer", {"request_id": "no", "answer": YES}, 404, "prompt_not_found"),
    ("prompt.answer", {"request_id": "gone", "answer": YES}, 410, "withdrawn"),
    (
        "prompt.answer",
        {"request_id": "q", "session_id": "no", "answer": 1},
        404,
        "session_not_found",
    ),
    ("prompt.answer", {"request_id": "q", "session_id": "a b"}, -32602, "invalid_session_id"),
    ("prompt.claim", {"request_id": "q", "lease_s": 0}, -32602, "invalid_body"),
    ("prompt.claim", {"request_id": "no"}, 404, "prompt_not_found"),
    ("prompt.release", {"request_id": "q"}, -32602, "invalid_body"),
    ("prompt.get", {"request_id": "no"}, 404, "prompt_not_found"),
    ("prompt.get", {"request_id": "q", "secrets": 1}, -32602, "invalid_parameter"),
    ("prompt.list", {"status": ["odd"]}, -32602, "invalid_parameter"),
    ("prompt.list", {"status": "pending"}, -32602, "invalid_parameter"),
    ("prompt.list", {"limit": 0}, -32602, "invalid_parameter"),
    ("prompt.list", {"page_token": "x"}, 400, "invalid_page_token"),
]


@pytest.mark.parametrize(
    ("method", "params", "number", "word"),
    REFUSALS,
    ids=[f"{n}-{method}-{word}" for n, (method, _, _, word) in enumerate(REFUSALS)],
)
@proves("ws-prompt-refused")
async def test_a_wrong_call_has_the_code_it_has_over_http_and_changes_nothing(
    hub: HubProcess, session: str, method: str, params: Any, number: int, word: str
) -> None:
    withdrawn = copilot("user_input.completed", {"requestId": "gone"}, ephemeral=True)
    await publish(hub, session, [ask("q"), ask("gone"), withdrawn])
    before = await look(hub, session, "q")
    async with open_socket(hub) as client:
        error = await refused(client, method, **{"session_id": session, **params})
        assert error.word == word
        if number < 0:
            assert error.code == number
        else:
            assert (error.code, error.data["status"]) == (-32000, number)
        if word == "invalid_answer":
            assert error.data["faults"]
    assert await look(hub, session, "q") == before


@proves("ws-prompt-refused")
async def test_scopes_and_marks_are_checked_at_each_call(
    redis_url: str, hub: HubProcess, session: str, tmp_path: Any
) -> None:
    entries: list[dict[str, Any]] = [
        {"key": "reader", "scopes": ["read"], "sessions": ["*"]},
        {"key": "bot", "scopes": ["read", "answer"], "sessions": ["*"]},
        {"key": "person", "scopes": ["read", "answer"], "sessions": ["*"], "human": True},
        {"key": "elsewhere", "scopes": ["read", "answer"], "sessions": ["other-*"]},
    ]
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(entries))
    await publish(
        hub, session, [ask("q"), permit("managed", shell={"managedApprovalRequired": True})]
    )
    place = {"session_id": session, "request_id": "q"}
    managed = {"session_id": session, "request_id": "managed", "answer": ALLOW}
    with running_hub(redis_url, args=["--keys", str(keys)]) as strict:
        async with open_socket(strict, headers={"Authorization": "Bearer elsewhere"}) as client:
            for method in ("prompt.answer", "prompt.claim", "prompt.get"):
                error = await refused(client, method, **place)
                assert error.word == "session_not_found"
            error = await refused(client, "prompt.list", session_id=session)
            assert error.word == "session_not_found"
        async with open_socket(strict, headers={"Authorization": "Bearer reader"}) as client:
            assert (await client.call("prompt.get", **place))["request_id"] == "q"
            for method in ("prompt.answer", "prompt.claim", "prompt.release"):
                error = await refused(client, method, **place)
                assert (error.word, error.data["scope"]) == ("forbidden", "answer")
            error = await refused(client, "prompt.get", **place, secrets=True)
            assert (error.word, error.data["status"]) == ("secrets_required", 403)
            await client.call("authenticate", token="bot")
            error = await refused(client, "prompt.answer", **managed)
            assert (error.word, error.data["status"]) == ("human_required", 403)
            assert (await client.call("prompt.answer", **place, answer=YES))[
                "status"
            ] == "completed"
            await client.call("authenticate", token="person")
            assert (await client.call("prompt.answer", **managed))["answered_by"]["human"] is True


@proves("ws-prompt")
async def test_a_deleted_session_is_told_and_takes_no_answer(hub: HubProcess, session: str) -> None:
    await publish(hub, session, ask("q"))
    async with open_socket(hub) as client:
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        error = await refused(
            client, "prompt.answer", session_id=session, request_id="q", answer=YES
        )
        assert (error.word, error.data["status"]) == ("session_deleted", 410)


@proves("ws-prompt-first")
async def test_of_many_answers_over_both_transports_one_wins_and_all_are_told(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, ask_calls("call"))
    async with open_socket(hub) as one, open_socket(other_hub) as two, open_socket(hub) as three:
        await three.call("session.subscribe", session_id=session, from_="now")
        await three.state(session, "prompts", are("call"))

        async def over_socket(client: RpcClient, n: int) -> tuple[str, Any]:
            said = {"answer": {"result": n}}
            try:
                prompt = await client.call(
                    "prompt.answer", session_id=session, request_id="call", **said
                )
            except Refused as error:
                return error.word, error.data["answer"]
            return "taken", prompt["answer"]

        async def over_http(where: HubProcess, n: int) -> tuple[str, Any]:
            answer = await prompting.answer(where, session, "call", {"result": n})
            body = answer.json()
            return ("taken" if answer.status == 200 else body["code"]), body["answer"]

        async def in_turn(client: RpcClient, numbers: range) -> list[tuple[str, Any]]:
            return [await over_socket(client, n) for n in numbers]

        told = await asyncio.gather(
            in_turn(one, range(20)),
            in_turn(two, range(20, 40)),
            *(over_http((hub, other_hub)[n % 2], n) for n in range(40, 60)),
        )
        outcomes = [*told[0], *told[1], *told[2:]]
        assert len(outcomes) == 60
        assert sorted(word for word, _ in outcomes) == ["prompt_already_answered"] * 59 + ["taken"]
        assert len({json.dumps(answer) for _, answer in outcomes}) == 1
        await three.state(session, "prompts", are())
        async with open_socket(other_hub) as host:
            await host.call("host.attach", session_id=session)
            _, command = await host.note()
            assert command["data"]["answer"] == outcomes[0][1]
            assert await host.silent(0.2)


@proves("ws-switch")
async def test_switching_transports_while_prompts_come_and_go_loses_and_doubles_nothing(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """One cursor over SSE and WebSocket; what is open is told anew at each, events never twice."""
    (first,) = await publish(hub, session, note())
    end = note("the end")
    seen: list[str] = []
    expected: list[str] = []

    async def produce() -> None:
        for n in range(40):
            asked = ask(f"q{n}")
            expected.append(asked["id"])
            await publish(other_hub, session, asked)
            if n % 3 == 0:
                await prompting.answered(hub, session, f"q{n}", YES)
            elif n % 3 == 1:
                closed = prompting.reply(f"q{n}")
                expected.append(closed["id"])
                await publish(hub, session, closed)
        expected.append(end["id"])
        await publish(other_hub, session, end)

    async def over_socket(cursor: str, most: int) -> str:
        async with open_socket(hub) as client:
            result = await client.call("session.subscribe", session_id=session, since_id=cursor)
            assert (result["gap"], result["cursor"]) == (None, cursor)
            while most and end["id"] not in seen:
                (each,) = await client.events(1)
                seen.append(each["event"]["id"])
                cursor, most = each["cursor"], most - 1
        return cursor

    async def over_sse(cursor: str, most: int) -> str:
        path = f"/v1/sessions/{session}/sse?control=1&since_id={cursor}"
        async with open_stream(other_hub, path) as stream:
            while most and end["id"] not in seen:
                frame = await stream.next()
                if frame.event not in HUB_FRAMES:
                    assert frame.id
                    seen.append(frame.json()["id"])
                    cursor, most = frame.id, most - 1
        return cursor

    producer = asyncio.ensure_future(produce())
    cursor = first["cursor"]
    for turns in range(200):
        if end["id"] in seen:
            break
        cursor = await (over_sse(cursor, 2) if turns % 2 else over_socket(cursor, 3))
    await producer
    assert len(seen) == len(set(seen)), "nothing twice"
    assert set(expected) <= set(seen), "nothing lost"
    assert [each for each in seen if each in set(expected)] == expected, "in order"
    open_now = [f"q{n}" for n in range(40) if n % 3 == 2]
    async with open_socket(other_hub) as client:
        result = await client.call("session.subscribe", session_id=session, since_id=cursor)
        assert [each["request_id"] for each in result["prompts"]] == open_now
        await client.state(session, "prompts", are(*open_now))
