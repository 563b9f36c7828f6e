"""What viewers are told a session is like: `prompts` and `presence` (protocol.md §6.5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from tests.contract._requirements import proves
from tests.contract.events import call, copilot, events_of, new_session, note, publish, turn
from tests.contract.prompting import answered, ask, ask_calls, claim, open_ids, reply, tool
from tests.contract.rpc_client import open_socket
from tests.contract.wire import EventStream, eventually, open_stream
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.anyio


def path(session: str, query: str = "control=1") -> str:
    return f"/v1/sessions/{session}/sse?{query}"


def ids(prompts: Any) -> list[str]:
    """The request ids of a `prompts` frame."""
    return [str(each["request_id"]) for each in prompts["data"]]


def asking(*wanted: str) -> Callable[[Any], bool]:
    """Whether these are the open prompts."""
    return lambda prompts: ids(prompts) == list(wanted)


def is_shown_as(status: str, prompts: Any) -> bool:
    """Whether the first prompt has a status."""
    return bool(prompts["data"][0]["status"] == status)


async def told(stream: EventStream, name: str, wanted: Callable[[Any], bool]) -> Any:
    """Read on to the state that is wanted; its data."""
    frames = await stream.until(lambda frame: frame.event == name and wanted(frame.json()))
    return frames[-1].json()


@proves("state-frames")
async def test_open_prompts_and_presence_come_right_after_connected(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [note("1"), ask("u1"), ask("u2", choices=["a", "b"]), note("2")])
    async with open_stream(hub, path(session), states=True) as stream:
        frames = await stream.until("caught_up")
        assert [frame.event for frame in frames[:3]] == ["connected", "prompts", "presence"]
        connected, prompts, presence = frames[:3]
        assert connected.json()["pending_prompts"] == 2
        assert ids(prompts.json()) == ["u1", "u2"]
        assert prompts.json()["data"][1]["event"]["data"]["choices"] == ["a", "b"]
        assert prompts.json()["data"][0]["unattended"] is False
        assert presence.json() == {"viewers": 1, "can_answer": 1, "host": {"connected": False}}
        assert (prompts.id, presence.id) == (None, None)


@proves("state-frames")
async def test_each_change_is_told_to_the_viewers_of_every_hub(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, note())
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(open_stream(each, path(session), states=True))
            for each in (hub, other_hub)
        ]
        for stream in streams:
            await stream.until("caught_up")
        await publish(hub, session, [ask("u1"), tool("t1")])
        for stream in streams:
            await told(stream, "prompts", asking("u1", "t1"))
        assert (await claim(other_hub, session, "t1", lease_s=30)).status == 200
        for stream in streams:
            found = await told(stream, "prompts", lambda data: data["data"][1]["claim"])
            assert found["data"][1]["status"] == "claimed"
            assert set(found["data"][1]["claim"]) == {"by", "expires_at"}
        await answered(other_hub, session, "u1", {"answer": "yes", "wasFreeform": True})
        for stream in streams:
            await told(stream, "prompts", asking("t1"))


@proves("state-frames")
async def test_who_does_not_read_costs_little_and_is_told_the_newest(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """200 frames of 200 KB do not fit into the buffers of a socket; the hub holds none back."""
    await publish(hub, session, ask("u0", question="x" * 200_000))
    async with open_stream(other_hub, path(session), states=True) as stuck:
        await stuck.until("caught_up")
        before = other_hub.private_kib()
        for n in range(1, 201):
            await publish(hub, session, ask(f"u{n}"))
            await anyio.sleep(0.01)  # so that they are changes of their own
        assert other_hub.private_kib() - before < 16 * 1024
        wanted = [f"u{n}" for n in range(201)]
        while ids(stuck.states["prompts"]) != wanted:
            await stuck.next()
        await publish(hub, session, note("last"))
        await stuck.until(lambda frame: "last" in (frame.data or ""))
        asked = [event["data"].get("requestId") for event in events_of(stuck.frames)]
        assert asked == [*wanted, None]
        frames = [frame for frame in stuck.frames if frame.event == "prompts"]
        assert sum(len(frame.raw) for frame in frames) < 30_000_000


@proves("state-frames")
async def test_a_claim_that_lapses_is_told(hub: HubProcess, session: str) -> None:
    await publish(hub, session, tool("t1"))
    async with open_stream(hub, path(session), states=True) as stream:
        await stream.until("caught_up")
        assert (await claim(hub, session, "t1", lease_s=1)).status == 200
        for status in ("claimed", "pending"):
            await told(stream, "prompts", partial(is_shown_as, status))


@proves("state-frames")
async def test_filters_hide_no_prompts_and_plain_streams_show_none(
    hub: HubProcess, session: str
) -> None:
    await publish(hub, session, [note(), ask("u1")])
    query = "control=1&types=session.idle&agents=nobody"
    async with open_stream(hub, path(session, query), states=True) as stream:
        await told(stream, "prompts", asking("u1"))
    async with open_stream(hub, path(session, "control=0"), states=True) as stream:
        assert (await stream.next()).json()["pending_prompts"] == 1
        await publish(hub, session, note("last"))
        await stream.until(lambda frame: "last" in (frame.data or ""))
        assert stream.states == {}


@proves("state-frames")
async def test_over_a_websocket_they_are_notifications(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, ask("u1"))
    async with open_socket(other_hub) as client:
        result = await client.call("session.subscribe", session_id=session)
        assert result["session"]["pending_prompts"] == 1

        await client.state(session, "prompts", asking("u1"))
        there = {"viewers": 1, "can_answer": 1, "host": {"connected": False}}
        wanted = {"session_id": session, **there}
        await client.state(session, "presence", lambda data: data == wanted)
        await publish(hub, session, ask("u2"))
        await client.state(session, "prompts", asking("u1", "u2"))


@proves("state-frames")
async def test_what_changes_while_the_live_path_is_cut_is_told(own_redis: RedisProcess) -> None:
    session = new_session()
    with running_hub(own_redis.url) as hub:
        await publish(hub, session, ask("u1"))
        async with open_stream(hub, path(session), states=True) as stream:
            await stream.until("caught_up")
            assert ids(stream.states["prompts"]) == ["u1"]
            async with RedisLink(Settings(redis_url=own_redis.url)) as redis:
                for n in range(2, 6):
                    await redis.command("CLIENT", "KILL", "TYPE", "pubsub")
                    await publish(hub, session, ask(f"u{n}"))
                    wanted = [f"u{m}" for m in range(1, n + 1)]
                    await told(stream, "prompts", asking(*wanted))


@proves("state-frames")
async def test_a_restart_of_redis_keeps_both_states(own_redis: RedisProcess) -> None:
    session = new_session()
    with running_hub(own_redis.url, env={"redis_timeout_s": 1}) as hub:
        await publish(hub, session, [note(), ask("u1")])
        async with open_stream(hub, path(session), states=True) as stream:
            await stream.until("caught_up")
            own_redis.stop()
            own_redis.start()

            async def is_back() -> bool:
                return await open_ids(hub, session) == ["u1"]

            await eventually(is_back, "the hub is back")
            await publish(hub, session, ask("u2"))
            await told(stream, "prompts", asking("u1", "u2"))
            async with open_stream(hub, path(session), states=True) as other:
                await told(other, "presence", lambda data: data["viewers"] == 2)
                await told(stream, "presence", lambda data: data["viewers"] == 2)


@proves("state-frames")
async def test_a_session_begun_anew_has_states_of_its_own(hub: HubProcess, session: str) -> None:
    await publish(hub, session, ask("u1"))
    async with open_stream(hub, path(session), states=True) as stream:
        await stream.until("caught_up")
        await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
        await stream.until("disconnecting")
    await call(hub, "POST", "/v1/sessions", status=201, body=json.dumps({"id": session}).encode())
    async with open_stream(hub, path(session), states=True) as stream:
        await stream.until("caught_up")
        assert ids(stream.states["prompts"]) == []
        await publish(hub, session, ask("u1"))
        await told(stream, "prompts", asking("u1"))


@proves("presence-true")
async def test_presence_is_told_over_hubs_and_when_one_is_killed(redis_url: str) -> None:
    session = new_session()
    env = {"presence_s": 2}
    with running_hub(redis_url, env=env) as hub, running_hub(redis_url, env=env) as dying:
        await publish(hub, session, [note(), ask("u1")])
        host = f"/v1/sessions/{session}/commands/sse"
        async with (
            open_stream(hub, host, states=True) as commands,
            open_stream(hub, path(session), states=True) as stream,
        ):
            await told(commands, "presence", lambda data: data == {"viewers": 1, "can_answer": 1})
            await told(stream, "presence", lambda data: data["host"]["connected"])
            async with AsyncExitStack() as stack:
                for _ in range(5):
                    await stack.enter_async_context(open_stream(dying, path(session)))
                six = {"viewers": 6, "can_answer": 6}
                await told(commands, "presence", lambda data: data == six)
                await told(stream, "presence", lambda data: data["viewers"] == 6)
                dying.kill()
                await told(commands, "presence", lambda data: data["viewers"] == 1)
                await told(stream, "presence", lambda data: data["viewers"] == 1)
        await publish(hub, session, note("the host has left"))
        async with open_stream(hub, path(session), states=True) as stream:
            await told(stream, "presence", lambda data: not data["host"]["connected"])


@proves("presence-true", "prompt-unattended")
async def test_the_prompts_frame_says_when_nobody_can_answer(
    redis_url: str, hub: HubProcess, tmp_path: Path
) -> None:
    session = new_session()
    keys = tmp_path / "keys.json"
    scopes = {"watcher": ["read"], "person": ["read", "answer"], "agent": ["publish"]}
    entries = [{"key": key, "scopes": given, "sessions": ["*"]} for key, given in scopes.items()]
    keys.write_text(json.dumps(entries))
    await publish(hub, session, ask("u1"))
    with running_hub(redis_url, args=["--keys", str(keys)]) as strict:
        watching = {"Authorization": "Bearer watcher"}
        async with open_stream(strict, path(session), headers=watching, states=True) as stream:

            async def is_told(unattended: bool) -> None:
                await told(stream, "prompts", lambda d: d["data"][0]["unattended"] is unattended)

            await is_told(True)
            person = {"Authorization": "Bearer person"}
            async with open_stream(strict, path(session), headers=person):
                await is_told(False)
            await is_told(True)
            async with open_stream(hub, path(session)):
                await is_told(False)


@proves("presence-true")
async def test_a_host_over_a_websocket_is_told_who_watches(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await publish(hub, session, note())
    async with open_socket(hub) as client, open_stream(other_hub, path(session)):
        await client.call("host.attach", session_id=session)
        wanted = {"session_id": session, "viewers": 1, "can_answer": 1}
        await client.state(session, "host.presence", lambda data: data == wanted)


@proves("opener-kept")
@pytest.mark.parametrize("transport", ["sse", "ws"])
async def test_an_ephemeral_opener_is_replayed_where_the_tail_has_passed_it(
    short_hub: HubProcess, session: str, transport: str
) -> None:
    await publish(short_hub, session, [note("first"), ask("u1"), ask("gone"), ask("u2")])
    await publish(short_hub, session, reply("gone"))
    for n in range(3):
        await publish(short_hub, session, [note(f"{n} {m}") for m in range(50)])
    wanted = ["session.info", "user_input.requested", "user_input.requested"]

    async def replayed(since: str, query: str = "") -> list[tuple[str, Any]]:
        """The cursors and events from a place on, up to where it is caught up."""
        if transport == "sse":
            given = f"control=1&since_id={since}{query}"
            async with open_stream(short_hub, path(session, given)) as stream:
                frames = await stream.until("caught_up")
            events = [frame for frame in frames if frame.id and events_of([frame])]
            return [(str(frame.id), frame.json()) for frame in events]
        async with open_socket(short_hub) as client:
            filters = {"types": [query.partition("=")[2]]} if query else {}
            await client.call("session.subscribe", session_id=session, since_id=since, **filters)
            found: list[tuple[str, Any]] = []
            while (noted := await client.note())[0] != "session.caught_up":
                if noted[0] == "session.event":
                    found.append((noted[1]["cursor"], noted[1]["event"]))
            return found

    events = await replayed("")
    assert [event["type"] for _, event in events[:3]] == wanted
    assert [event["data"].get("requestId") for _, event in events[1:3]] == ["u1", "u2"]
    assert len(events) == 153
    after_first = await replayed(events[1][0])
    assert [cursor for cursor, _ in after_first] == [cursor for cursor, _ in events[2:]]
    after_both = await replayed(events[2][0])
    assert [cursor for cursor, _ in after_both] == [cursor for cursor, _ in events[3:]]
    only = await replayed("", "&types=user_input.requested")
    assert [event["data"]["requestId"] for _, event in only] == ["u1", "u2"]
    await answered(short_hub, session, "u1", {"answer": "yes", "wasFreeform": True})
    asked = await replayed("", "&types=user_input.requested")
    assert [event["data"]["requestId"] for _, event in asked] == ["u2"]


@proves("opener-kept")
async def test_an_opener_that_the_tail_still_holds_reaches_who_comes_from_before_it(
    short_hub: HubProcess, session: str
) -> None:
    for n in range(3):
        await publish(short_hub, session, [note(f"{n} {m}") for m in range(50)])
    await publish(short_hub, session, [ask("u1"), ask("gone"), reply("gone"), note("last")])
    async with open_stream(short_hub, path(session)) as stream:
        events = events_of(await stream.until("caught_up"))
    assert len(events) == 152
    assert [event["data"].get("requestId") for event in events[-2:]] == ["u1", None]


@proves("opener-kept")
async def test_a_rewound_opener_is_not_replayed(short_hub: HubProcess, session: str) -> None:
    first = note("rewound from here")
    await publish(short_hub, session, [note("kept"), ask("before"), first, ask("after")])
    for n in range(3):
        await publish(short_hub, session, [note(f"{n} {m}") for m in range(50)])
    rewind = copilot("session.snapshot_rewind", {"upToEventId": first["id"], "eventsRemoved": 1})
    await publish(short_hub, session, rewind)
    for n in range(3):
        await publish(short_hub, session, [note(f"{n} {m}") for m in range(50)])
    async with open_stream(short_hub, path(session)) as stream:
        events = events_of(await stream.until("caught_up"))
    asked = [event["data"]["requestId"] for event in events if "requestId" in event["data"]]
    assert asked == ["before"]


@proves("pending-counted")
@pytest.mark.parametrize("catalog", ["copilot", "everruns"])
async def test_open_prompts_are_counted_wherever_a_session_is_shown(
    hub: HubProcess, other_hub: HubProcess, session: str, catalog: str
) -> None:
    opener = ask("u1") if catalog == "copilot" else ask_calls("u1")
    await publish(hub, session, note() if catalog == "copilot" else turn())
    listing = f"/v1/sessions/sse?q={session}"
    filtered = f"{listing}&status=waitingfortoolresults"
    async with open_stream(other_hub, listing) as plain, open_stream(hub, filtered) as waiting:
        before = (await plain.until("snapshot"))[-1].json()["data"][0]
        assert (await waiting.until("snapshot"))[-1].json()["data"] == []
        assert before["pending_prompts"] == 0
        await publish(hub, session, opener)
        for stream in (plain, waiting):
            shown = await told(stream, "session.updated", lambda data: data["pending_prompts"] == 1)
            assert shown["status"] == "waitingfortoolresults"
        one = await call(other_hub, "GET", f"/v1/sessions/{session}")
        assert (one["pending_prompts"], one["status"]) == (1, "waitingfortoolresults")
        page = await call(hub, "GET", f"/v1/sessions?q={session}&status=waitingfortoolresults")
        assert [each["pending_prompts"] for each in page["data"]] == [1]
        given = {"answer": "x", "wasFreeform": True} if catalog == "copilot" else {"result": "x"}
        await answered(other_hub, session, "u1", given)
        shown = await told(plain, "session.updated", lambda data: data["pending_prompts"] == 0)
        assert shown["status"] == before["status"]
        await told(waiting, "session.deleted", lambda data: data == {"id": session})
