"""A cursor that cannot be served is told so, with its reason (protocol.md §6.3, replay rules)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import (
    Place,
    call,
    copilot,
    delta,
    events_of,
    is_event,
    note,
    place_of,
    publish,
)
from tests.contract.wire import Frame, open_stream
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


def spell(place: Place, **changes: Any) -> str:
    return str(place._replace(**changes))


async def attach(hub: HubProcess, session: str, query: str) -> tuple[list[Frame], list[str]]:
    """The frames up to `caught_up`, and the ids replayed."""
    path = f"/v1/sessions/{session}/sse?control=1&{query}"
    async with open_stream(hub, path) as stream:
        frames = await stream.until("caught_up")
    return frames, [event["id"] for event in events_of(frames)]


async def fill(hub: HubProcess, session: str, count: int = 5) -> tuple[list[str], list[Place]]:
    ids: list[str] = []
    places: list[Place] = []
    for start in range(0, count, 200):
        batch = [note(str(n)) for n in range(start, min(start + 200, count))]
        for verdict in await publish(hub, session, batch):
            ids.append(verdict["id"])
            places.append(place_of(verdict["cursor"]))
    return ids, places


def check_gap(frames: list[Frame], reason: str) -> Any:
    """One gap frame, right after `connected`, which says the same."""
    told = frames[0].json()["gap"]
    assert told["reason"] == reason
    gaps = [frame.json() for frame in frames if frame.event == "gap"]
    assert len(gaps) == 1
    assert gaps[0]["reason"] == reason
    assert {"after_sequence", "resumed_sequence"} <= gaps[0].keys()
    first = next(n for n, frame in enumerate(frames) if is_event(frame) or frame.event == "gap")
    assert frames[first].event == "gap", "the gap comes before the first event"
    return gaps[0]


@proves("gap-epoch", "gap-told")
async def test_cursor_of_another_epoch(hub: HubProcess, session: str) -> None:
    ids, places = await fill(hub, session)
    other = "a" * 8 if places[0].epoch != "a" * 8 else "b" * 8
    frames, got = await attach(hub, session, f"since_id={spell(places[2], epoch=other)}")
    check_gap(frames, "epoch_changed")
    assert got == ids


@proves("gap-check")
async def test_cursor_whose_check_does_not_fit(hub: HubProcess, session: str) -> None:
    ids, places = await fill(hub, session)
    wrong = "a" * 5 if places[2].check != "a" * 5 else "b" * 5
    frames, got = await attach(hub, session, f"since_id={spell(places[2], check=wrong)}")
    check_gap(frames, "epoch_changed")
    assert got == ids


@pytest.mark.parametrize("ahead", [1, 1000, 2**52])
@proves("gap-future")
async def test_cursor_beyond_the_head(hub: HubProcess, session: str, ahead: int) -> None:
    ids, places = await fill(hub, session)
    last = places[-1]
    far = spell(last, sequence=last.sequence + ahead, offset=last.offset + ahead)
    frames, got = await attach(hub, session, f"since_id={far}")
    check_gap(frames, "future_cursor")
    assert got == ids


@proves("gap-future")
async def test_offset_beyond_the_head(hub: HubProcess, session: str) -> None:
    ids, places = await fill(hub, session)
    far = spell(places[-1], offset=places[-1].offset + 1)
    frames, got = await attach(hub, session, f"since_id={far}")
    check_gap(frames, "future_cursor")
    assert got == ids


@proves("gap-future")
async def test_after_sequence_beyond_the_head(hub: HubProcess, session: str) -> None:
    ids, _ = await fill(hub, session)
    frames, got = await attach(hub, session, "after_sequence=6")
    check_gap(frames, "future_cursor")
    assert got == ids


@proves("gap-unknown", "gap-told")
async def test_unknown_event_id(hub: HubProcess, session: str) -> None:
    ids, _ = await fill(hub, session)
    frames, got = await attach(hub, session, "since_id=never-heard-of-it")
    check_gap(frames, "unknown_id")
    assert got == ids


@proves("gap-told")
async def test_gap_without_control_is_told_in_connected_and_a_comment(
    hub: HubProcess, session: str
) -> None:
    await fill(hub, session)
    async with open_stream(hub, f"/v1/sessions/{session}/sse?since_id=never") as stream:
        frames = await stream.take(6)
        comments = " ".join(line for frame in stream.frames for line in frame.comments)
    assert frames[0].json()["gap"]["reason"] == "unknown_id"
    assert {frame.event for frame in frames[1:]} == {"session.info"}
    assert "gap" in comments
    assert "unknown_id" in comments


@proves("gap-trimmed")
async def test_cursor_older_than_what_is_kept(short_hub: HubProcess, session: str) -> None:
    ids, places = await fill(short_hub, session, 800)
    frames, got = await attach(short_hub, session, f"since_id={spell(places[2])}")
    gap = check_gap(frames, "trimmed")
    assert gap["after_sequence"] == 3
    assert 200 <= len(got) < 790
    assert got == ids[-len(got) :]
    assert gap["resumed_sequence"] == 800 - len(got), "the sequence after which it goes on"
    frames, from_start = await attach(short_hub, session, "after_sequence=0")
    check_gap(frames, "trimmed")
    assert from_start == got


@proves("gap-trimmed")
async def test_start_of_a_trimmed_session_needs_no_cursor(
    short_hub: HubProcess, session: str
) -> None:
    ids, _ = await fill(short_hub, session, 800)
    frames, got = await attach(short_hub, session, "from=start")
    assert got == ids[-len(got) :]
    assert place_of(frames[0].id).sequence == 800 - len(got)


@proves("gap-none-at-head")
async def test_cursor_at_the_head_is_no_gap_when_everything_expired(
    short_hub: HubProcess, session: str
) -> None:
    _, places = await fill(short_hub, session, 800)
    frames, got = await attach(short_hub, session, f"since_id={spell(places[-1])}")
    assert frames[0].json()["gap"] is None
    assert got == []


@proves("gap-rewound", "rewind")
async def test_cursor_in_a_rewound_range_starts_at_the_rewind(
    hub: HubProcess, session: str
) -> None:
    ids, places = await fill(hub, session)
    data = {"upToEventId": ids[2], "eventsRemoved": 3}
    rewind = copilot("session.snapshot_rewind", data, ephemeral=True)
    after = note("after")
    await publish(hub, session, [rewind, after])
    for inside in places[2:]:
        frames, got = await attach(hub, session, f"since_id={spell(inside)}")
        check_gap(frames, "rewound")
        assert got == [rewind["id"], after["id"]]
    frames, got = await attach(hub, session, f"since_id={spell(places[1])}")
    assert frames[0].json()["gap"] is None
    assert got == [rewind["id"], after["id"]]
    _, got = await attach(hub, session, "from=start")
    assert got == [*ids[:2], rewind["id"], after["id"]]


@proves("gap-epoch")
async def test_session_made_anew_has_another_epoch(hub: HubProcess, session: str) -> None:
    _, places = await fill(hub, session)
    await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)
    body = f'{{"id": "{session}"}}'.encode()
    await call(hub, "POST", "/v1/sessions", status=201, body=body)
    ids, fresh = await fill(hub, session, 2)
    assert fresh[0].epoch != places[0].epoch
    frames, got = await attach(hub, session, f"since_id={spell(places[0])}")
    check_gap(frames, "epoch_changed")
    assert got == ids


@proves("gap-trimmed")
async def test_passing_event_older_than_the_tail_is_not_invented(
    short_hub: HubProcess, session: str
) -> None:
    """A cursor outside the tail but inside the log: every durable event, no gap."""
    first = await publish(short_hub, session, [note(), delta("m", "x")])
    ids, _ = await fill(short_hub, session, 150)
    frames, got = await attach(short_hub, session, f"since_id={first[1]['cursor']}")
    assert frames[0].json()["gap"] is None
    assert got == ids
