"""The official everruns SDK from PyPI, unmodified, against the hub. It has no `py.typed`."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from everruns_sdk import Everruns  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from everruns_sdk.errors import AuthenticationError, NotFoundError  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from everruns_sdk.sse import EventStream, StreamOptions  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from tests.chaos.proxy import FaultProxy
from tests.contract._requirements import proves
from tests.contract.events import everruns, new_session, publish, turn
from tests.hub_process import KEY, HubProcess, running_hub

pytestmark = [
    pytest.mark.anyio,
    # Leaving its stream with `break` abandons a generator that is still closing: its own fault.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def client_of(port: int, key: str = KEY) -> Everruns:
    return Everruns(api_key=key, base_url=f"http://127.0.0.1:{port}/api")


def piece(n: int) -> dict[str, Any]:
    data = {"turn_id": "t", "message_id": "m", "delta": str(n), "accumulated": str(n)}
    return everruns("output.message.delta", data)


async def take(stream: EventStream, count: int) -> list[Any]:
    """The first `count` events of a stream, which is then stopped."""
    got: list[Any] = []
    with anyio.fail_after(20):
        async for event in stream:
            got.append(event)
            if len(got) == count:
                stream.stop()
                break
    return got


@proves("everruns-sdk")
async def test_sdk_streams_stored_then_live_events(hub: HubProcess, session: str) -> None:
    sent = [turn(1), piece(1), turn(2)]
    await publish(hub, session, sent)
    client = client_of(hub.port)
    stream = client.events.stream(session)
    live = [piece(2), turn(3)]
    got: list[Any] = []
    with anyio.fail_after(20):
        async for event in stream:
            got.append(event)
            if len(got) == 3:
                await publish(hub, session, live)
            if len(got) == 5:
                break
    await stream.aclose()
    await client.close()
    assert [event.id for event in got] == [event["id"] for event in [*sent, *live]]
    assert [event.type for event in got] == [event["type"] for event in [*sent, *live]]
    assert [event.sequence for event in got] == [1, None, 2, None, 3]
    assert [event.data for event in got] == [event["data"] for event in [*sent, *live]]
    assert got[0].context is not None


@proves("everruns-sdk", "since-event-id")
async def test_sdk_resumes_after_a_drop_also_at_a_passing_event(
    hub: HubProcess, session: str
) -> None:
    """Its cursor is the id of the last event it saw, which may be a delta's."""
    sent = [turn(1), piece(1), piece(2), turn(2), turn(3)]
    await publish(hub, session, sent)
    async with FaultProxy(hub.host, hub.port) as proxy:
        client = client_of(proxy.port)
        stream = EventStream(client, session, StreamOptions(max_retries=5))
        got: list[Any] = []
        with anyio.fail_after(30):
            async for event in stream:
                got.append(event)
                if len(got) == 3:
                    await publish(hub, session, turn(4))
                if len(got) in (3, 5):
                    proxy.reset_all()
                if len(got) == 6:
                    break
        await stream.aclose()
        await client.close()
        assert proxy.connections >= 2
    ids = [event.id for event in got]
    assert ids[:5] == [event["id"] for event in sent]
    assert len(set(ids)) == 6


@proves("everruns-sdk", "cycle")
async def test_sdk_goes_on_after_each_planned_close(redis_url: str) -> None:
    session = new_session("session")
    settings = {"max_connection_s": 1, "heartbeat_s": 0.5}
    with running_hub(redis_url, env=settings) as hub:
        await publish(hub, session, turn(0))
        client = client_of(hub.port)
        stream = EventStream(client, session, StreamOptions(max_retries=1))
        got: list[Any] = []
        sent = [turn(n) for n in range(1, 13)]

        async def pour() -> None:
            for event in sent:
                await anyio.sleep(0.3)
                await publish(hub, session, event)

        async with anyio.create_task_group() as group:
            group.start_soon(pour)
            with anyio.fail_after(30):
                async for event in stream:
                    got.append(event)
                    if len(got) == 13:
                        break
        assert stream.retry_count == 0, "planned closes cost no retries"
        await stream.aclose()
        await client.close()
    assert [event.id for event in got[1:]] == [event["id"] for event in sent]


