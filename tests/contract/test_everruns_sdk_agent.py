"""The official SDK's `AgentClient`, unmodified, against a hub with a host behind it (§4.8)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from typing import Any

import anyio
import pytest

from tests.chaos.proxy import FaultProxy
from tests.contract._requirements import proves
from tests.contract.everruns_hosting import (
    HOST,
    agent_client,
    channel_url,
    hosting,
    management_client,
    sdk,
)
from tests.hub_process import KEY, HubProcess, running_hub

pytestmark = [
    pytest.mark.anyio,
    # Leaving its stream abandons a generator that is still closing: its own fault.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def hosted() -> Generator[HubProcess]:
    """A hub that has the example's host for every session."""
    with running_hub("") as hub, hosting(hub):
        yield hub


async def event_of(agent: Any, session: str, type: str, *, after: int = 0) -> Any:
    """Follow a session from the start to the first event of a type."""
    stream = agent.stream_events(session, after_sequence=after)
    try:
        with anyio.fail_after(20):
            async for event in stream:
                if event.type == type:
                    return event
    finally:
        stream.stop()
        await stream.aclose()
    raise AssertionError(f"the stream ended before {type}")


async def outcome(agent: Any, session: str) -> str:
    """The text of the last reply, once the turn is over."""
    await event_of(agent, session, "turn.completed")
    events = await agent.list_events(session)
    replies = [one for one in events if one.type == "output.message.completed"]
    return str(replies[-1].data["message"]["content"][0]["text"])


