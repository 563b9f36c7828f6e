"""What a sender is told of a command between two looks at it (protocol.md §7.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sessionwire_server.commands import CommandCursor, Receipt, Status
from sessionwire_server.ws_watch import stages

SENT = Receipt(
    id="c",
    cursor=CommandCursor("aaaaaaaa", 1),
    status="accepted",
    type="abort",
    by={},
    attempt=0,
    created_ms=1_000,
    delivered_ms=None,
    finished_ms=None,
    expires_ms=9_000,
    detail=None,
    event_id=None,
)
READ = replace(SENT, status="delivered", delivered_ms=2_000, attempt=1)
DONE = replace(READ, status="consumed", finished_ms=3_000, detail="ok", event_id="e")


@pytest.mark.parametrize(
    ("seen", "now", "told"),
    [
        pytest.param(SENT, SENT, [], id="nothing"),
        pytest.param(SENT, READ, [READ], id="read"),
        pytest.param(READ, replace(READ, attempt=2), [], id="read-again"),
        pytest.param(READ, DONE, [DONE], id="done"),
        pytest.param(SENT, DONE, [READ, DONE], id="read-and-done-unseen"),
    ],
)
def test_every_stage_is_told_once_and_as_it_was(
    seen: Receipt, now: Receipt, told: list[Receipt]
) -> None:
    assert list(stages(seen, now)) == told


@pytest.mark.parametrize("status", ["rejected", "expired"])
def test_a_command_that_no_host_has_read_was_not_delivered(status: Status) -> None:
    ended = replace(SENT, status=status, finished_ms=3_000)
    assert list(stages(SENT, ended)) == [ended]
