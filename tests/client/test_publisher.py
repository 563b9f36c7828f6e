"""Publishing a stream of events: batched, in order, bounded, safe over every fault."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest

from sessionwire import Client, Publisher, Session
from sessionwire._reconnect import Reconnection
from sessionwire.errors import InvalidRequest, Unauthorized, Unavailable
from tests.client.scripted_hub import Answer
from tests.client.sdk import entered, message
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def hub(redis_url: str) -> Generator[HubProcess]:
    with running_hub(redis_url) as process:
        yield process


class Store:
    """A hub that takes events, as far as its script lets it.

    Attributes:
        stored: ids in the order in which they were stored.
        requests: how many events each request had.
    """

    def __init__(self, *answers: Answer | int) -> None:
        self.stored: list[str] = []
        self.requests: list[int] = []
        self.url = ""
        self.gate = anyio.Event()
        self.gate.set()
        self._answers = list(answers)

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            while True:
                events = await self._request(client)
                if events is None:
                    return
                self.requests.append(len(events))
                await self.gate.wait()
                if self._answers:
                    answer = self._answers.pop(0)
                    if isinstance(answer, int):
                        await client.send(_spelled(answer, {"code": "no", "detail": "no"}))
                        continue
                    await answer(client)
                    return
                await client.send(_spelled(200, {"data": [self._store(each) for each in events]}))

    def _store(self, event: dict[str, Any]) -> dict[str, Any]:
        duplicate = event["id"] in self.stored
        if not duplicate:
            self.stored.append(event["id"])
        place = self.stored.index(event["id"]) + 1
        return {"id": event["id"], "cursor": "c", "sequence": place, "duplicate": duplicate}

    async def _request(self, client: anyio.abc.SocketStream) -> list[dict[str, Any]] | None:
        data = b""
        try:
            while b"\r\n\r\n" not in data:
                data += await client.receive()
            head, _, body = data.partition(b"\r\n\r\n")
            size = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            while len(body) < size:
                body += await client.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
        events: list[dict[str, Any]] = json.loads(body)
        return events


def _spelled(status: int, body: Any) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(text), text)


@asynccontextmanager
async def storing(store: Store) -> AsyncGenerator[Session]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, store.serve)
        async with Client(f"http://127.0.0.1:{port}") as client, client.session("s") as session:
            yield session
        tasks.cancel_scope.cancel()


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = Reconnection.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "uniform", min)


async def send_all(publisher: Publisher, numbers: range) -> None:
    for number in numbers:
        await publisher.send({**message(number), "id": f"e{number}"})


async def test_what_is_sent_meanwhile_goes_together_and_in_order() -> None:
    store = Store()
    with anyio.fail_after(20):
        async with storing(store) as session:
            store.gate = anyio.Event()
            async with session.publisher() as publisher:
                await send_all(publisher, range(600))
                store.gate.set()
    assert store.stored == [f"e{number}" for number in range(600)]
    assert max(store.requests) == 256
    assert len(store.requests) <= 4
    assert publisher.stored == 600


async def test_a_hub_that_is_slow_slows_the_producer_down() -> None:
    store = Store()
    with anyio.fail_after(20):
        async with storing(store) as session:
            store.gate = anyio.Event()
            async with session.publisher(max_held=10) as publisher:
                await send_all(publisher, range(10))
                with anyio.move_on_after(0.2) as scope:
                    await publisher.send(message(10))
                assert scope.cancelled_caught
                store.gate.set()
                await send_all(publisher, range(10, 30))
            small = session.publisher(max_held_bytes=200)
            async with small as publisher:
                store.gate = anyio.Event()
                await publisher.send(message("x" * 500))
                with anyio.move_on_after(0.2) as scope:
                    await publisher.send(message(1))
                assert scope.cancelled_caught
                store.gate.set()
    assert len(store.stored) == 31


async def cut(client: anyio.abc.SocketStream) -> None:
    """End the connection without an answer."""


@pytest.mark.usefixtures("no_backoff")
async def test_lost_answers_and_refusals_for_now_double_nothing() -> None:
    store = Store(cut, 503, 429, cut, 500)
    with anyio.fail_after(20):
        async with storing(store) as session, session.publisher() as publisher:
            await send_all(publisher, range(300))
    assert store.stored == [f"e{number}" for number in range(300)]


async def test_an_event_that_is_refused_is_left_out_and_told(hub: HubProcess, sid: str) -> None:
    async def publish(session: Session) -> Publisher:
        publisher = session.publisher()
        async with publisher:
            for number in range(50):
                await publisher.send(message(number))
            looked = await publisher.send({"type": "no type!", "data": {}})
            unseen = await publisher.send({"type": "connected", "data": {}})
            await publisher.send(message(50))
            with pytest.raises(InvalidRequest) as caught:
                await looked.stored()
            assert caught.value.code == "invalid_type"
            assert unseen.id
        return publisher

    async with entered(hub, sid) as session:
        with anyio.fail_after(20), pytest.raises(InvalidRequest) as caught:
            await publish(session)
        assert caught.value.code == "reserved_type"
        listed = await session.events()
    assert [event["data"]["content"] for event in listed["data"]] == [str(n) for n in range(51)]


async def test_what_cannot_go_on_is_told_to_whoever_sends(hub: HubProcess, sid: str) -> None:
    async def publish(session: Session) -> None:
        async with session.publisher() as publisher:
            sent = await publisher.send(message(1))
            with pytest.raises(Unauthorized):
                await sent.stored()
            with pytest.raises(Unauthorized):
                await publisher.send(message(2))

    async with Client(hub.url, "wrong") as client, client.session(sid) as session:
        with anyio.fail_after(20), pytest.raises(Unauthorized):
            await publish(session)


async def test_patience_has_an_end() -> None:
    async def publish(session: Session) -> None:
        async with session.publisher(patience_s=0.0) as publisher:
            await publisher.send(message(1))

    async with storing(Store(*[503] * 10)) as session:
        with anyio.fail_after(20), pytest.raises(Unavailable):
            await publish(session)


async def test_verdicts_say_what_was_there_before(hub: HubProcess, sid: str) -> None:
    async with entered(hub, sid) as session:
        async with session.publisher() as publisher:
            first = await publisher.send({**message(1), "id": "e1"})
            again = await publisher.send({**message(1), "id": "e1"})
            with anyio.fail_after(20):
                assert (await first.stored()).duplicate is False
                assert (await again.stored()).duplicate is True
                assert (await again.stored()).cursor == (await first.stored()).cursor
        assert (publisher.stored, publisher.duplicates, publisher.refused) == (1, 1, 0)
        with pytest.raises(RuntimeError, match="async with"):
            await publisher.send(message(2))


@pytest.mark.parametrize(
    ("event", "error"),
    [("[1]", ValueError), ("nonsense", ValueError), ({"type": object()}, TypeError)],
    ids=["a list", "no json", "an object"],
)
async def test_what_is_no_event_is_refused_at_once(
    hub: HubProcess, sid: str, event: Any, error: type[Exception]
) -> None:
    async with entered(hub, sid) as session, session.publisher() as publisher:
        with pytest.raises(error):
            await publisher.send(event)


async def test_every_spelling_of_an_event_is_taken(hub: HubProcess, sid: str) -> None:
    from sessionwire.copilot import UserMessageData, UserMessageEvent

    typed = UserMessageEvent(
        id="e4",
        timestamp="2026-01-01T00:00:00Z",
        parentId=None,
        type="user.message",
        data=UserMessageData(content="4"),
    )
    text = json.dumps(message(1))
    async with entered(hub, sid) as session:
        await session.publish([text, text.encode(), message(3), typed])
        with anyio.fail_after(20):
            followed = await anext(session.follow(from_="-1"))
        assert followed.id == "e4"
        await session.publish(followed)
        listed = await session.events()
    assert [each["data"]["content"] for each in listed["data"]] == ["1", "1", "3", "4"]
