"""Commands in Redis: taken once, handed out in order, ended once; the host's lease."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from sessionwire_server.command_store import CommandStore, Handed, LeaseLost
from sessionwire_server.commands import Acknowledge, NewCommand
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.errors import HubError
from sessionwire_server.host_lease import HostLeases, Lease
from sessionwire_server.keys import DEADLINES, SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import durable, pushes, send, until

pytestmark = pytest.mark.anyio

BY = {"id": "tester", "name": None, "human": False}
CONSUMED = Acknowledge(outcome="consumed", event_id="e1")
REJECTED = Acknowledge(outcome="rejected", detail="busy")


class Bench:
    """One hub's half of steering, and a session that exists."""

    def __init__(self, link: RedisLink, settings: Settings, sid: str) -> None:
        self.link, self.sid, self.keys = link, sid, SessionKeys.of(sid)
        self.deadlines = Deadlines(link)
        self.commands = CommandStore(link, settings, self.deadlines)
        self.hosts = HostLeases(link, settings, self.deadlines)

    async def send(self, name: str, **more: Any) -> Any:
        data = more.pop("data", b"{}")
        return await self.commands.send(self.sid, NewCommand(name, "x.test", data, BY, **more))

    async def attach(self, host: str = "host", *, takeover: bool = False) -> Lease:
        return await self.hosts.attach(self.sid, host, takeover=takeover)

    async def take(self, lease: Lease, after: int = 0) -> Handed:
        return await self.commands.take(self.sid, lease.number, after)

    async def ack(self, name: str, said: Acknowledge = CONSUMED) -> Any:
        return await self.commands.acknowledge(self.sid, name, said)

    async def status(self, name: str) -> str:
        return (await self.commands.look(self.sid, name)).status

    async def host(self) -> int | None:
        """Since when there is a host, as the session shows it."""
        store = EventStore(self.link, Settings(redis_url=self.link.url))
        return (await store.session(self.sid)).host_since_ms


@pytest.fixture
def settings(redis_url: str) -> Settings:
    return Settings(redis_url=redis_url, commands_max=5, host_lease_s=60)


@pytest.fixture
async def bench(redis_link: RedisLink, store: EventStore, settings: Settings, sid: str) -> Bench:
    await send(store, sid, durable("a"))
    return Bench(redis_link, settings, sid)


def told(handed: Handed) -> list[dict[str, Any]]:
    """What the host reads."""
    commands = [json.loads(data) for _, data in handed.frames]
    assert [str(cursor) for cursor, _ in handed.frames] == [each["cursor"] for each in commands]
    return commands


async def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(HubError) as caught:
        await call
    return caught.value.status, caught.value.code


async def test_a_command_is_told_to_its_host_as_it_was_written(bench: Bench) -> None:
    receipt = await bench.send('quoted"\\', data=b'{"n":1.50,"s":"\xc3\xa9"}')
    assert (receipt.status, receipt.attempt, receipt.cursor.n) == ("accepted", 0, 1)
    lease = await bench.attach()
    assert (lease.after, lease.newest, lease.epoch) == (0, 1, receipt.cursor.epoch)
    handed = await bench.take(lease)
    assert b'"data":{"n":1.50,"s":"\xc3\xa9"}' in handed.frames[0][1]
    (command,) = told(handed)
    created = command.pop("created_at")
    assert command == {
        "id": 'quoted"\\',
        "cursor": f"{lease.epoch}.1",
        "type": "x.test",
        "data": {"n": 1.5, "s": "é"},
        "by": BY,
        "attempt": 1,
    }
    assert (await bench.take(lease, handed.after)).frames == []
    seen = await bench.commands.look(bench.sid, 'quoted"\\')
    assert (seen.status, seen.attempt, seen.members()["created_at"]) == ("delivered", 1, created)
    done = await bench.ack('quoted"\\')
    assert (done.status, done.event_id, done.detail) == ("consumed", "e1", None)
    assert done.created_ms <= done.delivered_ms <= done.finished_ms
    assert not await bench.link.command("EXISTS", bench.keys.commands, bench.keys.due + "x")


