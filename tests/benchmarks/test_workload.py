"""The events that the benchmarks publish."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from benchmarks.workload import ID, MARK, ROUND, WORKLOADS
from sessionwire_schemas.catalog import COPILOT


@pytest.fixture(params=sorted(WORKLOADS))
def templates(request: pytest.FixtureRequest) -> list[str]:
    """The templates of one workload."""
    return WORKLOADS[request.param]()


def test_each_template_is_one_line_of_json_with_one_hole_for_its_id_and_one_mark(
    templates: list[str],
) -> None:
    for template in templates:
        assert json.loads(template)["id"] == ID
        assert template.count(ID) == 1
        assert template.count("`") == template.count(MARK) == 1
        assert "\n" not in template


def test_the_first_template_is_durable_and_begins_no_message(templates: list[str]) -> None:
    first = json.loads(templates[0])
    assert first["type"] == "user.message"
    assert "ephemeral" not in first


def test_events_fit_the_catalog(templates: list[str]) -> None:
    schema = jsonschema_rs.validator_for(COPILOT.json_schema())
    for template in templates:
        event = json.loads(template)
        schema.validate(event)
        assert COPILOT.is_ephemeral(event["type"], None) == event.get("ephemeral", False)


def test_messages_and_tools_are_new_in_every_round(templates: list[str]) -> None:
    for template in templates:
        data = json.loads(template)["data"]
        for member in ("messageId", "reasoningId", "toolCallId"):
            assert ROUND in data.get(member, ROUND)


def test_a_workload_is_the_same_in_every_run(templates: list[str]) -> None:
    assert templates in [make() for make in WORKLOADS.values()]
