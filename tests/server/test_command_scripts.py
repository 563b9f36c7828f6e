"""The scripts of steering, each call made to fail in turn: a fault leaves nothing behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from sessionwire_server import scripts
from sessionwire_server.errors import HubError
from sessionwire_server.host_lease import Lease
from sessionwire_server.keys import DEADLINES, SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.redis_process import RedisProcess
from tests.server.store_events import durable, send, until
from tests.server.test_command_store import Bench
from tests.server.test_scripts import faulty, pick

pytestmark = pytest.mark.anyio


@dataclass
class Case:
    """An operation, the script that carries it out, and how many calls that makes for reading."""

    script: str
    reads: int
    run: Callable[[Bench, Lease], Awaitable[object]]


def _settle(bench: Bench, _lease: Lease) -> Awaitable[object]:
    return bench.deadlines._run("deadline_settle", (DEADLINES,), bench.sid, 1, 2)  # pyright: ignore[reportPrivateUsage]


CASES = [
    Case("command_send", 4, lambda bench, _: bench.send("new", expires_in_s=60)),
    Case("command_take", 7, lambda bench, lease: bench.take(lease)),
    Case("command_ack", 3, lambda bench, _: bench.ack("kept")),
    Case("host_attach", 3, lambda bench, _: bench.attach("other", takeover=True)),
    Case("host_renew", 2, lambda bench, lease: bench.hosts.renew(lease)),
    Case("host_release", 1, lambda bench, lease: bench.hosts.release(lease)),
    Case("end_due", 4, lambda bench, _: bench.deadlines.end_due(bench.sid)),
    Case("deadline_note", 1, lambda bench, _: bench.deadlines.note(bench.sid, -(2 * 10**12))),
    Case("deadline_take", 2, lambda bench, _: bench.deadlines.look()),
    Case("deadline_settle", 1, _settle),
]


async def dumped(link: RedisLink, sid: str) -> dict[str, object]:
    """Everything that steering keeps."""
    keys = (*SessionKeys.of(sid).all(), DEADLINES)
    return {key: await link.command("DUMP", key) for key in keys}


async def fault_of(call: Awaitable[object]) -> Exception | None:
    """What a call ends with, None if it does its work."""
    try:
        await call
    except Exception as error:
        return error
    return None


async def prepared(link: RedisLink, sid: str) -> tuple[Bench, Lease]:
    """Make a session with a host, a command that is over and one that waits."""
    settings = Settings(redis_url=link.url)
    await send(EventStore(link, settings), sid, durable("a"))
    bench = Bench(link, settings, sid)
    lease = await bench.attach()
    await bench.send("over", expires_in_s=0.001)
    await bench.send("kept")

    async def is_over() -> bool:
        return await bench.status("over") == "expired"

    await until(is_over)
    return bench, lease


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
async def test_a_fault_before_the_first_write_leaves_nothing(
    own_redis: RedisProcess, sid: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of the script fails in turn, until the first that has changed something."""
    async with RedisLink(Settings(redis_url=own_redis.url)) as link:
        bench, lease = await prepared(link, sid)
        whole = scripts.load(case.script)
        faults = 0
        for at in range(1, 100):
            await link.command("ZADD", DEADLINES, 1, sid)
            before = await dumped(link, sid)
            broken = faulty(whole, at)
            with monkeypatch.context() as patch:
                patch.setattr(scripts, "load", lambda name, broken=broken: pick(name, broken))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
                fault = await fault_of(case.run(bench, lease))
            assert fault is None or "injected" in str(fault), "no call was left to fail"
            assert not isinstance(fault, HubError)
            if await dumped(link, sid) != before:
                break
            assert fault is not None, "it ran to its end and wrote nothing"
            faults += 1
        else:
            pytest.fail("no call of the script ever wrote")
        assert faults > case.reads, "all reading and the first write were made to fail"
