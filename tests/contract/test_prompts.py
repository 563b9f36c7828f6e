"""What a prompt goes through between its question and its end (protocol.md §8)."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from sessionwire_server.redis_link import RedisLink
from tests.contract._requirements import proves
from tests.contract.events import Event, call, copilot, events_of, everruns, note, publish, turn
from tests.contract.prompting import (
    ALLOW,
    REJECT,
    answer,
    answered,
    ask,
    ask_calls,
    claim,
    look,
    open_ids,
    open_prompts,
    permit,
    prompts,
    reply,
    status_of,
    tool,
)
from tests.contract.test_commands import acknowledge, hosting, listened, read, status
from tests.contract.test_publish import check_problem
from tests.contract.wire import EventStream, open_stream, request
from tests.hub_process import HubProcess
from tests.schemas.prompting import sequences
from tests.schemas.test_ledger import CHANGES

pytestmark = pytest.mark.anyio


def later(seconds: float) -> str:
    moment = time.time() + seconds
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1000):03d}Z"


async def closers(stream: EventStream, event_type: str, count: int) -> list[Event]:
    """The next so many events of a type."""
    found: list[Event] = []
    while len(found) < count:
        (frame,) = (await stream.until(event_type))[-1:]
        found.append(frame.json())
    return found


async def of_type(hub: HubProcess, session: str, event_type: str) -> list[Event]:
    """The durable events of a type."""
    page = await call(hub, "GET", f"/v1/sessions/{session}/events?types={event_type}")
    found: list[Event] = page["data"]
    return found


@proves("prompt-open")
async def test_a_question_is_a_prompt_at_every_hub_until_it_is_answered(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    opener = ask("u1", choices=["a", "b"])
    await publish(hub, session, [note(), opener])
    for each in (hub, other_hub):
        (prompt,) = await open_prompts(each, session)
        assert prompt["request_id"] == "u1"
        assert prompt["session_id"] == session
        assert (prompt["kind"], prompt["status"]) == ("user_input", "pending")
        assert prompt["event"] == opener
        assert (prompt["answer"], prompt["answered_by"], prompt["answered_at"]) == (None,) * 3
        assert (prompt["expires_at"], prompt["claim"]) == (None, None)
        assert await look(each, session, "u1") == prompt
    won = await answered(other_hub, session, "u1", {"answer": "a"}, comment="sure")
    assert (won["request_id"], won["status"], won["event"]) == ("u1", "completed", None)
    assert won["answer"] == {"answer": "a"}
    assert won["comment"] == "sure"
    for each in (hub, other_hub):
        assert await open_prompts(each, session) == []
        assert (await look(each, session, "u1"))["answered_at"] == won["answered_at"]


@proves("prompt-open")
async def test_several_questions_are_open_at_once_and_answered_in_any_order(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [permit("p1"), ask("u2"), tool("x3")])
    assert await open_ids(other_hub, session) == ["p1", "u2", "x3"]
    await answered(hub, session, "u2", {"answer": "x"})
    assert await open_ids(other_hub, session) == ["p1", "x3"]
    await answered(other_hub, session, "x3", {"result": "42"})
    await answered(hub, session, "p1", ALLOW)
    assert await open_ids(hub, session) == []


@proves("prompt-audit")
async def test_the_record_says_who_answered_when_from_where_and_how_long_it_took(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, permit("p1"))
    asked = await look(hub, session, "p1")
    won = await answered(hub, session, "p1", ALLOW, agent="tester/1.0 (x)", comment="fine")
    by = won["answered_by"]
    assert by["name"]
    assert by["human"] is True
    assert by["via"] == "http tester/1.0 (x)"
    assert asked["opened_at"] <= won["answered_at"]
    assert 0 <= won["took_ms"] < 60_000
    assert won["comment"] == "fine"
    assert await look(hub, session, "p1") == won
    await publish(hub, session, permit("p2"))
    bounded = await answered(hub, session, "p2", ALLOW, agent="x" * 4_000)
    assert len(bounded["answered_by"]["via"]) <= 128


@proves("prompt-host")
async def test_an_answer_is_a_command_that_comes_again_until_it_is_acknowledged(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """The host crashes between delivery and use, twice: the same command, the same id."""
    await publish(hub, session, permit("p1"))
    won = await answered(other_hub, session, "p1", ALLOW, comment="go on")
    seen: list[Any] = []
    for _ in range(3):
        async with hosting(hub, session) as (stream, _told):
            (command,) = read(await stream.take(1))
            assert await stream.silent(0.2)
            seen.append(command)
    assert {each["id"] for each in seen} == {seen[0]["id"]}
    assert [each["attempt"] for each in seen] == [1, 2, 3]
    assert {each["type"] for each in seen} == {"prompt.answer"}
    data = seen[0]["data"]
    assert (data["request_id"], data["kind"], data["answer"]) == ("p1", "permission", ALLOW)
    assert data["comment"] == "go on"
    assert data["answered_at"] == won["answered_at"]
    assert data["answered_by"]["name"] == won["answered_by"]["name"]
    assert (await acknowledge(hub, session, seen[0]["id"])).status == 200
    async with hosting(other_hub, session) as (stream, _):
        assert await stream.silent(0.3)
    assert await status(hub, session, seen[0]["id"]) == "consumed"


@proves("prompt-completion")
async def test_a_hub_closes_what_was_answered_at_once_for_every_viewer(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, permit("p1", call_id="c1"))
    (before,) = await of_type(hub, session, "permission.requested")
    path = f"/v1/sessions/{session}/sse?control=1&from=now"
    async with open_stream(hub, path) as one, open_stream(other_hub, path) as two:
        for stream in (one, two):
            await stream.until("caught_up")
        await answered(hub, session, "p1", REJECT)
        closed = [(await closers(stream, "permission.completed", 1))[0] for stream in (one, two)]
    assert closed[0] == closed[1]
    assert closed[0]["data"]["requestId"] == "p1"
    assert closed[0]["data"]["toolCallId"] == "c1"
    assert closed[0]["data"]["result"]["kind"] == "denied-interactively-by-user"
    assert closed[0]["parentId"] == before["id"]
    assert (await look(hub, session, "p1"))["closer_id"] == closed[0]["id"]
    # The chain of the producer goes on from its own last event.
    bare = {"type": "session.info", "data": {"infoType": "note", "message": "x"}}
    await publish(hub, session, bare)
    (last,) = (await call(hub, "GET", f"/v1/sessions/{session}/events?limit=1"))["data"]
    assert last["parentId"] == before["id"]


@proves("prompt-completion")
async def test_a_host_that_completes_by_itself_closes_its_prompts_by_its_own_event(
    hub: HubProcess, session: str
) -> None:
    body = b'{"id":"%b","catalog":"copilot","completion":"host"}' % session.encode()
    await call(hub, "POST", "/v1/sessions", status=201, body=body)
    await publish(hub, session, [permit("p1"), ask("u2")])
    won = await answered(hub, session, "p1", ALLOW)
    assert (won["status"], won["answer"]) == ("answered", ALLOW)
    assert await of_type(hub, session, "permission.completed") == []
    assert [each["status"] for each in await open_prompts(hub, session)] == ["answered", "pending"]
    late = await answer(hub, session, "p1", REJECT)
    check_problem(late, 409, "prompt_already_answered")
    done = {"requestId": "p1", "result": {"kind": "approved"}}
    await publish(hub, session, copilot("permission.completed", done))
    closed = await look(hub, session, "p1")
    assert closed["status"] == "completed"
    assert "overruled" not in closed
    assert await open_ids(hub, session) == ["u2"]


@proves("prompt-overruled")
async def test_the_host_s_event_with_the_same_outcome_is_a_duplicate_and_with_another_the_truth(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, permit("p1"))
    await answered(hub, session, "p1", ALLOW)
    (made,) = await of_type(hub, session, "permission.completed")
    same = copilot("permission.completed", {"requestId": "p1", "result": {"kind": "approved"}})
    (verdict,) = await publish(hub, session, same)
    assert verdict["duplicate"] is True
    assert [each["id"] for each in await of_type(hub, session, made["type"])] == [made["id"]]
    denied: Event = {"kind": "denied-by-rules", "rules": []}
    other = copilot("permission.completed", {"requestId": "p1", "result": denied})
    (verdict,) = await publish(hub, session, other)
    assert verdict["duplicate"] is False
    seen = await look(hub, session, "p1")
    assert seen["overruled"] is True
    assert "denied-by-rules" in seen["overruled_outcome"]
    assert seen["answer"] == ALLOW
    assert len(await of_type(hub, session, "permission.completed")) == 2


@proves("prompt-overruled")
async def test_an_answer_that_the_host_rejects_is_overruled_with_its_words(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, permit("p1"))
    await answered(hub, session, "p1", ALLOW)
    async with hosting(hub, session) as (stream, _):
        (command,) = read(await stream.take(1))
    said = await acknowledge(hub, session, command["id"], "rejected", detail="no longer asked")
    assert said.status == 200
    seen = await look(hub, session, "p1")
    assert (seen["overruled"], seen["detail"]) == (True, "no longer asked")
    check_problem(await answer(hub, session, "p1", ALLOW), 409, "prompt_already_answered")


@proves("prompt-host-answers")
async def test_the_host_s_own_completed_event_is_an_answer(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [ask("u1"), ask("u2")])
    await publish(hub, session, [reply("u1", "mine"), reply("u2", None)])
    seen = await look(hub, session, "u1")
    assert (seen["status"], seen["answered_by"]) == ("completed", {"host": True})
    late = check_problem(
        await answer(hub, session, "u1", {"answer": "x"}), 409, "prompt_already_answered"
    )
    assert late["answered_by"] == {"host": True}
    assert await status_of(hub, session, "u2") == "withdrawn"
    check_problem(await answer(hub, session, "u2", {"answer": "x"}), 410, "withdrawn")
    async with hosting(hub, session) as (stream, _):
        assert await stream.silent(0.3), "nothing of it goes to the host"


ENDS: dict[str, tuple[Event, str]] = {
    "abort": (copilot("abort", {"reason": "user_initiated"}), "cancelled"),
    "idle-after-abort": (copilot("session.idle", {"aborted": True}), "cancelled"),
    "shutdown": (copilot("session.shutdown", {"shutdownType": "routine"}), "orphaned"),
    "cold-resume": (copilot("session.resume", {"eventCount": 1}), "orphaned"),
}


@pytest.mark.parametrize("name", ENDS)
@proves("prompt-ends")
async def test_an_event_that_ends_the_work_ends_its_prompts_and_tells_every_viewer(
    hub: HubProcess, other_hub: HubProcess, session: str, name: str
) -> None:
    ending, state = ENDS[name]
    await publish(hub, session, [permit("p1"), ask("u2"), tool("x3")])
    path = f"/v1/sessions/{session}/sse?control=1&from=now"
    async with open_stream(other_hub, path) as stream:
        await stream.until("caught_up")
        await publish(hub, session, ending)
        await stream.until("external_tool.completed")
        told = events_of(stream.frames)
    kinds = ("permission.completed", "user_input.completed", "external_tool.completed")
    assert [each["type"] for each in told] == [ending["type"], *kinds]
    for rid, value in (("p1", ALLOW), ("u2", {"answer": "x"}), ("x3", {"result": "x"})):
        assert await status_of(hub, session, rid) == state
        check_problem(await answer(other_hub, session, rid, value), 410, state)
    assert await open_ids(hub, session) == []


@proves("prompt-ends")
async def test_work_that_goes_on_keeps_its_prompts(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [permit("p1"), ask("u2"), tool("x3")])
    warm = copilot("session.resume", {"eventCount": 3, "sessionWasActive": True})
    user = copilot("user.message", {"content": "steer"})
    idle = copilot("session.idle", {})
    await publish(hub, session, [warm, user, idle])
    assert await open_ids(hub, session) == ["p1", "u2", "x3"]
    cold = {"eventCount": 5, "continuePendingWork": True}
    await publish(hub, session, copilot("session.resume", cold))
    assert await open_ids(hub, session) == ["p1", "x3"], "what a runtime still takes an answer for"
    assert await status_of(hub, session, "u2") == "orphaned"


@proves("prompt-ends")
async def test_the_prompts_of_a_sub_agent_end_with_it_alone(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [ask("main"), {**ask("sub"), "agentId": "a1"}])
    stop = {**copilot("abort", {"reason": "user_initiated"}), "agentId": "a1"}
    await publish(hub, session, stop)
    assert await open_ids(hub, session) == ["main"]
    assert await status_of(hub, session, "sub") == "cancelled"


@proves("prompt-ends")
async def test_a_rewind_takes_back_what_was_asked_after_it(hub: HubProcess, session: str) -> None:
    mark = note("back to here")
    await publish(hub, session, [ask("u1"), mark, ask("u2"), permit("p3")])
    data = {"upToEventId": mark["id"], "eventsRemoved": 3}
    await publish(hub, session, copilot("session.snapshot_rewind", data))
    assert await open_ids(hub, session) == ["u1"]
    for rid, value in (("u2", {"answer": "x"}), ("p3", ALLOW)):
        check_problem(await answer(hub, session, rid, value), 410, "rewound")


@proves("prompt-ends")
async def test_a_deleted_session_withdraws_its_prompts(
    hub: HubProcess, other_hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    await publish(hub, session, ask("u1"))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(look(other_hub, session, "u1", "?wait_s=30", timeout=35))
        await listened(redis_link, session, 1)
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
    assert waiting.result()["status"] == "withdrawn"
    given = await answer(other_hub, session, "u1", {"answer": "x"})
    check_problem(given, 410, "session_deleted")
    taken = await claim(other_hub, session, "u1")
    check_problem(taken, 410, "session_deleted")
    for path in (prompts(session), prompts(session, "u1")):
        check_problem(await request(hub, "GET", path), 404, "session_not_found")


@proves("prompt-ends")
async def test_the_end_of_an_everruns_turn_and_a_new_message_end_what_waits(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [turn(1), ask_calls("c1", "c2", turn="turn_1")])
    assert await open_ids(hub, session) == ["c1", "c2"]
    over = {"turn_id": "turn_1", "iterations": 1}
    await publish(hub, session, everruns("turn.completed", over))
    await publish(hub, session, ask_calls("c3"))
    message: Event = {"id": "message_2", "role": "user", "content": []}
    await publish(hub, session, everruns("input.message", {"message": message}))
    assert await open_ids(hub, session) == []
    for rid in ("c1", "c2", "c3"):
        check_problem(await answer(hub, session, rid, {"result": 1}), 410, "cancelled")
    closed = {each["data"]["tool_call_id"]: each for each in await of_type(hub, session, DONE)}
    states = {rid: each["data"]["status"] for rid, each in closed.items()}
    assert states == dict.fromkeys(("c1", "c2", "c3"), "cancelled"), "no pair stays open"


DONE = "tool.completed"


@proves("prompt-batch")
async def test_each_call_of_a_batch_is_a_prompt_of_its_own(hub: HubProcess, session: str) -> None:
    await publish(hub, session, ask_calls("c1", "c2", "c3"))
    assert await open_ids(hub, session) == ["c1", "c2", "c3"]
    assert {each["kind"] for each in await open_prompts(hub, session)} == {"tool"}
    await answered(hub, session, "c2", {"result": {"n": 1}})
    host = {"tool_call_id": "c3", "tool_name": "lookup", "success": True, "status": "success"}
    await publish(hub, session, everruns(DONE, host))
    assert await open_ids(hub, session) == ["c1"]
    (made, _) = await of_type(hub, session, DONE)
    assert made["data"]["tool_call_id"] == "c2"
    assert made["data"]["status"] == "success"
    assert made["session_id"] == session


@proves("prompt-expiry")
async def test_a_prompt_expires_at_its_deadline_and_every_viewer_is_told(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    call_id = "e1"
    path = f"/v1/sessions/{session}/sse?control=1"
    opener = ask_calls(call_id, "plain", name="ask_user", questions=[], expires_at=later(0.7))
    opener["data"]["tool_calls"][1]["arguments"] = {"questions": []}
    await publish(hub, session, opener)
    before = await look(hub, session, call_id)
    assert before["status"] == "pending"
    assert before["expires_at"] > before["opened_at"]
    async with open_stream(hub, path) as one, open_stream(other_hub, path) as two:
        told = [(await closers(stream, DONE, 1))[0]["data"] for stream in (one, two)]
        assert told[0] == told[1]
        assert (told[0]["tool_call_id"], told[0]["status"]) == (call_id, "timeout")
    assert await status_of(hub, session, call_id) == "expired"
    late = await answer(hub, session, call_id, {"status": "declined"})
    check_problem(late, 410, "expired")
    assert await open_ids(hub, session) == ["plain"], "five minutes, not for ever"
    assert (await look(hub, session, "plain"))["expires_at"]


@proves("prompt-expiry")
async def test_a_deadline_in_the_past_refuses_the_answer_swept_or_not(
    hub: HubProcess, session: str
) -> None:
    opener = ask_calls("e1", name="ask_user", questions=[], expires_at=later(-5))
    await publish(hub, session, opener)
    late = await answer(hub, session, "e1", {"status": "declined"})
    check_problem(late, 410, "expired")


@proves("prompt-wait")
async def test_who_waits_hears_each_change_whichever_hub_made_it(
    hub: HubProcess, other_hub: HubProcess, session: str, redis_link: RedisLink
) -> None:
    await publish(hub, session, tool("x1"))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(look(other_hub, session, "x1", "?wait_s=30", timeout=35))
        await listened(redis_link, session, 1)
        held = (await claim(hub, session, "x1")).json()
        assert (await waiting)["status"] == "claimed"
        waiting = group.create_task(look(other_hub, session, "x1", "?wait_s=30", timeout=35))
        await answered(hub, session, "x1", {"result": "42"}, claim_id=held["claim_id"])
        assert (await waiting)["status"] == "completed"
    begun = time.monotonic()
    assert (await look(other_hub, session, "x1", "?wait_s=30"))["status"] == "completed"
    assert time.monotonic() - begun < 5, "it is closed: nothing to wait for"


@proves("prompt-wait")
async def test_who_waits_in_vain_is_answered_when_the_time_is_over(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [ask("u1"), ask("u2")])
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(look(hub, session, "u1", "?wait_s=1"))
        await answered(hub, session, "u2", {"answer": "x"})
    assert waiting.result()["status"] == "pending", "another's change is none of its own"
    assert time.monotonic() - begun >= 1


@proves("prompt-wait", "prompt-claims")
async def test_who_waits_hears_that_a_claim_has_lapsed(hub: HubProcess, session: str) -> None:
    await publish(hub, session, tool("x1"))
    assert (await claim(hub, session, "x1", lease_s=0.5)).status == 200
    begun = time.monotonic()
    assert (await look(hub, session, "x1", "?wait_s=30", timeout=35))["status"] == "pending"
    assert time.monotonic() - begun < 10


@proves("prompt-claims")
async def test_a_claim_keeps_others_out_while_it_lasts(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, tool("x1"))
    held = await claim(hub, session, "x1", lease_s=60)
    assert set(held.json()) == {"claim_id", "expires_at"}
    name = held.json()["claim_id"]
    shown = await look(other_hub, session, "x1")
    assert shown["status"] == "claimed"
    assert shown["claim"]["expires_at"] == held.json()["expires_at"]
    assert name not in str(shown), "the holder's alone"
    check_problem(await claim(other_hub, session, "x1"), 409, "prompt_claimed")
    check_problem(await claim(other_hub, session, "x1", claim_id="other"), 409, "prompt_claimed")
    refused = await answer(other_hub, session, "x1", {"result": "1"})
    check_problem(refused, 409, "prompt_claimed")
    refused = await answer(other_hub, session, "x1", {"result": "1"}, claim_id="other")
    check_problem(refused, 409, "prompt_claimed")
    renewed = await claim(other_hub, session, "x1", claim_id=name, lease_s=120)
    assert renewed.json()["claim_id"] == name
    assert renewed.json()["expires_at"] > held.json()["expires_at"]
    won = await answered(other_hub, session, "x1", {"result": "1"}, claim_id=name)
    assert won["status"] == "completed"


@proves("prompt-claims")
async def test_a_claim_is_given_back_or_lapses(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [tool("x1"), tool("x2", "c2"), tool("x3", "c3")])
    held = (await claim(hub, session, "x1")).json()["claim_id"]
    path = prompts(session, "x1", "claim")
    check_problem(await request(other_hub, "DELETE", f"{path}?claim_id=o"), 409, "prompt_claimed")
    gone = await request(other_hub, "DELETE", f"{path}?claim_id={held}")
    assert (gone.status, gone.body) == (204, b"")
    assert await status_of(hub, session, "x1") == "pending"
    # In a body, and again: it is given back already.
    body = b'{"claim_id":"%b"}' % held.encode()
    assert (await request(hub, "DELETE", path, body=body)).status == 204
    await answered(hub, session, "x1", {"result": "1"})

    short = (await claim(hub, session, "x2", lease_s=0.3)).json()["claim_id"]
    await claim(hub, session, "x3", lease_s=0.3)
    for rid in ("x2", "x3"):
        await look(hub, session, rid, "?wait_s=10", timeout=15)
    late = await answered(hub, session, "x2", {"result": "1"}, claim_id=short)
    assert late["status"] == "completed", "its holder's answer still counts"
    assert (await claim(other_hub, session, "x3")).status == 200, "another takes it over"


@proves("prompt-idempotent")
async def test_the_same_answer_under_its_key_is_told_the_same_again(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, permit("p1"))
    first = await answered(hub, session, "p1", ALLOW, key="a key", comment="c")
    for each in (hub, other_hub):
        assert await answered(each, session, "p1", ALLOW, key="a key", comment="c") == first
    body = b'{ "comment" : "c", "answer":{"kind": "approve\\u002donce"} }'
    headers = {"Idempotency-Key": "a key"}
    path = prompts(session, "p1", "answer")
    spelled = await request(hub, "POST", path, body=body, headers=headers)
    assert (spelled.status, spelled.json()) == (200, first), "the meaning counts"
    for value, comment in ((REJECT, "c"), (ALLOW, "other")):
        reused = await answer(other_hub, session, "p1", value, key="a key", comment=comment)
        check_problem(reused, 422, "idempotency_reused")
    unkeyed = await answer(other_hub, session, "p1", ALLOW, comment="c")
    check_problem(unkeyed, 409, "prompt_already_answered")
    async with hosting(hub, session) as (stream, _):
        read(await stream.take(1))
        assert await stream.silent(0.3), "one command"


@proves("prompt-list")
async def test_the_list_shows_open_prompts_and_others_by_their_status(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [tool("x1"), ask("u2"), permit("p3"), ask("u4"), ask("u5")])
    await answered(hub, session, "u2", {"answer": "x"})
    await publish(hub, session, reply("u4", None))
    held = await claim(hub, session, "x1")
    assert held.status == 200
    assert await open_ids(hub, session) == ["x1", "p3", "u5"]

    async def by(*statuses: str) -> set[str]:
        query = "?" + "&".join(f"status={each}" for each in statuses)
        return {each["request_id"] for each in await open_prompts(hub, session, query)}

    assert await by("claimed") == {"x1"}
    assert await by("pending") == {"p3", "u5"}
    assert await by("completed") == {"u2"}
    assert await by("withdrawn", "completed", "claimed") == {"u4", "u2", "x1"}
    assert await by("rewound") == set()
    for bad in ("status=odd", "limit=0", "limit=201", "limit=x"):
        answer = await request(hub, "GET", f"{prompts(session)}?{bad}")
        check_problem(answer, 400, "invalid_parameter")
    bad_token = await request(hub, "GET", f"{prompts(session)}?page_token=odd")
    check_problem(bad_token, 400, "invalid_page_token")


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@proves("prompt-list")
async def test_pages_cover_each_prompt_once(
    hub: HubProcess, other_hub: HubProcess, session: str, limit: int
) -> None:
    names = [f"u{n}" for n in range(7)]
    await publish(hub, session, [ask(name) for name in names])
    for name in names[:3]:
        await answered(hub, session, name, {"answer": "x"})
    seen: list[str] = []
    token, pages = "", 0
    query = f"?status=pending&status=completed&limit={limit}"
    while token is not None:
        path = f"{prompts(session)}{query}&page_token={token}"
        page = await call((hub, other_hub)[pages % 2], "GET", path)
        assert len(page["data"]) <= limit
        seen += [each["request_id"] for each in page["data"]]
        token, pages = page["next_page_token"], pages + 1
        assert pages < 20
    assert sorted(seen) == names


@proves("prompt-history")
async def test_history_opens_nothing_again(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """Fifty answered questions and one that is open: a viewer that comes is shown one."""
    events: list[Event] = []
    for n in range(50):
        done = {"requestId": f"p{n}", "result": {"kind": "approved"}}
        events += [permit(f"p{n}"), copilot("permission.completed", done)]
    await publish(hub, session, [*events, permit("open")])
    assert await open_ids(other_hub, session) == ["open"]
    # The same openers again, as a producer that replays its own log would send them.
    again = await publish(hub, session, [event for event in events if "requested" in event["type"]])
    assert all(verdict["duplicate"] for verdict in again)
    # And under new ids: a request that is closed opens nothing.
    await publish(hub, session, [permit("p1"), permit("p49")])
    assert await open_ids(hub, session) == ["open"]
    # One that is open is a duplicate.
    (verdict,) = await publish(hub, session, permit("open"))
    assert verdict["duplicate"] is True
    assert await open_ids(hub, session) == ["open"]


@proves("prompt-open")
async def test_what_a_hook_has_decided_is_never_asked(hub: HubProcess, session: str) -> None:
    await publish(hub, session, permit("p1", resolvedByHook=True))
    assert await open_ids(hub, session) == []
    check_problem(await answer(hub, session, "p1", ALLOW), 404, "prompt_not_found")


@proves("prompt-late")
async def test_a_late_answer_is_the_fault_of_that_call_alone(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [permit("p1"), permit("p2")])
    async with open_stream(other_hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        await stream.until("caught_up")
        await answered(hub, session, "p1", ALLOW)
        told = check_problem(
            await answer(hub, session, "p1", REJECT), 409, "prompt_already_answered"
        )
        assert told["answer"] == ALLOW
        assert told["answered_by"]["human"] is True
        assert told["answered_at"]
        await stream.until("permission.completed")
        await publish(hub, session, note("still here"))
        await stream.until("session.info")
    assert await status_of(hub, session, "p2") == "pending"
    assert await status_of(hub, session, "p1") == "completed"


@proves("prompt-many")
async def test_fifty_prompts_answered_and_cancelled_at_random_leave_none_open(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """Each reply names its own prompt, and each prompt gets one closing event."""
    chance = random.Random(11)
    names = [f"u{n}" for n in range(50)]
    await publish(hub, session, [ask(name) for name in names])
    async with open_stream(other_hub, f"/v1/sessions/{session}/sse?control=1") as stream:
        await stream.until("caught_up")

        async def one(name: str) -> None:
            server = chance.choice((hub, other_hub))
            if chance.random() < 0.3:
                await publish(server, session, reply(name, None))
                return
            given = await answer(server, session, name, {"answer": name})
            assert (given.status, given.json()["request_id"]) == (200, name)
            assert given.json()["answer"] == {"answer": name}

        order = chance.sample(names, len(names))
        await asyncio.gather(*map(one, order))
        told = await closers(stream, "user_input.completed", len(names))
        assert await stream.silent(0.3)
    assert sorted(each["data"]["requestId"] for each in told) == sorted(names)
    for each in told:
        assert each["data"].get("answer") in (None, each["data"]["requestId"])
    assert await open_ids(hub, session) == []


@proves("prompt-many")
async def test_an_approval_for_the_session_leaves_each_other_prompt_its_own_answer(
    hub: HubProcess, session: str
) -> None:
    """The host decides what an approval covers: it may close the others itself."""
    await publish(hub, session, [permit(f"p{n}") for n in range(4)])
    won = await answered(hub, session, "p0", {"kind": "approve-for-session"})
    assert won["status"] == "completed"
    assert await open_ids(hub, session) == ["p1", "p2", "p3"]
    approval = {"kind": "commands", "commandIdentifiers": ["ls"]}
    kind = {"kind": "approved-for-session", "approval": approval}
    for rid in ("p1", "p2"):
        data = {"requestId": rid, "result": kind}
        await publish(hub, session, copilot("permission.completed", data))
    await answered(hub, session, "p3", ALLOW)
    closed = await of_type(hub, session, "permission.completed")
    assert [each["data"]["requestId"] for each in closed] == ["p0", "p1", "p2", "p3"]


@proves("prompt-status")
async def test_whoever_comes_or_comes_back_is_told_what_is_open_in_order(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    path = f"/v1/sessions/{session}/sse?control=1"
    await publish(hub, session, [permit("p1"), ask("u2"), tool("x3")])

    async def told(server: HubProcess) -> tuple[int, list[str]]:
        async with open_stream(server, path, states=True) as stream:
            connected, *states = await stream.take(3)
            assert connected.event == "connected"
            assert {each.event for each in states} == {"prompts", "presence"}
            (shown,) = [each for each in states if each.event == "prompts"]
            names = [each["request_id"] for each in shown.json()["data"]]
            return connected.json()["pending_prompts"], names

    for server in (hub, other_hub, hub):
        assert await told(server) == (3, ["p1", "u2", "x3"])
    async with open_stream(hub, path, states=True) as stream:
        await stream.until("caught_up")
        await answered(other_hub, session, "x3", {"result": "1"})
        (change,) = (await stream.until("prompts"))[-1:]
        assert [each["request_id"] for each in change.json()["data"]] == ["p1", "u2"]
    assert await told(hub) == (2, ["p1", "u2"])
    await answered(hub, session, "p1", ALLOW)
    await answered(hub, session, "u2", {"answer": "x"})
    assert await told(other_hub) == (0, [])


@proves("prompt-status")
async def test_a_session_says_how_many_prompts_it_waits_for(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [permit("p1"), ask("u2"), tool("x3")])

    async def shown(server: HubProcess) -> tuple[int, str]:
        seen = await call(server, "GET", f"/v1/sessions/{session}")
        page = await call(server, "GET", f"/v1/sessions?q={session}")
        assert page["data"][0]["pending_prompts"] == seen["pending_prompts"]
        return seen["pending_prompts"], seen["status"]

    waiting = "waitingfortoolresults"
    for server in (hub, other_hub):
        assert await shown(server) == (3, waiting)
    await answered(other_hub, session, "x3", {"result": "1"})
    assert await shown(hub) == (2, waiting)
    await answered(hub, session, "p1", ALLOW)
    assert await shown(other_hub) == (1, waiting)
    await answered(hub, session, "u2", {"answer": "x"})
    pending, status = await shown(hub)
    assert pending == 0
    assert status != waiting


@pytest.mark.parametrize("name", CHANGES)
@proves("prompt-corpus")
async def test_the_open_prompts_after_each_event_of_an_example_history(
    hub: HubProcess, other_hub: HubProcess, session: str, name: str
) -> None:
    expected: list[str] = []
    for number, event in enumerate(sequences()[name]):
        expected = CHANGES[name].get(number, expected)
        await publish(hub, session, event)
        assert await open_ids(other_hub, session) == expected, number
    assert expected == []
    replayed = await publish(hub, session, sequences()[name])
    assert all(verdict["duplicate"] for verdict in replayed)
    assert await open_ids(other_hub, session) == []