@proves("everruns-sdk-agent")
async def test_run_makes_a_session_and_returns_the_reply(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        with anyio.fail_after(30):
            assert await agent.run("hello there") == "hello there"


@proves("everruns-sdk-agent")
async def test_the_example_says_truly_how_it_is_called(hosted: HubProcess) -> None:
    (program,) = re.findall(r'"(import asyncio, everruns_sdk.*)"', HOST.read_text())
    env = {**os.environ, "EVERRUNS_AGENT_URL": channel_url(hosted), "EVERRUNS_AGENT_KEY": KEY}
    with anyio.fail_after(60):
        ran = await anyio.run_process([sys.executable, "-c", program], env=env)
    assert ran.stdout.decode().strip() == "hello"


@proves("everruns-sdk-agent")
async def test_run_goes_on_in_a_session_and_skips_what_was_said(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        session = (await agent.create_session("Two turns"))["id"]
        with anyio.fail_after(30):
            assert await agent.run("one", session_id=session) == "one"
            assert await agent.run("two", session_id=session) == "two"
        shown = await agent.get_session(session)
    assert shown["title"] == "Two turns"
    assert shown["last_turn_status"] == "completed"
    assert shown["status"] in ("active", "idle")


@proves("everruns-sdk-agent")
async def test_a_reply_streams_also_over_broken_connections(hosted: HubProcess) -> None:
    async with FaultProxy(hosted.host, hosted.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/v1/channels/demo"
        async with agent_client(hosted, url=url) as agent:
            session = (await agent.create_session())["id"]
            await agent.send_message(session, "a b c d e f")
            got: list[Any] = []
            stream = agent.stream_events(session, after_sequence=0, max_retries=5)
            with anyio.fail_after(30):
                async for event in stream:
                    got.append(event)
                    if event.type == "output.message.delta" and event.data["delta"] in "bd":
                        proxy.reset_all()
                    if event.type == "turn.completed":
                        break
            stream.stop()
            await stream.aclose()
    kinds = [event.type for event in got]
    assert kinds[:2] == ["input.message", "turn.started"]
    assert kinds[-2:] == ["output.message.completed", "turn.completed"]
    assert got[-2].data["message"]["content"][0]["text"] == "a b c d e f"
    ids = [event.id for event in got]
    assert len(ids) == len(set(ids))
    sequences = [event.sequence for event in got if event.sequence is not None]
    assert sequences == list(range(1, len(sequences) + 1))


@proves("everruns-sdk-agent")
async def test_a_session_and_a_message_are_made_once_under_their_key(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        first = await agent.create_session("T", idempotency_key="key-1")
        assert (await agent.create_session("T", idempotency_key="key-1"))["id"] == first["id"]
        with pytest.raises(sdk.ApiError) as refused:
            await agent.create_session("Other", idempotency_key="key-1")
        assert (refused.value.status_code, refused.value.code) == (422, "idempotency_reused")
        session = first["id"]
        said = await agent.send_message(session, "hi", idempotency_key="m")
        assert await agent.send_message(session, "hi", idempotency_key="m") == said
        with pytest.raises(sdk.ApiError) as refused:
            await agent.send_message(session, "ho", idempotency_key="m")
        assert refused.value.code == "idempotency_reused"
        assert await outcome(agent, session) == "hi"
        events = await agent.list_events(session)
    assert [one.type for one in events].count("input.message") == 1


@proves("everruns-sdk-agent")
async def test_a_question_is_shown_answered_and_reaches_the_host(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        session = (await agent.create_session())["id"]
        await agent.send_message(session, "ask")
        asked = await event_of(agent, session, "tool.call_requested")
        call = asked.tool_calls()[0]
        assert call.name == "ask_user"
        shown = await agent.get_session(session)
        assert shown["status"] == "waitingforinput"
        assert shown["pending_approvals"] == []
        (question,) = shown["pending_questions"]
        assert question["tool_call_id"] == call.id
        assert question["questions"] == call.arguments["questions"]
        assert session in {
            one["id"]
            for one in (await agent.list_sessions())["data"]
            if one["status"] == "waitingforinput"
        }
        wrong = {"answers": [{"id": "q", "selected": ["wine"]}]}
        with pytest.raises(sdk.ApiError) as refused:
            await agent.answer_questions(session, wrong)
        assert (refused.value.status_code, refused.value.code) == (400, "invalid_answer")
        answers = {"answers": [{"id": "q", "selected": ["tea"]}]}
        taken = await agent.answer_questions(session, answers)
        assert taken == {"status": "answered", "answered_by": "user", "session_status": "active"}
        assert "tea" in await outcome(agent, session)
        named = {"tool_call_id": call.id, **answers}
        with pytest.raises(sdk.ApiError) as refused:
            await agent.answer_questions(session, named)
        assert (refused.value.status_code, refused.value.code) == (409, "prompt_already_answered")
        with pytest.raises(sdk.ApiError) as refused:
            await agent.answer_questions(session, answers)
        assert (refused.value.status_code, refused.value.code) == (409, "not_waiting")
        shown = await agent.get_session(session)
    assert (shown["pending_questions"], shown["last_turn_status"]) == ([], "completed")


@proves("everruns-sdk-agent")
async def test_a_question_may_be_declined(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        session = (await agent.create_session())["id"]
        await agent.send_message(session, "ask")
        await event_of(agent, session, "tool.call_requested")
        taken = await agent.answer_questions(session, {"status": "declined", "answers": []})
        assert taken["status"] == "declined"
        assert "declined" in await outcome(agent, session)


@proves("everruns-sdk-agent")
async def test_an_approval_is_shown_and_decided(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        session = (await agent.create_session())["id"]
        await agent.send_message(session, "approve")
        asked = await event_of(agent, session, "tool.call_requested")
        call = asked.tool_calls()[0]
        (gate,) = (await agent.get_session(session))["pending_approvals"]
        assert (gate["tool_call_id"], gate["tool_name"]) == (call.id, "send_email")
        unknown = {"decisions": [{"tool_call_id": "tool_approval_x", "decision": "allow"}]}
        with pytest.raises(sdk.NotFoundError) as refused:
            await agent.submit_tool_approvals(session, unknown)
        assert refused.value.code == "prompt_not_found"
        decisions = {"decisions": [{"tool_call_id": call.id, "decision": "allow_always"}]}
        assert await agent.submit_tool_approvals(session, decisions) == {
            "resolved": [
                {"tool_call_id": call.id, "tool": "send_email", "outcome": "allow_always"}
            ],
            "status": "active",
        }
        assert "allow_always" in await outcome(agent, session)
        with pytest.raises(sdk.ApiError) as late:
            await agent.submit_tool_approvals(session, decisions)
        assert (late.value.status_code, late.value.code) == (409, "prompt_already_answered")


@proves("everruns-sdk-agent")
async def test_a_turn_is_cancelled_and_its_caller_released(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        session = (await agent.create_session())["id"]
        assert (await agent.cancel(session))["status"] == "no_op"

        async def cancel() -> None:
            await event_of(agent, session, "turn.started")
            assert (await agent.cancel(session))["status"] == "cancelled"
            # The host may have been quick.
            assert (await agent.cancel(session))["status"] in ("cancelled", "no_op")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel)
                with pytest.raises(sdk.EverrunsError, match="cancelled"):
                    await agent.run("wait", session_id=session)
        await event_of(agent, session, "session.idled")
        assert (await agent.cancel(session))["status"] == "no_op"
        assert (await agent.get_session(session))["status"] == "failed"
        with anyio.fail_after(30):
            assert await agent.run("again", session_id=session) == "again"


@proves("everruns-sdk-agent")
async def test_events_page_forward_to_an_empty_page(hosted: HubProcess) -> None:
    async with agent_client(hosted) as agent:
        session = (await agent.create_session())["id"]
        await agent.send_message(session, "page")
        await event_of(agent, session, "session.idled")
        seen: list[int] = []
        while page := await agent.list_events(
            session, after_sequence=max(seen, default=0), limit=2
        ):
            assert len(page) <= 2
            seen += [one.sequence for one in page]
        assert seen == list(range(1, seen[-1] + 1))
        assert [one.sequence for one in await agent.list_events(session)] == seen
        for limit in (0, 501):
            with pytest.raises(sdk.ApiError) as refused:
                await agent.list_events(session, limit=limit)
            assert refused.value.status_code == 400


@proves("everruns-sdk-agent")
async def test_a_channel_and_an_end_user_see_their_own_sessions_alone(hosted: HubProcess) -> None:
    async with agent_client(hosted, "one") as one, agent_client(hosted, "two") as two:
        ann, bob = one.for_end_user("ann"), one.for_end_user("bob")
        hers = (await ann.create_session("hers"))["id"]
        theirs = (await one.create_session("nobody's"))["id"]
        assert (await ann.get_session(hers))["id"] == hers
        assert (await one.get_session(hers))["title"] == "hers"
        for other in (bob, two):
            with pytest.raises(sdk.NotFoundError) as refused:
                await other.get_session(hers)
            assert refused.value.code == "session_not_found"
            for call in (
                other.send_message(hers, "x"),
                other.cancel(hers),
                other.list_events(hers),
            ):
                with pytest.raises(sdk.NotFoundError):
                    await call
        with pytest.raises(sdk.NotFoundError):
            await ann.get_session(theirs)
        first = await one.list_sessions(limit=1)
        rest = await one.list_sessions(limit=1, page_token=first["next_page_token"])
        assert "next_page_token" not in rest
        assert {found["id"] for found in first["data"] + rest["data"]} == {hers, theirs}
        assert [found["id"] for found in (await ann.list_sessions())["data"]] == [hers]
        assert (await two.list_sessions())["data"] == []


@proves("everruns-sdk-agent")
async def test_the_card_says_where_sessions_are(hosted: HubProcess) -> None:
    async with agent_client(hosted, "support") as agent:
        card = await agent.card()
    assert (card["name"], card["streaming"]) == ("support", True)
    assert card["input"]["text"] is True
    assert card["links"]["sessions"] == "/v1/channels/support/sessions"


@proves("everruns-sdk-agent")
async def test_an_unknown_key_and_an_unknown_session_are_refused(hosted: HubProcess) -> None:
    async with agent_client(hosted, key="evr_ak_wrong") as agent:
        with pytest.raises(sdk.AuthenticationError):
            await agent.card()
        with pytest.raises(sdk.AuthenticationError):
            await agent.run("hello")
    async with agent_client(hosted) as agent:
        with pytest.raises(sdk.NotFoundError):
            await agent.send_message("session_unknown", "hello")


@proves("everruns-sdk-agent")
async def test_a_runtime_token_is_for_one_end_user_of_one_channel(hosted: HubProcess) -> None:
    async with agent_client(hosted, "apps") as app:
        with pytest.raises(sdk.ApiError) as nobody:
            await app._request("POST", "/runtime-auth")
        assert nobody.value.status_code == 400
        made = await app.for_end_user("ann").runtime_token()
        assert made["token_type"] == "Bearer"
        assert 3_500 < made["expires_in"] <= 3_600
        assert made["virtual_user_id"]
        others = (await app.for_end_user("bob").create_session())["id"]
    token = made["access_token"]
    async with agent_client(hosted, "apps", key=token) as browser:
        with anyio.fail_after(30):
            session = (await browser.create_session("ann's"))["id"]
            assert await browser.run("hello", session_id=session) == "hello"
        assert [found["id"] for found in (await browser.list_sessions())["data"]] == [session]
        with pytest.raises(sdk.NotFoundError):
            await browser.send_message(others, "mine?")
        with pytest.raises(sdk.AuthenticationError):
            await browser.for_end_user("ann").runtime_token()
        with pytest.raises(sdk.ApiError) as refused:
            await browser.for_end_user("bob").list_sessions()
        assert refused.value.status_code == 403
    async with agent_client(hosted, "two", key=token) as elsewhere:
        with pytest.raises(sdk.AuthenticationError):
            await elsewhere.card()
    async with management_client(hosted, key=token) as manager:
        with pytest.raises(sdk.AuthenticationError):
            await manager.sessions.get(session)
    name, _, rest = token.removeprefix("evr_rt_").partition(".")
    for forged in (f"evr_rt_{name[:-1]}A.{rest}", f"evr_rt_.{rest}", "evr_rt_", "evr_rt_%"):
        async with agent_client(hosted, "apps", key=forged) as forger:
            with pytest.raises(sdk.AuthenticationError):
                await forger.card()