async def test_the_same_id_is_one_command_also_a_hundred_times_at_once(bench: Bench) -> None:
    receipts: list[Any] = []

    async def send_it() -> None:
        receipts.append(await bench.send("one", data=b'{"a": 1, "b": 2}'))

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(send_it)
    assert {receipt.cursor.n for receipt in receipts} == {1}
    assert await bench.link.command("XLEN", bench.keys.commands) == 1
    assert (await bench.send("one", data=b'{"b":2,"a":1}')).cursor.n == 1, "the same meaning"
    reused = (409, "command_id_reused")
    assert await refusal(bench.send("one", data=b'{"a":2,"b":2}')) == reused
    assert await refusal(bench.send("one", data=b'{"a":1,"b":2}', expires_in_s=5)) == reused
    await bench.ack("one")
    assert (await bench.send("one", data=b'{"a":1,"b":2}')).status == "consumed"


async def test_as_many_commands_wait_as_may_and_answers_always(bench: Bench) -> None:
    for n in range(5):
        await bench.send(f"c{n}")
    assert await refusal(bench.send("c5")) == (429, "commands_full")
    assert (await bench.send("c0")).cursor.n == 1, "it is there already"
    assert (await bench.send("answer", is_answer=True)).status == "accepted"
    await bench.ack("c2")
    await bench.ack("c3")
    assert (await bench.send("c5")).cursor.n == 7


async def test_a_session_that_is_not_steerable_takes_answers_alone(
    bench: Bench, store: EventStore
) -> None:
    await bench.send("before")
    await send(store, bench.sid, durable("b", steerable=False))
    assert await refusal(bench.send("after")) == (409, "not_steerable")
    assert (await bench.send("before")).status == "accepted"
    assert (await bench.send("answer", is_answer=True)).status == "accepted"
    await send(store, bench.sid, durable("c", steerable=True))
    assert (await bench.send("after")).status == "accepted"


async def test_nothing_is_taken_for_a_session_that_is_not_there(
    bench: Bench, store: EventStore
) -> None:
    other = Bench(bench.link, Settings(redis_url=bench.link.url), bench.sid + "-none")
    lease = await bench.attach()
    await bench.send("c")
    missing = (404, "session_not_found")
    for call in (other.send("c"), other.status("c"), other.ack("c"), other.attach()):
        assert await refusal(call) == missing
    assert await refusal(bench.status("unknown")) == (404, "command_not_found")
    assert await refusal(bench.ack("unknown")) == (404, "command_not_found")
    await store.delete_session(bench.sid)
    assert await refusal(bench.send("c")) == (410, "session_deleted")
    assert await refusal(bench.ack("c")) == (410, "session_deleted")
    for call in (bench.status("c"), bench.attach(), bench.take(lease), bench.hosts.renew(lease)):
        assert await refusal(call) == missing
    await bench.hosts.release(lease)
    keys = [key for key in bench.keys.all() if await bench.link.command("EXISTS", key)]
    assert keys == [bench.keys.meta]


async def test_what_is_not_acknowledged_comes_again_in_order_at_the_next_attach(
    redis_link: RedisLink, store: EventStore, redis_url: str, sid: str
) -> None:
    await send(store, sid, durable("a"))
    bench = Bench(redis_link, Settings(redis_url=redis_url), sid)
    for n in range(50):
        await bench.send(f"c{n}")
    lease = await bench.attach()
    seen: list[dict[str, Any]] = []
    after, more = lease.after, True
    while more:
        handed = await bench.take(lease, after)
        seen += told(handed)
        after, more = handed.after, handed.more
    assert [each["id"] for each in seen] == [f"c{n}" for n in range(50)]
    assert {each["attempt"] for each in seen} == {1}
    for n in (0, 1, 7):
        await bench.ack(f"c{n}")
    again = await bench.attach()
    assert (again.number > lease.number, again.after) == (True, 2)
    with pytest.raises(LeaseLost):
        await bench.take(lease, after)
    handed = await bench.take(again, again.after)
    ids = [each["id"] for each in told(handed)]
    assert ids == [f"c{n}" for n in range(2, 19) if n != 7]
    assert {each["attempt"] for each in told(handed)} == {2}
    assert (await bench.commands.look(sid, "c2")).attempt == 2
    assert (await bench.commands.look(sid, "c40")).attempt == 1


async def test_an_acknowledgement_counts_once(bench: Bench) -> None:
    await bench.send("c")
    first = await bench.ack("c", REJECTED)
    assert (first.status, first.detail) == ("rejected", "busy")
    assert await bench.ack("c", REJECTED) == first
    assert await refusal(bench.ack("c")) == (409, "already_acknowledged")
    assert await bench.commands.look(bench.sid, "c") == first


