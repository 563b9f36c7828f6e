"""Sending batches until they are stored, and no longer than that makes sense."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from anyio.abc import SocketStream

from sessionwire._event_reader import ReadEvent
from sessionwire._publish import BATCH_BYTES, Batch, Publisher, batches
from sessionwire.errors import ConnectionFailed, InvalidRequest, ProtocolError, Unavailable
from tests.client.scripted_hub import Answer, ScriptedHub, scripted_hub, status

pytestmark = pytest.mark.anyio


def event(number: int, text: str = "") -> ReadEvent:
    members = {"id": f"e{number}", "text": text}
    return ReadEvent(json.dumps(members), members, number)


def stored(*verdicts: tuple[int | None, bool]) -> Answer:
    data = [
        {"id": "e", "cursor": f"c{number}", "sequence": sequence, "duplicate": duplicate}
        for number, (sequence, duplicate) in enumerate(verdicts)
    ]
    return status(200, json.dumps({"data": data}))


def batch(*numbers: int) -> Batch:
    return next(batches([event(number) for number in numbers]))


async def send(
    hub: ScriptedHub, what: Batch, *, patience_s: float = 60, reached: bool = False
) -> tuple[Publisher, list[float]]:
    """Send a batch without really waiting; returns the waits too."""
    waits: list[float] = []
    with httpx2.Client(base_url=hub.url) as http:
        publisher = Publisher(
            http, "s1", patience_s=patience_s, sleep=waits.append, clock=lambda: sum(waits)
        )
        publisher.reached = reached
        with anyio.fail_after(20):
            await to_thread.run_sync(partial(publisher.send, what))
    return publisher, waits


def test_batches_hold_256_events_in_order() -> None:
    made = list(batches([event(number) for number in range(600)]))
    assert [len(each.bodies) for each in made] == [256, 256, 88]
    assert [line for each in made for line in each.lines] == list(range(600))


def test_batches_are_bounded_in_bytes_and_a_big_event_goes_alone() -> None:
    half = "x" * (BATCH_BYTES // 2)
    sizes = [event(1, half), event(2, half), event(3), event(4, half * 3), event(5)]
    assert [len(each.bodies) for each in batches(sizes)] == [1, 2, 1, 1]


def test_every_event_has_an_id_before_it_is_sent() -> None:
    made = next(batches([ReadEvent('{"type":"a"}', {"type": "a"}, 1)]))
    assert json.loads(made.content())[0]["id"]


async def test_what_became_of_the_events_is_added_up() -> None:
    async with scripted_hub(stored((7, False), (None, False), (5, True))) as hub:
        publisher, _ = await send(hub, batch(1, 2, 3))
    tally = publisher.tally
    assert (tally.stored, tally.duplicates, tally.cursor) == (2, 1, "c2")
    assert (tally.first_sequence, tally.last_sequence) == (7, 7)


async def test_503_is_sent_again_after_what_it_asks_for() -> None:
    async with scripted_hub(status(503, retry_after="7"), stored((1, False))) as hub:
        publisher, waits = await send(hub, batch(1))
        assert len(hub.requests) == 2
    assert publisher.tally.stored == 1
    assert 7 <= waits[0] <= 8


async def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    async def lost(client: SocketStream) -> None:
        await client.aclose()

    async with scripted_hub(status(503, retry_after="0"), lost, stored((1, True))) as hub:
        publisher, _ = await send(hub, batch(1))
    assert publisher.tally.duplicates == 1


async def test_patience_ends() -> None:
    async with scripted_hub(
        *[status(503, '{"code":"redis_unavailable"}', retry_after="9")] * 9
    ) as hub:
        with pytest.raises(Unavailable, match="redis_unavailable"):
            await send(hub, batch(1), patience_s=20)
        assert 2 <= len(hub.requests) <= 3


async def test_a_hub_that_was_never_there_is_not_waited_for() -> None:
    async with scripted_hub() as hub:
        pass
    with pytest.raises(ConnectionFailed):
        await send(hub, batch(1))


async def test_a_refusal_names_the_line_of_the_event_at_fault() -> None:
    problem = '{"code":"invalid_type","detail":"no","index":1}'
    async with scripted_hub(status(422, problem)) as hub:
        with pytest.raises(InvalidRequest) as caught:
            await send(hub, batch(10, 20, 30))
        assert len(hub.requests) == 1
    assert caught.value.extra["line"] == 20


async def test_a_batch_that_is_too_large_for_this_hub_is_halved() -> None:
    answers = (status(413), stored((1, False)), stored((2, False), (3, False)))
    async with scripted_hub(*answers) as hub:
        publisher, _ = await send(hub, batch(1, 2, 3))
    assert publisher.tally.stored == 3


@pytest.mark.parametrize(
    "problem", [{"code": "event_too_large", "index": 0}, {"code": "batch_too_large"}]
)
async def test_an_event_that_is_too_large_is_refused(problem: dict[str, Any]) -> None:
    async with scripted_hub(status(413, json.dumps(problem))) as hub:
        with pytest.raises(InvalidRequest):
            await send(hub, batch(1))


async def test_full_storage_is_not_tried_again() -> None:
    async with scripted_hub(status(507, '{"code":"storage_full"}')) as hub:
        with pytest.raises(Unavailable, match="storage_full"):
            await send(hub, batch(1))
        assert len(hub.requests) == 1


@pytest.mark.parametrize("body", ["nonsense", "[]", "{}", '{"data":[]}'])
async def test_an_answer_that_is_not_the_hubs_is_an_error(body: str) -> None:
    async with scripted_hub(status(200, body)) as hub:
        with pytest.raises(ProtocolError):
            await send(hub, batch(1))
