"""The messages of a live channel: what a script writes is what the hub reads."""

from __future__ import annotations

import pytest

from sessionwire_server.live_message import (
    CommandChange,
    CommandNews,
    EpochMessage,
    HostNews,
    PresenceNews,
    decode,
)


def test_news_of_commands_names_each_with_its_state() -> None:
    changes = (CommandChange(7, "accepted", 'a"b'), CommandChange(12, "expired", "c:d"))
    assert decode(b'c abcdefgh\n7 accepted a"b\n12 expired c:d\n') == CommandNews(changes)


def test_news_of_a_host_says_whether_it_is_there() -> None:
    assert decode(b"h abcdefgh 1787000000000 1\n") == HostNews(1_787_000_000_000, connected=True)
    assert decode(b"h abcdefgh 5 0\n") == HostNews(5, connected=False)


def test_news_of_viewers_says_how_many_there_are() -> None:
    assert decode(b"v abcdefgh 12 3\n") == PresenceNews(viewers=12, can_answer=3)


def test_the_end_of_an_epoch_is_read_as_before() -> None:
    assert decode(b"x abcdefgh\n") == EpochMessage("abcdefgh", deleted=True)
    assert decode(b"r abcdefgh\n") == EpochMessage("abcdefgh", deleted=False)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"q abcdefgh\n",
        b"c abcdefgh\n7 accepted\n",
        b"c e\nx accepted a\n",
        b"h e x 1",
        b"h e\n",
        b"v e 1\n",
        b"v e 1 few\n",
    ],
)
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown live message|values to unpack|invalid literal"):
        decode(data)
