"""The tables of types: counts, ephemeral rules, visibility, and what they share with the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS, detect
from sessionwire_schemas.envelope import SessionEvent
from sessionwire_schemas.names import RESERVED_TYPES, TYPE_PATTERN
from tests.schemas.corpus import NAMES, data_model, events

PINNED = Path(__file__).resolve().parents[2] / "schemas" / "pinned"


def pinned(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((PINNED / name).read_text())
    return loaded


def test_catalogs_have_116_and_64_types_and_share_none() -> None:
    assert len(COPILOT.types) == 116
    assert len(EVERRUNS.types) == 64
    assert COPILOT.types.keys().isdisjoint(EVERRUNS.types)
    assert {name: catalog.name for name, catalog in CATALOGS.items()} == {n: n for n in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_type_is_well_formed_and_not_reserved(name: str) -> None:
    types = CATALOGS[name].types
    assert all(TYPE_PATTERN.fullmatch(event_type) for event_type in types)
    assert RESERVED_TYPES.isdisjoint(types)


@pytest.mark.parametrize("name", NAMES)
def test_example_events_cover_every_type(name: str) -> None:
    assert {event["type"] for event in events(name)} == set(CATALOGS[name].types)


def test_copilot_ephemeral_rules_are_those_of_both_pinned_files() -> None:
    rules = pinned("copilot_pairs.json")["ephemeral_rules"]
    always = {name for name, info in COPILOT.types.items() if info.ephemeral == "always"}
    optional = {name for name, info in COPILOT.types.items() if info.ephemeral == "optional"}
    assert always == {*rules["always"], *rules["always_but_flag_optional"]}
    assert optional == set(rules["producer_decides_default_persisted"])
    assert len(always) == 64


def test_external_tool_completed_is_ephemeral_without_its_flag() -> None:
    assert COPILOT.is_ephemeral("external_tool.completed", None)


@pytest.mark.parametrize("flag", [None, False, True])
def test_a_rewind_is_durable_whatever_its_flag_says(flag: bool | None) -> None:
    assert COPILOT.types["session.snapshot_rewind"].ephemeral == "always"
    assert not COPILOT.is_ephemeral("session.snapshot_rewind", flag)


@pytest.mark.parametrize("flag", [None, False, True])
def test_always_ephemeral_types_ignore_the_flag(flag: bool | None) -> None:
    for catalog in CATALOGS.values():
        for name, info in catalog.types.items():
            if info.ephemeral == "always" and name != "session.snapshot_rewind":
                assert catalog.is_ephemeral(name, flag)


@pytest.mark.parametrize("event_type", ["session.info", "x.unknown"])
def test_other_types_are_ephemeral_by_their_flag(event_type: str) -> None:
    assert COPILOT.is_ephemeral(event_type, True)
    assert not COPILOT.is_ephemeral(event_type, False)
    assert not COPILOT.is_ephemeral(event_type, None)


def test_five_everruns_types_are_ephemeral() -> None:
    assert {name for name, info in EVERRUNS.types.items() if info.ephemeral == "always"} == {
        "output.message.delta",
        "reason.thinking.delta",
        "tool.output.delta",
        "voice.input_transcript.delta",
        "voice.output_transcript.delta",
    }


def test_internal_and_experimental_types_are_marked() -> None:
    internal = {name for name, info in COPILOT.types.items() if info.visibility == "internal"}
    assert internal == set(pinned("copilot_pairs.json")["internal_types"])
    experimental = [i for i in COPILOT.types.values() if i.stability == "experimental"]
    assert len(experimental) == 11


@pytest.mark.parametrize("name", NAMES)
def test_models_say_what_the_table_says(name: str) -> None:
    for event_type, info in CATALOGS[name].types.items():
        model = info.model
        assert issubclass(model, SessionEvent)
        assert (info.name, model.__name__) == (event_type, info.model_name)
        assert model.event_type == event_type
        assert model.ephemeral_rule == info.ephemeral
        assert model.visibility == info.visibility
        assert model.stability == info.stability


@pytest.mark.parametrize("name", NAMES)
def test_models_have_the_members_of_the_schema(name: str) -> None:
    """Each type's data has the schema's members in its order, required ones without default."""
    definitions = CATALOGS[name].json_schema()["definitions"]
    for info in CATALOGS[name].types.values():
        data = definitions[info.model_name]["properties"]["data"]["$ref"].rsplit("/", 1)[-1]
        model = data_model(info.model)
        assert model.__name__ == data
        fields = {field.alias or key: field for key, field in model.model_fields.items()}
        assert list(fields) == list(definitions[data].get("properties", {}))
        required = {member for member, field in fields.items() if field.is_required()}
        assert required == set(definitions[data].get("required", ()))


def test_copilot_types_and_members_are_the_pinned_ones() -> None:
    definitions = pinned("copilot.schema.json")["definitions"]
    union = definitions.pop("SessionEvent")["anyOf"]
    names = [branch["$ref"].rsplit("/", 1)[-1] for branch in union]
    tags = [definitions[name]["properties"]["type"]["const"] for name in names]
    assert list(COPILOT.types) == tags
    assert COPILOT.json_schema()["definitions"] == definitions


def test_everruns_types_are_the_pinned_ones() -> None:
    catalog = pinned("everruns_catalog.json")
    assert list(EVERRUNS.types) == list(catalog)
    for name, info in EVERRUNS.types.items():
        assert info.ephemeral == ("always" if catalog[name]["ephemeral"] else "never")
        assert info.description == catalog[name]["description"]


@pytest.mark.parametrize("name", NAMES)
def test_an_event_tells_its_catalog_by_its_envelope_or_by_its_type(name: str) -> None:
    for event in events(name):
        assert detect(event) == name
        assert detect({"type": event["type"], "data": event["data"]}) == name


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"ts": "x"}, "everruns"),
        ({"session_id": "x"}, "everruns"),
        ({"context": {}}, "everruns"),
        ({"timestamp": "x"}, "copilot"),
        ({"parentId": None}, "copilot"),
        ({"parentId": None, "type": "turn.started"}, "copilot"),
        ({"timestamp": "x", "ts": "x"}, None),
        ({"timestamp": "x", "ts": "x", "type": "turn.started"}, "everruns"),
        ({"type": "x.unknown"}, None),
        ({"type": ["abort"]}, None),
        ({}, None),
    ],
)
def test_catalog_of_an_envelope(envelope: dict[str, Any], expected: str | None) -> None:
    assert detect(envelope) == expected


def test_tables_load_without_pydantic() -> None:
    """The hub's hot path needs tables alone."""
    program = (
        "import sys, sessionwire_schemas.catalog as c;"
        "c.COPILOT.closes('abort', {});"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
