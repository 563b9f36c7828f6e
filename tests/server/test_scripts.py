"""The scripts as texts: they read and check first, then write, and a fault leaves nothing behind.

A script that fails in the middle keeps what it wrote (Redis rolls nothing back), so a fault may
only happen before the first write.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from sessionwire_server import scripts
from sessionwire_server.entries import Head
from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.scripts import Script
from sessionwire_server.session_record import SessionFields
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import delta, durable, passing, send

pytestmark = pytest.mark.anyio

READING = [name for name in scripts.names() if "no-writes" in scripts.load(name).text[:40]]
WRITING = [name for name in scripts.names() if name not in READING]

CALL = re.compile(r"redis\.call\('([A-Z]+)'")

READS = {
    *("EXISTS", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "TIME", "TTL", "XLEN"),
    *("XRANGE", "XREVRANGE", "ZCARD", "ZRANGE", "ZRANGEBYSCORE", "ZSCORE"),
}

FAULTY = """
local counted, at = 0, {at}
local real = redis
local redis = setmetatable({{call = function(...)
  counted = counted + 1
  if counted == at then error('injected') end
  return real.call(...)
end}}, {{__index = real}})
"""


def faulty(script: Script, at: int) -> Script:
    """Make the script's call number `at` fail."""
    first, _, rest = script.text.partition("\n")
    return Script.of(script.name, f"{first}\n{FAULTY.format(at=at)}\n{rest}")


def test_the_scripts_of_the_store_are_there() -> None:
    read = {"locate", "locate_time", "log_page", "look", "open_messages", "page", "position_at"}
    assert read <= set(READING)
    assert {case.script for case in CASES} <= set(WRITING)


@pytest.mark.parametrize("name", READING)
def test_a_reading_script_says_so_to_redis(name: str) -> None:
    text = scripts.load(name).text
    assert text.startswith("#!lua flags=no-writes\n")
    assert set(CALL.findall(text)) <= READS


@pytest.mark.parametrize("name", WRITING)
def test_a_writing_script_writes_only_after_its_mark(name: str) -> None:
    """Without flags Redis refuses it before it starts when memory is full."""
    text = scripts.load(name).text
    assert text.startswith("#!lua\n")
    before, mark, after = text.partition("\n-- WRITES")
    assert mark
    assert set(CALL.findall(before)) <= READS
    assert set(CALL.findall(after)) - READS
    if "SPUBLISH" in text:
        assert CALL.findall(after)[-1] == "SPUBLISH", "viewers are told last"


@dataclass
class Case:
    """An operation, the script that carries it out, and how many calls that makes for reading."""

    script: str
    reads: int
    run: Callable[[EventStore, str, Head, str], Awaitable[object]]


NEW = SessionFields("copilot", "title", b"{}")

CASES = [
    Case(
        "publish",
        12,
        lambda store, sid, _head, _epoch: send(
            store,
            sid,
            durable("a"),
            passing("known"),
            passing("gone"),
            durable("n1", last_key="title", closes=("m|a",), title="t", status="idle"),
            delta("n2", "m|b"),
            durable("n3", rewind_to="a", last_key="new"),
        ),
    ),
    Case("create", 2, lambda store, sid, _head, _epoch: store.create_session(sid + "n", NEW)),
    Case("delete", 2, lambda store, sid, _head, _epoch: store.delete_session(sid)),
    Case("renew_epoch", 1, lambda store, sid, head, epoch: store.renew_epoch(sid, epoch, head)),
    Case("retire", 3, lambda store, sid, _head, _epoch: store.retire(sid)),
    Case("trim", 2, lambda store, sid, _head, _epoch: store.trim(sid)),
]


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """Everything there is to trim, retire and look up is due at once."""
    return Settings(
        redis_url=redis_url,
        log_max_events=100,
        log_max_age_s=0.001,
        tail_max=50,
        session_ttl_s=0.001,
    )


async def dumped(link: RedisLink, sid: str) -> dict[str, object]:
    """Everything a session holds."""
    keys = (*SessionKeys.of(sid).all(), *SessionKeys.of(sid + "n").all())
    return {key: await link.command("DUMP", key) for key in keys}


async def prepared(link: RedisLink, store: EventStore, sid: str) -> None:
    """Make a session with something of everything; old enough to be trimmed and retired."""
    kept = Settings(redis_url=link.url, tail_max=50)
    keeping = EventStore(link, kept)
    await send(keeping, sid, passing("gone"), durable("a", last_key="title"), delta("d", "m|a"))
    await send(keeping, sid, *(durable(f"e{n}") for n in range(250)), passing("known"))
    for name in ("received_ms", "updated_ms"):
        await link.command("HINCRBY", SessionKeys.of(sid).meta, name, -5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
async def test_a_fault_before_the_first_write_leaves_nothing(
    store: EventStore,
    redis_link: RedisLink,
    sid: str,
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call of the script fails in turn, until the first that has changed something."""
    await prepared(redis_link, store, sid)
    outlook = await store.look(sid)
    before = await dumped(redis_link, sid)
    whole = scripts.load(case.script)
    faults = 0
    for at in range(1, 200):
        broken = faulty(whole, at)
        with monkeypatch.context() as patch:
            patch.setattr(scripts, "load", lambda name, broken=broken: pick(name, broken))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            with pytest.raises(Exception, match="injected") as caught:
                await case.run(store, sid, outlook.head, outlook.epoch)
        assert not isinstance(caught.value, HubError)
        if await dumped(redis_link, sid) != before:
            break
        faults += 1
    else:
        pytest.fail("no call of the script ever wrote")
    assert faults > case.reads, "all reading and the first write were made to fail"


loaded = scripts.load


def pick(name: str, broken: Script) -> Script:
    return broken if name == broken.name else loaded(name)
