"""The official SDK's `Everruns` client, unmodified, against a hub with a host behind it (§4.8)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import anyio
import pytest

from tests.contract._requirements import proves
from tests.contract.everruns_hosting import hosting, management_client, sdk, stored
from tests.hub_process import HubProcess, running_hub

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # It would have everybody use its `AgentClient`.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def hosted() -> Generator[HubProcess]:
    """A hub that has the example's host for every session."""
    with running_hub("") as hub, hosting(hub):
        yield hub


async def seen(client: Any, session: str, type: str) -> Any:
    """Follow a session to the first event of a type."""
    stream = client.events.stream(session)
    try:
        with anyio.fail_after(20):
            async for event in stream:
                if event.type == type:
                    return event
    finally:
        stream.stop()
        await stream.aclose()
    raise AssertionError(f"the stream ended before {type}")


@proves("everruns-sdk-verbs")
async def test_a_session_is_made_talked_to_listed_and_deleted(hosted: HubProcess) -> None:
    async with management_client(hosted) as client:
        made = await client.sessions.create(
            harness_name="generic", agent_id="agent_1", title="Planning", tags=["a"], locale="de"
        )
        assert (made.title, made.tags, made.status) == ("Planning", ["a"], "started")
        controls = sdk.Controls(locale="de") if hasattr(sdk, "Controls") else None
        message = await client.messages.create(made.id, "hello world", controls)
        assert (message.role, message.content[0].text) == ("user", "hello world")
        await seen(client, made.id, "session.idled")
        listed = await client.messages.list(made.id)
        assert [(one.role, one.content[0].text) for one in listed] == [
            ("user", "hello world"),
            ("agent", "hello world"),
        ]
        assert listed[0].id == message.id
        assert (await client.sessions.get(made.id)).status == "idle"
        assert [one.id for one in await client.sessions.list(agent_id="agent_1")] == [made.id]
        assert [one.id for one in await client.sessions.list(search="plann")] == [made.id]
        exported = (await client.sessions.export(made.id)).splitlines()
        assert len(exported) == len(await client.events.list(made.id))
        await client.sessions.delete(made.id)
        with pytest.raises(sdk.NotFoundError):
            await client.sessions.get(made.id)


@proves("everruns-sdk-verbs")
async def test_a_client_tool_is_called_and_its_result_reaches_the_host(hosted: HubProcess) -> None:
    async with management_client(hosted) as client:
        session = (await client.sessions.create()).id
        await client.messages.create(session, "tool")
        asked = await seen(client, session, "tool.call_requested")
        (call,) = asked.tool_calls()
        assert (call.name, call.arguments) == ("get_time", {"zone": "UTC"})
        assert (await client.sessions.get(session)).status == "waitingfortoolresults"
        result = sdk.ContentPart.make_tool_result(call.id, {"now": "12:00"})
        taken = await client.messages.create_tool_results(session, [result])
        assert (taken.accepted, taken.status) == (1, "active")
        await seen(client, session, "turn.completed")
        (closed,) = await stored(client, session, "tool.completed")
        assert (closed.data["tool_call_id"], closed.data["success"]) == (call.id, True)
        listed = await client.messages.list(session)
        assert [one.role for one in listed] == ["user", "tool_result", "agent"]
        assert "12:00" in listed[-1].content[0].text
        with pytest.raises(sdk.ApiError) as late:
            await client.messages.create_tool_results(session, [result])
        assert (late.value.status_code, late.value.code) == (409, "prompt_already_answered")


@proves("everruns-sdk-verbs")
async def test_a_tool_that_failed_says_why(hosted: HubProcess) -> None:
    async with management_client(hosted) as client:
        session = (await client.sessions.create()).id
        await client.messages.create(session, "tool")
        asked = await seen(client, session, "tool.call_requested")
        failed = sdk.ContentPart.make_tool_error(asked.tool_calls()[0].id, "no clock")
        await client.messages.create_tool_results(session, [failed])
        await seen(client, session, "turn.completed")
        (closed,) = await stored(client, session, "tool.completed")
        assert (closed.data["success"], closed.data["error"]) == (False, "no clock")


@proves("everruns-sdk-verbs")
async def test_results_that_come_too_early_are_sent_again_by_the_client(
    hosted: HubProcess,
) -> None:
    """It reads the phrase in the error and waits for the call that its result has overtaken."""
    async with management_client(hosted) as client:
        session = (await client.sessions.create()).id
        message = await client.messages.create(session, "tool")
        early = sdk.ContentPart.make_tool_result(f"call_{message.id}", "12:00")
        taken = await client.messages.create_tool_results(session, [early])
        assert taken.accepted == 1
        idle = (await client.sessions.create()).id
        with pytest.raises(sdk.ApiError, match="not waiting for tool results") as refused:
            await client.messages.create_tool_results(idle, [early])
        assert (refused.value.status_code, refused.value.code) == (409, "not_waiting")
        with pytest.raises(sdk.ApiError) as empty:
            await client.messages.create_tool_results(idle, [])
        assert empty.value.status_code == 400


@proves("everruns-sdk-verbs")
async def test_a_turn_is_cancelled(hosted: HubProcess) -> None:
    async with management_client(hosted) as client:
        session = (await client.sessions.create()).id
        await client.sessions.cancel(session)
        await client.messages.create(session, "wait")
        await seen(client, session, "turn.started")
        await client.sessions.cancel(session)
        assert (await seen(client, session, "turn.failed")).data["error"] == "cancelled"
        with pytest.raises(sdk.NotFoundError):
            await client.sessions.cancel("session_unknown")


@proves("everruns-sdk-verbs")
async def test_a_new_message_ends_what_was_asked(hosted: HubProcess) -> None:
    async with management_client(hosted) as client:
        session = (await client.sessions.create()).id
        await client.messages.create(session, "ask")
        asked = await seen(client, session, "tool.call_requested")
        await client.messages.create(session, "never mind")
        (closed,) = await stored(client, session, "tool.completed")
        assert closed.data["tool_call_id"] == asked.tool_calls()[0].id
        assert closed.data["status"] == "cancelled"


@proves("everruns-sdk-verbs")
@pytest.mark.parametrize(
    ("resource", "method", "words"),
    [
        ("agents", "list", ()),
        ("agents", "get", ("agent_1",)),
        ("harnesses", "list", ()),
        ("models", "list", ()),
        ("capabilities", "get", ("x",)),
        ("workspaces", "list", ()),
        ("memories", "list", ()),
        ("connections", "list", ()),
        ("sessions", "set_secrets", ("session_1", {"name": "value"})),
    ],
)
async def test_what_is_no_business_of_a_bus_is_not_found(
    hosted: HubProcess, resource: str, method: str, words: tuple[Any, ...]
) -> None:
    async with management_client(hosted) as client:
        with pytest.raises(sdk.NotFoundError) as refused:
            await getattr(getattr(client, resource), method)(*words)
    assert refused.value.code == "not_found"
