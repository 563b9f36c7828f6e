"""Messages that wait, messages that steer, and an abort among them (protocol.md §9)."""

from __future__ import annotations

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, note, publish
from tests.contract.test_commands import acknowledge, commands, hosting, read, send, status
from tests.contract.wire import request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(hub: HubProcess, session: str) -> str:
    """A session that exists."""
    await publish(hub, session, note())
    return session


def message(text: str, mode: str) -> dict[str, object]:
    return {"type": "message.send", "data": {"prompt": text, "mode": mode}}


@proves("steer-intent")
async def test_a_message_that_steers_is_told_from_one_that_waits(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    """One order for all, so that nothing overtakes anything; each says itself what it is for."""
    await send(hub, session, id="first", **message("later", "enqueue"))
    await send(other_hub, session, id="second", **message("now", "immediate"))
    async with hosting(hub, session) as (stream, _):
        seen = read(await stream.take(2))
        assert [(each["id"], each["data"]["mode"]) for each in seen] == [
            ("first", "enqueue"),
            ("second", "immediate"),
        ]
        # The host takes them in its own order.
        await acknowledge(hub, session, "second", event_id="e2")
        assert await status(hub, session, "first") == "delivered"
        await acknowledge(hub, session, "first", event_id="e1")
    shown = await call(hub, "GET", commands(session, "second"))
    assert (shown["status"], shown["event_id"]) == ("consumed", "e2")


@proves("steer-abort")
async def test_an_abort_destroys_no_message_that_the_host_has_not_used(
    hub: HubProcess, other_hub: HubProcess, session: str
) -> None:
    await send(hub, session, id="message", **message("go on", "immediate"))
    async with hosting(hub, session) as (stream, _):
        read(await stream.take(1))
        await send(other_hub, session, id="abort", type="abort", data={"reason": "stop"})
        (abort,) = read(await stream.take(1))
        assert (abort["type"], abort["data"]) == ("abort", {"reason": "stop"})
        assert (await acknowledge(hub, session, "abort")).status == 200
        assert await status(hub, session, "message") == "delivered"
    async with hosting(other_hub, session) as (stream, _):
        (again,) = read(await stream.take(1))
        assert (again["id"], again["attempt"]) == ("message", 2)
        said = await acknowledge(other_hub, session, "message", "rejected", detail="aborted")
        assert said.json()["status"] == "rejected"
    shown = await call(hub, "GET", commands(session, "message"))
    assert (shown["status"], shown["detail"]) == ("rejected", "aborted"), "its sender is told"


@proves("steer-abort")
async def test_what_is_rejected_is_not_given_to_the_next_host(
    hub: HubProcess, session: str
) -> None:
    await send(hub, session, id="a")
    assert (await acknowledge(hub, session, "a", "rejected")).status == 200
    async with hosting(hub, session) as (stream, _):
        assert await stream.silent(0.3)
    assert (await request(hub, "GET", commands(session, "a"))).json()["attempt"] == 0
