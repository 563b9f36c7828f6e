"""The place of a consumer: nothing twice, nothing lost, whatever repeats or comes late."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from sessionwire._progress import WINDOW, Progress


def cursor(offset: int, epoch: str = "aaaaaaaa") -> str:
    return f"{epoch}.{offset}.{offset}.{'aaaaa' if offset else '0'}"


def test_what_was_handed_over_is_not_handed_over_again() -> None:
    progress = Progress()
    assert [progress.take(cursor(n)) for n in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
    assert progress.cursor == cursor(3)


def test_what_comes_late_is_handed_over_and_moves_nothing() -> None:
    progress = Progress()
    progress.restart(cursor(4))
    assert [progress.take(cursor(n)) for n in (5, 7, 6, 6, 8)] == [True, True, True, False, True]
    assert progress.cursor == cursor(8)


def test_what_lies_before_the_place_is_not_wanted() -> None:
    progress = Progress()
    progress.restart(cursor(10))
    assert not progress.take(cursor(9))
    assert progress.cursor == cursor(10)


def test_another_epoch_begins_anew() -> None:
    progress = Progress()
    progress.take(cursor(10))
    assert progress.take(cursor(3, "bbbbbbbb"))
    assert progress.take(cursor(4, "bbbbbbbb"))
    assert progress.cursor == cursor(4, "bbbbbbbb")


def test_a_place_that_is_no_events_moves_forward_only() -> None:
    progress = Progress()
    progress.move(cursor(5))
    progress.move(cursor(3))
    assert progress.cursor == cursor(5)
    progress.restart(cursor(3))
    assert progress.cursor == cursor(3)
    assert progress.take(cursor(4))


def test_cursors_of_another_kind_are_taken_as_they_are() -> None:
    progress = Progress()
    assert progress.take("c1")
    assert progress.take("c1")
    assert progress.take("")
    assert progress.cursor == "c1"


@given(st.lists(st.integers(1, 60), max_size=200), st.randoms(use_true_random=False))
def test_any_repetition_and_order_gives_each_once(noise: list[int], rng: random.Random) -> None:
    arriving = [*range(1, 61), *noise]
    rng.shuffle(arriving)
    # The first connection begins at the start: nothing is taken for granted.
    progress = Progress()
    progress.restart(cursor(0))
    taken = [number for number in arriving if progress.take(cursor(number))]
    assert sorted(taken) == list(range(1, 61))
    assert progress.cursor == cursor(60)


def test_memory_is_bounded() -> None:
    progress = Progress()
    progress.restart(cursor(0))
    for number in range(2, 2 * WINDOW + 3):
        assert progress.take(cursor(number))
    assert not progress.take(cursor(1)), "later by more than what is remembered"
