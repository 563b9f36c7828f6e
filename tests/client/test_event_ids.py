"""Ids that the client makes for events without one."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest

from sessionwire._event_ids import with_id


def made(body: str, catalog: str = "") -> dict[str, Any]:
    members: dict[str, Any] = json.loads(with_id(body, json.loads(body), catalog))
    return members


@pytest.mark.parametrize("body", ['{"timestamp":"x"}', '{"type":"user.message"}', "{}"])
def test_a_copilot_event_gets_a_version_4_uuid(body: str) -> None:
    assert uuid.UUID(made(body)["id"]).version == 4


@pytest.mark.parametrize(
    ("body", "catalog"),
    [('{"ts":"x"}', ""), ('{"type":"turn.started"}', ""), ('{"type":"x.own"}', "everruns")],
)
def test_an_everruns_event_gets_a_version_7_uuid(body: str, catalog: str) -> None:
    event_id = made(body, catalog)["id"]
    assert re.fullmatch("event_[0-9a-f]{32}", event_id)
    assert uuid.UUID(event_id.removeprefix("event_")).version == 7


def test_everything_else_stays_as_it_is_written() -> None:
    body = '  { "n": 1.10, "n2": 1e3 }'
    assert re.sub('"id":"[^"]*",', "", with_id(body, json.loads(body))) == body.strip()


@pytest.mark.parametrize("body", ['{"id":"mine"}', '{"id":null}'])
def test_an_id_that_is_there_is_left_alone(body: str) -> None:
    assert with_id(body, json.loads(body)) == body


def test_no_two_ids_are_the_same() -> None:
    assert len({made('{"ts":"x"}')["id"] for _ in range(2_000)}) == 2_000