@proves("everruns-sdk", "drain")
async def test_sdk_survives_a_restart_of_the_hub(redis_url: str) -> None:
    """Same port, new process: `disconnecting`, then its own backoff."""
    session = new_session("session")
    with running_hub(redis_url, env={"drain_s": 0.5}) as old:
        first = turn(1)
        await publish(old, session, first)
        async with FaultProxy(old.host, old.port) as proxy:
            client = client_of(proxy.port)
            stream = EventStream(client, session, StreamOptions())
            got: list[Any] = []
            with running_hub(redis_url) as new, anyio.fail_after(40):
                async for event in stream:
                    got.append(event)
                    if len(got) == 1:
                        second = turn(2)
                        await publish(new, session, second)
                    if len(got) == 2:
                        proxy.target = (new.host, new.port)
                        old.terminate()
                        await publish(new, session, turn(3))
                    if len(got) == 3:
                        break
                await stream.aclose()
                await client.close()
    assert [event.data["turn_id"] for event in got] == ["turn_1", "turn_2", "turn_3"]


@proves("everruns-sdk", "filters")
async def test_sdk_filters_its_stream(hub: HubProcess, session: str) -> None:
    await publish(hub, session, [turn(1), piece(1), turn(2), piece(2)])
    client = client_of(hub.port)
    stream = client.events.stream(session, types=["turn.started"])
    assert [event.type for event in await take(stream, 2)] == ["turn.started"] * 2
    await stream.aclose()
    options = StreamOptions.exclude_deltas()
    stream = EventStream(client, session, options)
    assert [event.sequence for event in await take(stream, 2)] == [1, 2]
    await stream.aclose()
    await client.close()


@proves("everruns-sdk", "list-filters")
async def test_sdk_lists_with_every_parameter(hub: HubProcess, session: str) -> None:
    context = {"turn_id": "turn_1", "exec_id": "exec_1", "trace_id": "turn_1"}
    done = {"tool_call_id": "c", "tool_name": "bash", "success": True, "status": "success"}
    sent = [
        turn(1, context=context),
        everruns("tool.completed", done, context=context, tags=["alpha"]),
        turn(2),
        turn(3),
    ]
    await publish(hub, session, sent)
    client = client_of(hub.port)

    async def sequences(**query: Any) -> list[int | None]:
        return [event.sequence for event in await client.events.list(session, **query)]

    assert await sequences() == [1, 2, 3, 4]
    assert await sequences(limit=2) == [3, 4]
    assert await sequences(types=["turn.started"], exclude=["tool.completed"]) == [1, 3, 4]
    assert await sequences(before_sequence=4, limit=1) == [3]
    assert await sequences(after_sequence=1, order_desc=False) == [2, 3, 4]
    assert await sequences(order_desc=True, limit=2) == [4, 3]
    assert await sequences(around=sent[1]["id"], window=1) == [1, 2, 3]
    assert await sequences(since_id=sent[1]["id"]) == [3, 4]
    assert await sequences(turn_id="turn_1") == [1, 2]
    assert await sequences(exec_id="exec_1", trace_id="turn_1") == [1, 2]
    assert await sequences(tags=["alpha", "beta"]) == [2]
    assert await sequences(tool_name="bash") == [2]
    assert await sequences(q="turn_3") == [4]
    times = {"from_ts": "2000-01-01T00:00:00Z", "to_ts": "2099-01-01T00:00:00Z"}
    assert await sequences(**times) == [1, 2, 3, 4]
    await client.close()


@proves("everruns-sdk", "session-resource")
async def test_sdk_reads_and_deletes_sessions(hub: HubProcess, session: str) -> None:
    await publish(hub, session, turn(1))
    client = client_of(hub.port)
    seen = await client.sessions.get(session)
    assert seen.id == session
    assert seen.status in ("started", "active", "idle", "waitingfortoolresults")
    assert session in {item.id for item in await client.sessions.list()}
    await client.sessions.delete(session)
    with pytest.raises(NotFoundError):
        await client.sessions.get(session)
    await client.close()


@proves("everruns-sdk", "problem-body")
async def test_sdk_understands_the_hubs_errors(hub: HubProcess, session: str) -> None:
    client = client_of(hub.port)
    with pytest.raises(NotFoundError) as unknown:
        await client.events.list(session)
    assert unknown.value.code == "session_not_found"
    await client.close()
    client = client_of(hub.port, key="wrong")
    with pytest.raises(AuthenticationError) as refused:
        await client.events.list(session)
    assert refused.value.code == "unauthorized"
    await client.close()