async def test_one_host_at_a_time_and_its_number_grows(bench: Bench) -> None:
    assert await bench.host() is None
    first = await bench.attach("one")
    since = await bench.host()
    assert since is not None
    assert await refusal(bench.attach("two")) == (409, "host_conflict")
    again = await bench.attach("one")
    assert again.number > first.number
    assert await bench.host() == since, "it has been there all the time"
    second = await bench.attach("two", takeover=True)
    assert second.number > again.number
    for lost in (first, again):
        with pytest.raises(LeaseLost):
            await bench.hosts.renew(lost)
        await bench.hosts.release(lost)
    assert await bench.host() is not None, "an older lease gives nothing back"
    await bench.send("c")
    stale = Acknowledge(outcome="consumed", lease=again.number)
    assert await refusal(bench.ack("c", stale)) == (409, "lease_lost")
    assert await refusal(bench.ack("c", Acknowledge(outcome="consumed", lease=2**53 - 1))) == (
        409,
        "lease_lost",
    )
    await bench.hosts.release(second)
    assert await bench.host() is None
    held = Acknowledge(outcome="consumed", lease=second.number)
    assert (await bench.ack("c", held)).status == "consumed", "nobody else came"
    assert (await bench.attach("three")).number > second.number


async def test_a_lease_that_nobody_renews_ends_and_is_told(
    redis_link: RedisLink, store: EventStore, redis_url: str, sid: str
) -> None:
    await send(store, sid, durable("a"))
    settings = Settings(redis_url=redis_url, host_lease_s=0.2)
    bench = Bench(redis_link, settings, sid)
    async with pushes(redis_link, bench.keys.live) as next_push:
        lease = await bench.attach("one")
        assert await next_push() == f"h {lease.epoch} {lease.number} 1\n".encode()
        async with anyio.create_task_group() as group:
            group.start_soon(bench.deadlines.run)
            assert await next_push() == f"h {lease.epoch} {lease.number} 0\n".encode()
            group.cancel_scope.cancel()
        assert await bench.host() is None
        await bench.hosts.renew(lease)
        assert await next_push() == f"h {lease.epoch} {lease.number} 1\n".encode()
        assert await bench.host() is not None, "nobody else came meanwhile"


async def test_a_lapsed_lease_is_free_before_anybody_has_swept_it(
    redis_link: RedisLink, store: EventStore, redis_url: str, sid: str
) -> None:
    await send(store, sid, durable("a"))
    bench = Bench(redis_link, Settings(redis_url=redis_url, host_lease_s=0.001), sid)
    first = await bench.attach("one")

    async def is_free() -> bool:
        try:
            await bench.attach("two")
        except HubError:
            return False
        return True

    await until(is_free)
    with pytest.raises(LeaseLost):
        await bench.hosts.renew(first)


async def test_a_command_that_no_host_has_read_expires_by_itself(bench: Bench) -> None:
    async with pushes(bench.link, bench.keys.live) as next_push:
        receipt = await bench.send("c", expires_in_s=0.1)
        epoch = receipt.cursor.epoch
        assert receipt.expires_ms == receipt.created_ms + 100
        assert await next_push() == f"c {epoch}\n1 accepted c\n".encode()
        async with anyio.create_task_group() as group:
            group.start_soon(bench.deadlines.run)
            assert await next_push() == f"c {epoch}\n1 expired c\n".encode()
            group.cancel_scope.cancel()
    seen = await bench.commands.look(bench.sid, "c")
    assert seen.status == "expired"
    assert seen.finished_ms >= receipt.expires_ms
    assert await refusal(bench.ack("c")) == (410, "expired")
    assert (await bench.take(await bench.attach())).frames == []
    assert not await bench.link.command("EXISTS", bench.keys.commands)
    assert await bench.link.command("ZRANGE", bench.keys.due, 0, -1) == [b"host"]


async def test_redis_clock_expires_a_command_whether_swept_or_not(bench: Bench) -> None:
    await bench.send("c", expires_in_s=0.001)
    await bench.send("d")

    async def is_over() -> bool:
        return await bench.status("c") == "expired"

    await until(is_over)
    assert await bench.link.command("XLEN", bench.keys.commands) == 2, "nobody has swept"
    assert await refusal(bench.ack("c")) == (410, "expired")
    assert (await bench.send("c", expires_in_s=0.001)).status == "expired"
    lease = await bench.attach()
    assert [each["id"] for each in told(await bench.take(lease))] == ["d"]
    assert await bench.link.command("XLEN", bench.keys.commands) == 1


