"""Every fault of `tests/contract/cases`, over both transports: the events are those of the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Literal

import anyio
import pytest

from sessionwire import Client, Event, EventStream, Gap, Reset
from sessionwire._reconnect import Reconnection
from sessionwire.errors import Forbidden, HubError, Unauthorized, UnknownSession
from sessionwire_schemas.rpc import event_notification
from tests.client.faulty_hub import SESSION, FaultyHub, Log, Step, cases, faulty_hub

pytestmark = pytest.mark.anyio

ERRORS: dict[str, type[HubError]] = {
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not_found": UnknownSession,
}

Transport = Literal["sse", "websocket"]
TRANSPORTS: tuple[Transport, ...] = ("sse", "websocket")


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the shortest delay each time: what is tested is where it goes on, not when."""
    defaults = Reconnection.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "uniform", _lowest)


def _lowest(low: float, _high: float) -> float:
    return low


def tokens(case: dict[str, Any]) -> str | Callable[[], str]:
    if "tokens" not in case:
        return "fixed"
    given: Iterator[str] = iter(case["tokens"])
    return lambda: next(given)


async def followed(hub: FaultyHub, case: dict[str, Any], transport: Transport) -> list[str]:
    """Follow until the last event of the log; what was shown is cleared where the hub says so."""
    shown: list[str] = []
    async with (
        Client(hub.url, tokens(case)) as client,
        client.session(SESSION) as session,
        session.follow(transport=transport, on_gap="item", idle_timeout_s=0.6) as items,
    ):
        async for item in items:
            match item:
                case Event():
                    shown.append(item.id)
                    assert items.cursor == item.cursor or case.get("order") == "any"
                case Gap(reason="epoch_changed") | Reset():
                    shown.clear()
                case Gap():
                    raise AssertionError(item)
            if isinstance(item, Event) and _complete(shown, hub, items.cursor):
                break
    return shown


def _complete(shown: list[str], hub: FaultyHub, cursor: str) -> bool:
    log = hub.log
    return not hub.connections and len(shown) >= log.size and cursor == log.cursor(log.size)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]).replace(" ", "-"))
async def test_a_fault_loses_and_doubles_nothing(
    case: dict[str, Any], transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionwire._ws_transport.PONG_TIMEOUT_S", 0.3)
    expected = [Log(case["events"]).id(number) for number in range(1, case["events"] + 1)]
    outcome = case.get("outcome")
    with anyio.fail_after(20):
        async with faulty_hub(case["events"], case["connections"]) as hub:
            shown: list[str] = []
            if outcome in ERRORS:
                with pytest.raises(ERRORS[outcome]):
                    await followed(hub, case, transport)
            else:
                shown = await followed(hub, case, transport)
            assert {asked.transport for asked in hub.asked} <= {transport}
            assert len(hub.connections) == 0, "every connection of the case was made"
    if outcome == "end":
        assert shown == expected[: case["delivered"]]
    elif outcome is None:
        assert (sorted(shown) if case.get("order") == "any" else shown) == expected


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_cut_at_any_byte_loses_and_doubles_nothing(transport: Transport) -> None:
    log = Log(400)
    whole = 300
    notification = event_notification(SESSION, log.cursor(1), 1, log.body(1))
    assert len(notification) < whole, "more than an event has bytes on either wire"
    connections: list[list[Step]] = [
        [{"events": 1}, {"part": byte / whole}, {"end": "reset"}] for byte in range(whole)
    ]
    with anyio.fail_after(60):
        async with faulty_hub(log.size, connections) as hub:
            shown = await followed(hub, {}, transport)
    assert shown == [log.id(number) for number in range(1, log.size + 1)]
    assert len(hub.asked) == whole + 1


async def test_auto_goes_over_sse_where_no_websocket_can_be_opened() -> None:
    async with faulty_hub(3, []) as hub:
        hub.no_websocket = True
        async with Client(hub.url, "k") as client, client.session(SESSION) as session:
            with anyio.fail_after(10):
                seen = [event.id async for event in _first(session.follow(), 3)]
    assert len(seen) == 3
    assert [asked.transport for asked in hub.asked] == ["sse"]


async def _first(events: EventStream[Event], count: int) -> AsyncGenerator[Event]:
    async for event in events:
        yield event
        count -= 1
        if not count:
            return
