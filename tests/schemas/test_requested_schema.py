"""Forms: what fits an elicitation's `requestedSchema` and what does not, keyword by keyword."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionwire_schemas.requested_schema import content_faults


def pointers(schema: Any, content: dict[str, Any]) -> list[str]:
    return [fault.pointer for fault in content_faults(schema, content, at=("content",))]


CASES: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"type": "string"}, ["", "x"], [1, True, None, ["x"]]),
    ({"type": "number"}, [1, 1.5, -3], ["1", True]),
    ({"type": "integer"}, [1, 2.0], [1.5, "1", True]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"type": "array"}, [[], ["a"]], ["a"]),
    ({"type": ["string", "null"]}, ["x", None], [1]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
    ({"type": "number", "minimum": 1, "maximum": 2}, [1, 1.5, 2], [0.9, 2.1]),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 2}, [1.5], [1, 2]),
    ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", ""]),
    ({"enum": [1, True]}, [1, 1.0, True], [0, "1"]),
    ({"const": "a"}, ["a"], ["b"]),
    ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, ["a", "b"], ["A"]),
    ({"anyOf": [{"const": 1}, {"const": 2}]}, [1], [3]),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, [["a", "b"]], [["a", "c"]]),
    ({"type": "array", "items": {"anyOf": [{"const": "a"}]}}, [["a"]], [["b"]]),
    ({"type": "array", "minItems": 1, "maxItems": 2}, [["a"]], [[], ["a", "b", "c"]]),
    ({"type": "array", "uniqueItems": True}, [["a", "b"]], [["a", "a"]]),
    ({"format": "email"}, ["a@b.test"], ["a", "@b", "a@", "a b@c"]),
    ({"format": "uri"}, ["https://x.test/a?b#c", "mailto:a@b"], ["x.test", "https:", "a b:c d"]),
    ({"format": "date"}, ["2026-02-28"], ["2026-02-30", "20260228", "today"]),
    ({"format": "date-time"}, ["2026-02-28T10:00:00Z"], ["2026-02-28", "2026-02-28T10:00:00"]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), CASES, ids=lambda value: json.dumps(value)[:40])
def test_a_member_of_a_form_is_checked(schema: Any, good: list[Any], bad: list[Any]) -> None:
    form = {"type": "object", "properties": {"a/b": schema}}
    for value in good:
        assert pointers(form, {"a/b": value}) == []
    for value in bad:
        found = pointers(form, {"a/b": value})
        assert found
        assert found[0].startswith("/content/a~1b")


@pytest.mark.parametrize(("schema", "good", "bad"), CASES, ids=lambda value: json.dumps(value)[:40])
def test_it_agrees_with_a_full_validator(schema: Any, good: list[Any], bad: list[Any]) -> None:
    # Ours wants a date-time's offset and a URI's rest, as the RFCs do.
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    assert all(validator.is_valid(value) for value in good)
    assert not any(validator.is_valid(value) for value in bad if value != "https:")


def test_what_is_required_must_be_there() -> None:
    form: dict[str, Any] = {"properties": {"a": {}, "b": {}}, "required": ["a", "b", 5]}
    assert pointers(form, {"b": 1}) == ["/content/a"]


def test_what_is_not_asked_for_passes_unless_the_form_is_closed() -> None:
    assert pointers({"properties": {}}, {"x": 1}) == []
    form: dict[str, Any] = {"properties": {"a": {}}, "additionalProperties": False}
    assert pointers(form, {"a": 1, "x": 1}) == ["/content/x"]


def test_a_pattern_of_the_agents_is_never_run() -> None:
    form = {"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    assert pointers(form, {"a": "a" * 50_000 + "!"}) == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
_KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "oneOf", "anyOf", "items", "format"),
        *("minLength", "maxItems", "minimum", "uniqueItems"),
    ]
)


@given(st.dictionaries(_KEYWORDS, _JSON), _JSON, _JSON)
def test_a_malformed_form_is_no_error(schema: Any, value: Any, form: Any) -> None:
    list(content_faults({"properties": {"a": schema}, "required": value}, {"a": value}))
    list(content_faults(form, {"a": value}))
