"""Asking and answering against real hubs: one answer, over restarts of hub and host."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from sessionwire import PASS, Answer, Client, Prompt, PromptEnded, Session, SessionHost
from sessionwire.errors import (
    HostConflict,
    InvalidAnswer,
    LeaseLost,
    NotFound,
    PromptAlreadyAnswered,
    PromptClaimed,
    SessionDeleted,
)
from tests.client.sdk import entered, external_tool, message, permission
from tests.hub_process import HubProcess, running_hub, start_hub

pytestmark = pytest.mark.anyio

ONCE = {"kind": "approve-once"}


@pytest.fixture(scope="module")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url) as process:
        yield process


async def first_prompt(session: Session, *kinds: str) -> Prompt:
    async with session.prompts(*kinds) as prompts:
        return await anext(prompts)


async def test_a_question_is_answered_by_a_handler(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as agent, entered(hub, sid) as person:
        asked: list[Any] = []

        @person.on_permission
        async def decide(prompt: Prompt) -> Any:
            assert prompt.event is not None
            asked.append((prompt.asked["permissionRequest"], prompt.event.data.request_id))
            return ONCE

        async with agent.host() as host:
            with anyio.fail_after(20):
                answer = await host.ask(permission("r1"))
        assert (answer.request_id, answer.kind, answer.value) == ("r1", "permission", ONCE)
        assert answer.answered_by is not None
        assert answer.answered_by["human"] is True
        assert asked == [({"kind": "read", "path": "/etc/hosts", "intention": "look"}, "r1")]
        assert (await agent.prompt("r1")).record.status == "completed"
        assert decide.__name__ == "decide", "the decorator leaves the function as it is"


async def test_a_plain_function_answers_in_a_thread(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session, session.host() as host:

        @session.on_user_input
        def decide(prompt: Prompt) -> Any:
            return {"answer": prompt.asked["choices"][0], "wasFreeform": False}

        data = {"requestId": "r1", "question": "which?", "choices": ["a", "b"]}
        with anyio.fail_after(20):
            answer = await host.ask({"type": "user_input.requested", "data": data})
        assert answer.value["answer"] == "a"


async def test_prompts_come_once_each_and_short_words_answer_them(
    hub: HubProcess, sid: str
) -> None:
    async with entered(hub, sid) as session, session.host() as host:
        answers: list[Answer] = []
        found: list[Prompt] = []
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks, session.prompts() as prompts:

                async def ask(request_id: str) -> None:
                    answers.append(await host.ask(permission(request_id)))

                for request_id in ("r1", "r2", "r3"):
                    tasks.start_soon(ask, request_id)
                found += [await anext(prompts) for _ in range(3)]
                await found[0].approve()
                await found[1].reject("no such file")
                await found[2].say("approve")
        by_id = {answer.request_id: answer for answer in answers}
        assert {prompt.request_id for prompt in found} == {"r1", "r2", "r3"} == by_id.keys()
        refused = by_id[found[1].request_id]
        assert (refused.value["kind"], refused.comment) == ("reject", "no such file")


async def test_the_second_answer_hears_of_the_first(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        await session.publish(permission("r1"))
        with anyio.fail_after(20):
            prompt = await first_prompt(session)
            also = await session.prompt("r1")
            with pytest.raises(InvalidAnswer) as wrong:
                await prompt.answer({"kind": "maybe"})
            assert wrong.value.extra["faults"]
            await prompt.answer(ONCE, comment="fine")
            with pytest.raises(PromptAlreadyAnswered) as late:
                await also.answer({"kind": "reject"})
            assert late.value.extra["answer"] == ONCE
            assert (await also.closed()).members["comment"] == "fine"
            with pytest.raises(NotFound):
                await session.prompt("unknown")


async def test_a_handler_that_raises_leaves_the_prompt_to_others(
    hub: HubProcess, sid: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with entered(hub, sid) as broken, entered(hub, sid) as sound, broken.host() as host:
        failed = anyio.Event()

        @broken.on_external_tool
        async def break_(prompt: Prompt) -> Any:
            failed.set()
            raise ZeroDivisionError

        answers: list[Answer] = []
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    answers.append(await host.ask(external_tool("r1")))

                tasks.start_soon(ask)
                await failed.wait()

                @sound.on_external_tool
                async def run(prompt: Prompt) -> Any:
                    return {"result": "done"}

        assert [answer.value for answer in answers] == [{"result": "done"}]
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.exc_info and record.exc_info[0] for record in logged] == [ZeroDivisionError]


async def test_a_claim_is_renewed_while_its_handler_runs_and_given_back(
    hub: HubProcess, sid: str
) -> None:
    async with entered(hub, sid) as session, entered(hub, sid) as other:
        await session.publish(external_tool("r1"))
        with anyio.fail_after(30):
            mine, theirs = await session.prompt("r1"), await other.prompt("r1")
            assert mine.claimable
            async with mine.claim(lease_s=1.2):
                await anyio.sleep(2)
                with pytest.raises(PromptClaimed):
                    async with theirs.claim():
                        raise AssertionError("two claims")
            async with theirs.claim():
                await theirs.answer({"result": "1"})
            assert (await mine.closed()).status == "completed"


async def test_a_handler_whose_prompt_is_over_is_cancelled(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as slow, entered(hub, sid) as fast, slow.host() as host:
        began, ended = anyio.Event(), anyio.Event()

        @slow.on_permission
        async def think(prompt: Prompt) -> Any:
            began.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.ask, permission("r1"))
                await began.wait()
                await (await fast.prompt("r1")).answer(ONCE)
                await ended.wait()


async def test_pass_leaves_a_prompt_to_others(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session, entered(hub, sid) as other:
        seen = anyio.Event()

        @session.on_permission
        async def look(prompt: Prompt) -> Any:
            seen.set()
            return PASS

        with pytest.raises(ValueError, match="have a handler"):
            session.on_permission(look)
        await session.publish(permission("r1"))
        with anyio.fail_after(20):
            await seen.wait()
            assert (await other.prompt("r1")).record.waits


@pytest.mark.parametrize(
    ("event", "state"),
    [
        ({"type": "abort", "data": {"reason": "user_initiated"}}, "cancelled"),
        (
            {
                "type": "permission.completed",
                "data": {"requestId": "r1", "result": {"kind": "approved"}},
            },
            "completed",
        ),
    ],
    ids=["abort", "by-the-host"],
)
async def test_a_question_that_ends_without_an_answer_says_how(
    hub: HubProcess, sid: str, event: dict[str, Any], state: str
) -> None:
    async with entered(hub, sid) as session, session.host() as host:
        ends: list[PromptEnded] = []
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    with pytest.raises(PromptEnded) as caught:
                        await host.ask(permission("r1"))
                    ends.append(caught.value)

                tasks.start_soon(ask)
                await first_prompt(session)
                await session.publish(event)
        assert [(end.request_id, end.state) for end in ends] == [("r1", state)]


async def test_a_question_outlives_its_hub(redis_url: str, sid: str) -> None:
    first = start_hub(redis_url)
    hubs = [first]

    def restart() -> None:
        first.kill()
        hubs.append(start_hub(redis_url, args=["--port", str(first.port)], key=first.key))

    try:
        async with entered(first, sid) as session, session.host(host_id="me") as host:
            answers: list[Answer] = []
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:

                    async def ask() -> None:
                        answers.append(await host.ask(permission("r1")))

                    tasks.start_soon(ask)
                    await first_prompt(session)
                    await anyio.to_thread.run_sync(restart)
                    await (await session.prompt("r1")).answer(ONCE)
        assert [answer.value for answer in answers] == [ONCE]
    finally:
        for each in hubs:
            each.stop()


@pytest.mark.parametrize("acknowledged", [False, True], ids=["in-its-command", "in-the-record"])
async def test_a_program_that_begins_anew_finds_its_answer(
    hub: HubProcess, sid: str, acknowledged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionwire._asking.GRACE_S", 0.2)
    event = {**permission("r1"), "id": "e1"}
    async with entered(hub, sid) as session:
        async with session.host() as host:
            with anyio.move_on_after(0.3):
                await host.ask(event)
        await (await session.prompt("r1")).answer(ONCE)
        if acknowledged:
            async with session.host() as host:
                with anyio.fail_after(20):
                    await host.acknowledge(await anext(host.commands(answers=True)))
        async with session.host() as host:
            with anyio.fail_after(20):
                answer = await host.ask(event)
        assert answer.value == ONCE
        assert (answer.command is None) is acknowledged
        assert (await session.info())["sequence"] == 2, "nothing was asked anew"


async def test_answers_never_stand_among_the_commands(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        await session.publish(permission("r1"))
        await (await session.prompt("r1")).answer(ONCE)
        await session.send("hello")
        async with session.host() as host:
            with anyio.fail_after(20):
                command = await anext(host.commands())
        assert command.type == "message.send"


async def test_several_calls_of_one_event_are_answered_together(hub: HubProcess, sid: str) -> None:
    async with (
        Client(hub.url, hub.key) as client,
        client.session(sid, catalog="everruns") as session,
        session.host() as host,
    ):

        @session.on_tool
        async def run(prompt: Prompt) -> Any:
            return {"result": prompt.asked["arguments"]["n"]}

        calls = [{"id": f"call_{n}", "name": "count", "arguments": {"n": n}} for n in (1, 2)]
        event = {"type": "tool.call_requested", "data": {"tool_calls": calls}}
        with anyio.fail_after(20):
            answers = await host.ask_all(event)
        assert [answer.value["result"] for answer in answers] == [1, 2]
        with pytest.raises(ValueError, match="2 questions"):
            await host.ask(event)


async def test_what_asks_nothing_is_refused_before_it_is_sent(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session, session.host() as host:
        for event in (message(1), permission("r1", resolvedByHook=True)):
            with pytest.raises(ValueError, match="asks nothing"):
                await host.ask(event)
        assert (await session.info())["sequence"] == 0


async def test_another_host_takes_over_and_the_first_one_hears_of_it(
    hub: HubProcess, sid: str
) -> None:
    async def be_the_first(session: Session, ready: anyio.Event) -> None:
        async with session.host(host_id="one"):
            ready.set()
            await anyio.sleep_forever()

    async with entered(hub, sid, create=False) as session:
        ready, lost = anyio.Event(), anyio.Event()

        async def first() -> None:
            with pytest.raises(LeaseLost):
                await be_the_first(session, ready)
            lost.set()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first)
                await ready.wait()
                with pytest.raises(HostConflict):
                    async with session.host(host_id="two"):
                        raise AssertionError("two hosts")
                async with session.host(host_id="two", takeover=True) as host:
                    await lost.wait()
                    assert host.lease > 1


async def test_a_deleted_session_ends_commands_and_questions(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session, session.host() as host:

        async def ask() -> None:
            with pytest.raises((SessionDeleted, PromptEnded)):
                await host.ask(permission("r1"))

        async def obey(host: SessionHost) -> None:
            async for _ in host.commands():
                raise AssertionError("nothing was sent")

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                tasks.start_soon(obey, host)
                await first_prompt(session)
                await session.delete()
