"""Joining requests: order, bounds, and nobody's answer lost to somebody else's cancellation."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint

from sessionwire_server.errors import HubError
from sessionwire_server.publish_call import PublishRequest
from sessionwire_server.publish_queue import SESSION_REQUESTS, PublishQueue
from sessionwire_server.redis_link import StorageFull, StoreUnavailable
from tests.server.store_events import durable

pytestmark = pytest.mark.anyio


class Redis:
    """Calls that end when the test says so; the reply to a request is the id of its event."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = anyio.Semaphore(0)
        self.fails: Exception | None = None

    async def __call__(self, sid: str, requests: Sequence[PublishRequest]) -> Sequence[str]:
        names = [request.entries[0].id for request in requests]
        self.calls.append(names)
        await self.gate.acquire()
        if self.fails is not None:
            raise self.fails
        return names


def request(name: str, size: int = 2) -> PublishRequest:
    return PublishRequest("copilot", True, [durable(name, b"x" * size)])


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await checkpoint()


async def test_what_arrives_during_a_call_goes_together_in_the_next() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    replies: list[str] = []

    async def submit(name: str) -> None:
        replies.append(await queue.submit("s", request(name)))

    async with anyio.create_task_group() as group:
        for name in "abcd":
            group.start_soon(submit, name)
        await settle()
        assert redis.calls == [["a"]]
        redis.gate.release()
        await settle()
        assert redis.calls == [["a"], ["b", "c", "d"]]
        redis.gate.release()
    assert replies == ["a", "b", "c", "d"]
    assert queue.calls == 2


async def test_sessions_do_not_wait_for_each_other() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    async with anyio.create_task_group() as group:
        group.start_soon(queue.submit, "s", request("a"))
        group.start_soon(queue.submit, "t", request("b"))
        await settle()
        assert redis.calls == [["a"], ["b"]]
        redis.gate.release()
        redis.gate.release()


async def test_a_call_is_bounded_in_requests_and_bytes() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    async with anyio.create_task_group() as group:
        group.start_soon(queue.submit, "s", request("first"))
        await settle()
        for n in range(70):
            group.start_soon(queue.submit, "s", request(f"e{n}"))
        for name in ("big1", "big2"):
            group.start_soon(queue.submit, "s", request(name, 3 * 2**20))
        group.start_soon(queue.submit, "s", request("huge", 16 * 2**20))
        await settle()
        for _ in range(5):
            redis.gate.release()
            await settle()
    assert [len(call) for call in redis.calls] == [1, 64, 7, 1, 1]
    assert redis.calls[2][-1] == "big1"
    assert redis.calls[4] == ["huge"]


async def test_more_than_may_wait_is_answered_busy() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    async with anyio.create_task_group() as group:
        for n in range(SESSION_REQUESTS):
            group.start_soon(queue.submit, "s", request(f"e{n}"))
        await settle()
        with pytest.raises(HubError) as caught:
            await queue.submit("s", request("late"))
        assert (caught.value.status, caught.value.code) == (503, "busy")
        assert caught.value.headers["Retry-After"] == "1"
        for _ in range(5):
            redis.gate.release()
            await settle()
    assert "late" not in [name for call in redis.calls for name in call]


async def test_bytes_that_wait_are_bounded_over_all_sessions() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    async with anyio.create_task_group() as group:
        for n in range(5):
            group.start_soon(queue.submit, f"s{n % 2}", request(f"e{n}", 12 * 2**20))
        await settle()
        with pytest.raises(HubError, match="waiting"):
            await queue.submit("s0", request("late", 12 * 2**20))
        for _ in range(5):
            redis.gate.release()
            await settle()
    redis.gate.release()
    assert await queue.submit("s0", request("again", 12 * 2**20)) == "again"


async def test_a_cancelled_driver_brings_its_call_to_an_end() -> None:
    """The others of the call get their replies, and the next call is made."""
    redis = Redis()
    queue = PublishQueue(redis)
    replies: list[str] = []
    ended: list[str] = []
    scopes: dict[str, anyio.CancelScope] = {}

    async def submit(name: str) -> None:
        with anyio.CancelScope() as scopes[name]:
            replies.append(await queue.submit("s", request(name)))
            await checkpoint()
        ended.append(name)

    async with anyio.create_task_group() as group:
        for name in "abcde":
            group.start_soon(submit, name)
        await settle()
        redis.gate.release()
        await settle()
        assert redis.calls == [["a"], ["b", "c", "d", "e"]]
        scopes["b"].cancel()
        scopes["d"].cancel()
        group.start_soon(submit, "f")
        await settle()
        assert "b" not in ended, "it drives, so it waits for the reply"
        assert "d" in ended
        redis.gate.release()
        await settle()
        redis.gate.release()
    assert redis.calls[2:] == [["f"]]
    assert {"a", "c", "e", "f"} <= set(replies)
    assert sorted(ended) == list("abcdef")


async def test_a_cancelled_waiter_is_not_sent_and_hands_its_turn_on() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    scopes: dict[str, anyio.CancelScope] = {}

    async def submit(name: str) -> None:
        with anyio.CancelScope() as scopes[name]:
            await queue.submit("s", request(name))

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(submit, name)
        await settle()
        redis.gate.release()
        # b is told to drive in the same turn of the loop in which it is cancelled.
        scopes["b"].cancel()
        await settle()
        redis.gate.release()
    assert redis.calls == [["a"], ["c"]]


async def test_a_waiter_cancelled_after_being_given_the_turn_hands_it_on() -> None:
    redis = Redis()
    queue = PublishQueue(redis)
    scopes: dict[str, anyio.CancelScope] = {}

    async def submit(name: str) -> None:
        with anyio.CancelScope() as scopes[name]:
            await queue.submit("s", request(name))
            if name == "a":
                scopes["b"].cancel()

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(submit, name)
        await settle()
        redis.gate.release()
        await settle()
        redis.gate.release()
    assert redis.calls in ([["a"], ["c"]], [["a"], ["b", "c"]])
    redis.gate.release()
    assert await queue.submit("s", request("d")) == "d"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(StoreUnavailable("gone"), StoreUnavailable), (StorageFull(), StorageFull)],
    ids=["unavailable", "full"],
)
async def test_a_failed_call_fails_each_of_its_requests_with_an_error_of_its_own(
    error: HubError, kind: type[HubError]
) -> None:
    redis = Redis()
    redis.fails = error
    queue = PublishQueue(redis)
    caught: list[HubError] = []

    async def submit(name: str) -> None:
        try:
            await queue.submit("s", request(name))
        except HubError as failure:
            caught.append(failure)

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(submit, name)
        await settle()
        redis.gate.release()
        redis.gate.release()
    assert [type(failure) for failure in caught] == [kind] * 3
    assert len({id(failure) for failure in caught}) == 3
    redis.fails = None
    redis.gate.release()
    assert await queue.submit("s", request("d")) == "d"


async def test_a_cancelled_loop_over_submissions_ends() -> None:
    """Calls are shielded from cancellation; the loop around them is not."""
    redis = Redis()
    queue = PublishQueue(redis)
    sent = 0
    with anyio.CancelScope() as scope:
        while True:
            redis.gate.release()
            await queue.submit("s", request("a"))
            sent += 1
            if sent == 3:
                scope.cancel()
    assert sent == 3
