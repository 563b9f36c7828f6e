"""Paths into JSON, and ids as parts of keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_schemas.paths import MAX_KEY_BYTES, key_part, member, members


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        ({"a": {"b": 1}}, "a.b", 1),
        ({"a": {"b": None}}, "a.b", None),
        ({"a": [1]}, "a.b", None),
        ({"a": 1}, "a.b.c", None),
        (None, "a", None),
        ("a", "a", None),
    ],
)
def test_member_is_found_or_none(value: object, path: str, expected: object) -> None:
    assert member(value, path) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"calls": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ({"calls": [{"id": "a"}, 3, {}]}, ["a", None, None]),
        ({"calls": {"id": "a"}}, []),
        ({}, []),
        (None, []),
    ],
)
def test_members_go_through_arrays(value: object, expected: list[object]) -> None:
    assert list(members(value, "calls[].id")) == expected


@pytest.mark.parametrize("value", ["", None, 7, True, ["a"], {"a": 1}])
def test_only_a_string_is_part_of_a_key(value: object) -> None:
    assert key_part(value) == ""


# Lone surrogates too: a JSON text may spell them, though they have no UTF-8.
_text = st.text(st.characters(exclude_categories=()), max_size=400)


@given(_text | st.text("\ud800é"), _text)
def test_key_parts_are_short_and_differ_as_ids_do(first: str, second: str) -> None:
    parts = key_part(first), key_part(second)
    assert all(len(part.encode()) <= MAX_KEY_BYTES and "|" not in part for part in parts)
    assert (parts[0] == parts[1]) == (first == second)
