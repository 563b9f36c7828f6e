"""The JSON Schemas, as the hub's validator sees them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from sessionwire_schemas.catalog import CATALOGS
from tests.schemas.corpus import NAMES, events


@cache
def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(CATALOGS[name].json_schema())


def pointers(name: str, event: Mapping[str, Any]) -> list[str]:
    errors = validator(name).iter_errors(event)
    return ["/".join(["", *map(str, error.instance_path)]) for error in errors]


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_valid(name: str) -> None:
    for event in events(name):
        assert pointers(name, event) == [], event["type"]


@pytest.mark.parametrize("name", NAMES)
def test_every_type_is_judged_by_its_own_definition(name: str) -> None:
    """The search for the type reaches each of them."""
    seen: set[str] = set()
    for event in events(name):
        if event["type"] not in seen:
            seen.add(event["type"])
            assert "/data" in pointers(name, {**event, "data": 5})
    assert seen == set(CATALOGS[name].types)


@pytest.mark.parametrize(
    ("name", "event_type", "member"),
    [("copilot", "assistant.message_delta", "messageId"), ("everruns", "turn.started", "turn_id")],
)
def test_an_error_names_its_place(name: str, event_type: str, member: str) -> None:
    event = next(event for event in events(name) if event["type"] == event_type)
    assert pointers(name, {**event, "data": {**event["data"], member: 5}}) == [f"/data/{member}"]


@pytest.mark.parametrize("name", NAMES)
def test_types_that_the_catalog_does_not_have_pass(name: str) -> None:
    assert pointers(name, {"type": "x.brand.new", "data": [1]}) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("event", [{}, {"type": 5}, [], None, "x"])
def test_what_has_no_type_is_invalid(name: str, event: Any) -> None:
    assert not validator(name).is_valid(event)


def test_an_ephemeral_event_says_so() -> None:
    event = next(e for e in events("copilot") if e["type"] == "session.idle")
    assert pointers("copilot", {**event, "ephemeral": False}) == ["/ephemeral"]


@pytest.mark.parametrize("name", NAMES)
def test_each_call_gives_an_object_of_its_own(name: str) -> None:
    CATALOGS[name].json_schema().clear()
    assert CATALOGS[name].json_schema()["definitions"]
