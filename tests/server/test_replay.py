"""Where a stream begins: protocol §6.3, replay rules 3, 4 and 6."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_schemas.cursor import Cursor, CursorError, check_of
from sessionwire_server.entries import Head, Outlook, Position, RewoundRange
from sessionwire_server.replay import (
    StartAfter,
    StartAt,
    judge,
    judge_position,
    last_visible,
    parse_start,
    version_7_ms,
)

EPOCH = "abcdefgh"


def outlook(
    head: tuple[int, int],
    *,
    first: int = 1,
    rewound: tuple[RewoundRange, ...] = (),
    at: tuple[str, int] | None = None,
) -> Outlook:
    return Outlook(
        epoch=EPOCH,
        catalog="copilot",
        head=Head(*head, check_of("head")),
        first_sequence=first,
        first_offset=head[1] + 1,
        created_ms=0,
        rewound=rewound,
        id_at=None if at is None else at[0],
        offset_at=None if at is None else at[1],
    )


def cursor(sequence: int, offset: int, event_id: str = "e") -> Cursor:
    return Cursor(EPOCH, sequence, offset, check_of(event_id) if sequence else "0")


def reason(found: tuple[Position, object]) -> str | None:
    gap = found[1]
    return None if gap is None else str(getattr(gap, "reason"))  # noqa: B009


def test_a_cursor_that_fits_the_log_is_resumed_exactly() -> None:
    assert judge(cursor(4, 9), outlook((8, 20), at=("e", 7))) == (Position(4, 9), None)


def test_a_cursor_at_the_head_of_an_expired_log_is_no_gap() -> None:
    assert judge(cursor(8, 20), outlook((8, 20), first=9)) == (Position(8, 20), None)


def test_a_cursor_of_another_epoch_starts_at_the_oldest_event() -> None:
    other = Cursor("zzzzzzzz", 4, 9, check_of("e"))
    position, gap = judge(other, outlook((8, 20), first=3))
    assert (position, reason((position, gap))) == (Position(2, 2), "epoch_changed")


def test_a_check_that_does_not_fit_is_another_epoch() -> None:
    assert reason(judge(cursor(4, 9, "lost"), outlook((8, 20), at=("e", 7)))) == "epoch_changed"


def test_an_offset_before_its_own_event_is_another_epoch() -> None:
    assert reason(judge(cursor(4, 6), outlook((8, 20), at=("e", 7)))) == "epoch_changed"


@pytest.mark.parametrize(("sequence", "offset"), [(9, 20), (8, 21), (2**53 - 1, 2**53 - 1)])
def test_a_cursor_ahead_of_the_head_is_a_future_one(sequence: int, offset: int) -> None:
    assert reason(judge(cursor(sequence, offset), outlook((8, 20)))) == "future_cursor"


def test_a_cursor_before_the_oldest_event_has_a_trimmed_gap() -> None:
    position, gap = judge(cursor(4, 9), outlook((80, 200), first=40))
    assert gap is not None
    assert gap.members() == {"reason": "trimmed", "after_sequence": 4, "resumed_sequence": 39}
    assert position.sequence == 39


def test_a_trimmed_cursor_that_misses_nothing_is_no_gap() -> None:
    assert judge(cursor(39, 90), outlook((80, 200), first=40))[1] is None


@pytest.mark.parametrize("sequence", [3, 4, 6])
def test_a_cursor_in_a_rewound_range_starts_at_the_rewind(sequence: int) -> None:
    seen = outlook((8, 20), rewound=(RewoundRange(3, 6, 17),))
    position, gap = judge_position(Position(sequence, 12), seen)
    assert (position, reason((position, gap))) == (Position(6, 16), "rewound")


@pytest.mark.parametrize("sequence", [2, 7])
def test_a_cursor_beside_a_rewound_range_is_resumed(sequence: int) -> None:
    seen = outlook((8, 20), rewound=(RewoundRange(3, 6, 17),))
    assert judge_position(Position(sequence, sequence), seen)[1] is None


@given(
    st.integers(0, 60),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), max_size=3),
)
def test_the_last_n_are_counted_without_the_rewound_ones(
    n: int, head: int, spans: list[tuple[int, int]]
) -> None:
    ranges: list[RewoundRange] = []
    hidden: set[int] = set()
    for start, length in sorted(spans):
        span = range(start, start + length + 1)
        if span.stop <= head and hidden.isdisjoint(span):
            hidden.update(span)
            ranges.append(RewoundRange(start, span.stop - 1, 10 * span.stop))
    visible = [s for s in range(1, head + 1) if s not in hidden]
    after = last_visible(n, outlook((head, 10 * head), rewound=tuple(ranges)))
    assert [s for s in visible if s > after] == (visible[-n:] if n else [])


@given(st.text(max_size=200))
def test_any_text_is_a_start_or_a_cursor_error(text: str) -> None:
    try:
        start = parse_start(text)
    except CursorError:
        return
    match start:
        case StartAt(found):
            assert str(found) == text
        case StartAfter(event_id):
            assert event_id == text


@given(
    st.from_regex(r"[a-z2-7]{8}", fullmatch=True),
    st.integers(0, 2**53 - 1),
    st.integers(0, 2**53 - 1),
    st.text(min_size=1),
)
def test_every_cursor_reads_back(epoch: str, sequence: int, extra: int, event_id: str) -> None:
    check = check_of(event_id) if sequence else "0"
    made = Cursor(epoch, sequence, min(sequence + extra, 2**53 - 1), check)
    assert Cursor.parse(str(made)) == made


def test_a_version_7_id_tells_its_time() -> None:
    assert version_7_ms("event_01a22e1f88a0726599b9c55465d0ce47") == 0x01A22E1F88A0
    assert version_7_ms("01a22e1f-88a0-7265-99b9-c55465d0ce47") == 0x01A22E1F88A0


@pytest.mark.parametrize(
    "other",
    [
        "event_01a22e1f88a0426599b9c55465d0ce47",
        "event_01a22e1f88a07265",
        "call_7",
        "event_" + "7" * 33,
    ],
)
def test_other_ids_tell_no_time(other: str) -> None:
    assert version_7_ms(other) is None