async def test_a_command_that_was_read_is_its_host_s_and_does_not_expire(bench: Bench) -> None:
    await bench.send("c", expires_in_s=0.2)
    await bench.take(await bench.attach())
    assert await bench.link.command("ZRANGE", bench.keys.due, 0, -1) == [b"host"]
    await anyio.sleep(0.25)
    assert await bench.deadlines.end_due(bench.sid) != (0, False), "the lease is still to end"
    assert await bench.status("c") == "delivered"
    assert (await bench.ack("c")).status == "consumed"


async def test_receipts_of_finished_commands_are_kept_for_a_day(bench: Bench) -> None:
    await bench.send("c")
    await bench.ack("c")
    for key in (bench.keys.receipts, bench.keys.finished):
        assert 86_300_000 < await bench.link.command("PTTL", key) <= 86_400_000
    await bench.send("d")
    for key in (bench.keys.receipts, bench.keys.finished):
        assert await bench.link.command("PTTL", key) == -1, "a command waits"
    await bench.link.command("ZINCRBY", bench.keys.finished, -86_400_001, "c")
    await bench.ack("d")
    assert await refusal(bench.status("c")) == (404, "command_not_found")
    assert await bench.status("d") == "consumed"


async def test_the_newest_thousand_finished_receipts_are_kept(bench: Bench) -> None:
    await bench.send("first")
    await bench.ack("first")
    stuffing: list[Any] = []
    for n in range(1_050):
        stuffing += [2**41 + n, f"old{n}"]
    await bench.link.command("ZADD", bench.keys.finished, *stuffing)
    await bench.send("last")
    await bench.ack("last")
    assert await bench.link.command("ZCARD", bench.keys.finished) == 1_000
    assert await refusal(bench.status("first")) == (404, "command_not_found")


async def test_a_command_and_a_host_keep_an_idle_session(
    redis_link: RedisLink, redis_url: str, sid: str
) -> None:
    settings = Settings(redis_url=redis_url, session_ttl_s=0.001)
    store = EventStore(redis_link, settings)
    bench = Bench(redis_link, settings, sid)
    await send(store, sid, durable("a"))
    await anyio.sleep(0.01)
    await bench.send("c")
    assert not await store.retire(sid)
    await bench.ack("c")
    lease = await bench.attach()
    assert not await store.retire(sid)
    await bench.hosts.release(lease)
    assert await store.retire(sid)
    receipt = await bench.send("d")
    assert receipt.cursor.n == 2, "numbers are not given again"
    assert await redis_link.command("TTL", bench.keys.meta) == -1, "it is no longer retired"
    assert not await store.retire(sid)


async def test_a_hint_is_taken_by_one_hub_and_comes_back_if_that_one_dies(bench: Bench) -> None:
    link = bench.link
    await link.command("DEL", DEADLINES)
    await bench.send("c", expires_in_s=0.001)

    async def is_due() -> bool:
        return await bench.status("c") == "expired"

    await until(is_due)
    assert await bench.deadlines.look() == 1
    assert await bench.deadlines.look() == 0
    assert await link.command("ZSCORE", DEADLINES, bench.sid) is None, "nothing more is due"
    assert not await link.command("EXISTS", bench.keys.commands)
    await bench.deadlines.note(bench.sid, 0)
    before = await link.command("ZSCORE", DEADLINES, bench.sid)
    taken, sid = await bench.deadlines._run("deadline_take", (DEADLINES,), 64, 10_000)  # pyright: ignore[reportPrivateUsage]
    assert sid.decode() == bench.sid
    assert taken >= before + 10_000
    await bench.deadlines.note(bench.sid, 5_000)
    await bench.deadlines._run("deadline_settle", (DEADLINES,), bench.sid, taken, 0)  # pyright: ignore[reportPrivateUsage]
    assert await link.command("ZSCORE", DEADLINES, bench.sid) < taken, "noted meanwhile: it stays"


async def test_an_attach_repairs_a_lost_hint(bench: Bench) -> None:
    await bench.send("c", expires_in_s=600)
    await bench.link.command("ZREM", DEADLINES, bench.sid)
    await bench.attach()
    assert await bench.link.command("ZSCORE", DEADLINES, bench.sid) is not None
    next_ms, _ = await bench.deadlines.end_due(bench.sid)
    assert next_ms == await bench.link.command("ZSCORE", bench.keys.due, "host")
