"""Sessions of the SDK against a real hub: following, publishing, steering, errors."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from sessionwire import (
    CaughtUp,
    Client,
    Connected,
    Event,
    LooseData,
    Prompt,
    Prompts,
    ReplayGap,
    Snapshot,
)
from sessionwire._reconnect import Reconnection
from sessionwire.errors import (
    CommandExpired,
    CommandRejected,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    Unauthorized,
    UnknownSession,
)
from tests.chaos.proxy import FaultProxy
from tests.client.sdk import entered, message
from tests.hub_process import HubProcess, running_hub, start_hub

pytestmark = pytest.mark.anyio

Transport = Literal["sse", "websocket"]
both = pytest.mark.parametrize("transport", ["sse", "websocket"])


@pytest.fixture(scope="module")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url) as process:
        yield process


def _nothing(_prompt: Prompt) -> None:
    """Leave every prompt to others."""


async def taken(events: Any, count: int) -> list[Any]:
    """Take so many and leave the rest."""
    with anyio.fail_after(20):
        return [await anext(events) for _ in range(count)]


@both
async def test_an_event_is_typed_and_raw_and_as_it_was_written(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    text = (
        '{"id":"e1", "timestamp":"2026-01-01T00:00:00Z","parentId":null,"more":1.50,'
        '"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"Hé\\u2028"}}'
    )
    async with entered(hub, sid) as session:
        stored = await session.publish(text)
        assert (stored.id, stored.sequence, stored.duplicate) == ("e1", None, False)
        (event,) = await taken(session.follow(transport=transport), 1)
    assert event.body == text
    assert event.bytes == text.encode()
    assert event.cursor == stored.cursor
    assert event.data.delta_content == "Hé\u2028"
    assert event.raw["data"]["messageId"] == "m"
    assert type(event.model).__name__ == "AssistantMessageDeltaEvent"
    assert event.fault is None


@both
async def test_what_fits_no_model_comes_all_the_same(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid) as session:
        wrong = {"type": "assistant.message_delta", "data": {"deltaContent": 7, "more": {"a": 1}}}
        await session.publish([wrong, {"type": "made.up", "data": {"so_called": 1}}])
        misfit, unknown = await taken(session.follow(transport=transport), 2)
    assert misfit.model is None
    assert "messageId" in str(misfit.fault)
    assert isinstance(misfit.data, LooseData)
    assert (misfit.data.delta_content, misfit.data.message_id, misfit.data.more.a) == (7, None, 1)
    assert type(unknown.model).__name__ == "UnknownCopilotEvent"
    assert unknown.data.so_called == 1
    assert dict(unknown.data) == {"so_called": 1}


async def test_both_transports_tell_the_same_events_and_cursors(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        await session.publish([message(n) for n in range(300)])
        sse = await taken(session.follow(transport="sse"), 300)
        websocket = await taken(session.follow(transport="websocket"), 300)
    assert sse == websocket


@both
async def test_everything_that_the_hub_tells_comes_in_one_order(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid) as session:
        title = {"type": "session.title_changed", "data": {"title": "t"}}
        await session.publish([title, message(1)])
        kinds: list[type] = []
        snapshot: Snapshot | None = None
        with anyio.fail_after(20):
            async for item in session.watch(transport=transport, from_="now"):
                kinds.append(type(item))
                snapshot = item if isinstance(item, Snapshot) else snapshot
                if isinstance(item, CaughtUp):
                    break
    assert kinds[0] is Connected
    assert {Prompts, Snapshot} <= set(kinds)
    assert snapshot is not None
    assert [event["type"] for event in snapshot.events] == ["session.title_changed"]


@both
async def test_filters_reach_the_hub(hub: HubProcess, sid: str, transport: Transport) -> None:
    async with entered(hub, sid) as session:
        of_agent = {**message("theirs"), "agentId": "a1"}
        await session.publish([message(1), {"type": "abort", "data": {"reason": "x"}}, of_agent])
        wanted = {"types": ["user.message"], "agents": ["primary"]}
        stream = session.follow(transport=transport, since="", from_="start", **wanted)  # type: ignore[call-overload]
        (event,) = await taken(stream, 1)
        await session.publish([of_agent, message(2)])
        (later,) = await taken(stream, 1)
    assert [event.data.content, later.data.content] == ["1", "2"]


async def test_a_stream_switched_again_and_again_loses_and_doubles_nothing(
    hub: HubProcess, sid: str
) -> None:
    async with entered(hub, sid) as session:
        seen: list[str] = []

        async def write() -> None:
            async with session.publisher() as publisher:
                for number in range(400):
                    await publisher.send(message(number))
                    await anyio.sleep(0.001)

        async with anyio.create_task_group() as tasks, session.follow() as events:
            tasks.start_soon(write)
            with anyio.fail_after(60):
                async for event in events:
                    seen.append(event.data.content)
                    if len(seen) == 400:
                        break
                    if len(seen) % 25 == 0:
                        await events.switch("sse" if len(seen) % 50 else "websocket")
        assert {events.transport} <= {"sse", "websocket"}
    assert seen == [str(number) for number in range(400)]


@both
async def test_a_gap_is_raised_and_what_follows_it_still_comes(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid) as session:
        await session.publish([message(1), message(2)])
        stream = session.follow(since="aaaaaaaa.5.5.aaaaa", transport=transport)
        with pytest.raises(ReplayGap) as caught:
            await taken(stream, 1)
        assert caught.value.reason == "epoch_changed"
        assert [event.data.content for event in await taken(stream, 2)] == ["1", "2"]
        told = session.follow(
            since="aaaaaaaa.5.5.aaaaa", transport=transport, on_gap="item", types=["abort"]
        )
        (gap,) = await taken(told, 1)
    assert (type(gap).__name__, gap.reason) == ("Gap", "epoch_changed")


@both
async def test_a_deleted_session_ends_the_iteration(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid) as session:
        await session.publish(message(1))
        stream = session.follow(transport=transport)
        await taken(stream, 1)
        await session.delete()
        with anyio.fail_after(20):
            assert [event async for event in stream] == []
            assert [event async for event in session.follow(transport=transport)] == []


@both
async def test_refusals_for_good_are_raised(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid, create=False) as session:
        with pytest.raises(UnknownSession):
            await taken(session.follow(transport=transport), 1)
    async with Client(hub.url, "wrong") as client, client.session(sid) as session:
        with pytest.raises(Unauthorized):
            await taken(session.follow(transport=transport), 1)
        with pytest.raises(Unauthorized):
            await session.info()


@both
async def test_a_token_is_asked_for_again_when_one_is_refused(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    given = iter(["expired", hub.key])

    async def token() -> str:
        await anyio.lowlevel.checkpoint()
        return next(given)

    async with entered(hub, sid) as session:
        await session.publish(message(1))
    async with Client(hub.url, token) as client, client.session(sid) as session:
        (event,) = await taken(session.follow(transport=transport), 1)
        assert event.data.content == "1"
        assert (await session.info())["id"] == sid


@both
async def test_a_consumer_that_takes_its_time_is_not_disturbed(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid) as session:
        await session.publish([message(number) for number in range(50)])
        seen: list[str] = []
        reconnected = 0
        with anyio.fail_after(20):
            async for item in session.watch(transport=transport, idle_timeout_s=0.2):
                reconnected += isinstance(item, Connected)
                if isinstance(item, Event):
                    seen.append(item.data.content)
                    await anyio.sleep(0.3 if len(seen) in (1, 2, 49) else 0)
                    if len(seen) == 50:
                        break
    assert seen == [str(number) for number in range(50)]
    assert reconnected == 1


@both
async def test_a_wait_that_is_cancelled_raises_and_loses_nothing(
    hub: HubProcess, sid: str, transport: Transport
) -> None:
    async with entered(hub, sid) as session:
        stream = session.follow(transport=transport)
        for number in range(3):
            with anyio.move_on_after(0.15) as scope:
                await anext(stream)
            assert scope.cancelled_caught
            await session.publish(message(number))
            (event,) = await taken(stream, 1)
            assert event.data.content == str(number)


async def test_events_after_a_restart_of_the_hub_are_those_of_the_log(
    redis_url: str, sid: str
) -> None:
    first = start_hub(redis_url)
    hubs = [first]

    def restart() -> None:
        first.kill()
        hubs.append(start_hub(redis_url, args=["--port", str(first.port)], key=first.key))

    try:
        async with entered(first, sid) as session:
            quarter = anyio.Event()

            async def write() -> None:
                async with session.publisher() as publisher:
                    for number in range(200):
                        await publisher.send(message(number))
                        await anyio.sleep(0.005)

            async def read(transport: Transport, into: list[str]) -> None:
                async for event in session.follow(transport=transport):
                    into.append(event.data.content)
                    if len(into) == 50:
                        quarter.set()
                    if len(into) == 200:
                        return

            over_sse: list[str] = []
            over_websocket: list[str] = []
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(write)
                    tasks.start_soon(read, "sse", over_sse)
                    tasks.start_soon(read, "websocket", over_websocket)
                    await quarter.wait()
                    await anyio.to_thread.run_sync(restart)
        assert over_sse == over_websocket == [str(number) for number in range(200)]
    finally:
        for each in hubs:
            each.stop()


@both
async def test_cuts_between_a_real_hub_and_its_client_lose_and_double_nothing(
    hub: HubProcess, sid: str, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = Reconnection.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "uniform", min)
    async with entered(hub, sid) as session, FaultProxy("127.0.0.1", hub.port) as proxy:
        await session.publish([message(number) for number in range(100)])
        proxy.cut_after = 3_001
        seen: list[str] = []
        async with (
            Client(f"http://127.0.0.1:{proxy.port}", hub.key) as client,
            client.session(sid) as cut,
            cut.follow(transport=transport) as events,
        ):
            with anyio.fail_after(30):
                async for event in events:
                    seen.append(event.data.content)
                    proxy.cut_after += 97
                    proxy.chunk = 1 + len(seen) * 7
                    if len(seen) == 100:
                        break
        assert seen == [str(number) for number in range(100)]
        assert proxy.connections > 3


async def test_a_hub_that_is_not_there_is_named() -> None:
    async with Client("http://127.0.0.1:9", "k") as client, client.session("s") as session:
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:9") as caught:
            await session.info()
        assert caught.value.failure == "unreachable"
        with pytest.raises(ConnectionFailed):
            await taken(session.follow(max_retries=1), 1)


@pytest.mark.parametrize("raises", [KeyError("mine"), anyio.EndOfStream()], ids=["key", "stream"])
async def test_what_a_body_raises_comes_out_as_it_is(
    hub: HubProcess, sid: str, raises: Exception
) -> None:
    async def body() -> None:
        async with entered(hub, sid) as session, session.publisher() as publisher:
            await publisher.send(message(1))
            raise raises

    with pytest.raises(type(raises)) as caught:
        await body()
    assert caught.value is raises
    async with entered(hub, sid) as session:
        (event,) = await taken(session.follow(), 1)
    assert event.data.content == "1", "what was sent before is stored"


async def test_a_session_that_is_cancelled_from_outside_lets_the_cancellation_through(
    hub: HubProcess, sid: str
) -> None:
    with anyio.move_on_after(0.3) as scope:
        async with entered(hub, sid) as session:
            session.on_permission(_nothing)
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_client_that_was_not_entered_closes_with_its_last_session(
    hub: HubProcess, sid: str
) -> None:
    client = Client(hub.url, hub.key)
    async with client.session(sid, catalog="copilot") as session:
        await session.publish(message(1))
        http = client.http
    assert http.is_closed
    async with client.session(sid) as session:
        assert (await session.info())["sequence"] == 1
    assert client.http is not http
    await client.aclose()


async def test_a_receipt_tells_each_stage(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        receipt = await session.send("hello", now=True)
        assert receipt.status == "accepted"
        refused = await session.set_mode("plan")
        async with session.host() as host:
            commands = host.commands()
            first, second = await taken(commands, 2)
            assert first.data == {"prompt": "hello", "mode": "immediate"}
            assert second.data == {"mode": "plan"}
            with anyio.fail_after(20):
                await receipt.delivered()
                await host.acknowledge(first, event_id="e1")
                await receipt.consumed()
                assert receipt.event_id == "e1"
                await host.acknowledge(second, "rejected", detail="not now")
                with pytest.raises(CommandRejected, match="not now"):
                    await refused.consumed()


async def test_a_command_that_nobody_reads_expires(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        receipt = await session.command("x.try", {"a": 1}, expires_in_s=1)
        with anyio.fail_after(20), pytest.raises(CommandExpired):
            await receipt.consumed()


async def test_the_same_command_id_is_one_command(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        first = await session.command("abort", command_id="c1")
        again = await session.command("abort", command_id="c1")
        assert first.raw["cursor"] == again.raw["cursor"]
        with pytest.raises(Conflict, match="another"):
            await session.command("queue.clear", command_id="c1")


async def test_a_list_of_events_is_stored_whole_or_not_at_all(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        with pytest.raises(InvalidRequest) as caught:
            await session.publish([message(1), {"type": "no type!", "data": {}}])
        assert caught.value.extra["index"] == 1
        assert (await session.info())["sequence"] == 0
        stored = await session.publish([message(number) for number in range(600)])
        assert [each.sequence for each in stored] == list(range(1, 601))
        listed = await session.events(limit=2, types=["user.message"])
    assert [event["data"]["content"] for event in listed["data"]] == ["598", "599"]
