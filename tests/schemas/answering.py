"""Answering an opener in a test: what comes of it fits the catalog and closes the prompt."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from sessionwire_schemas.answers import Answer, AnswerError, check_answer
from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS
from sessionwire_schemas.closers import Closer, closer_id
from sessionwire_schemas.prompts import Asked, asked, effects
from tests.schemas.prompting import SESSION, event

__all__ = ["answer", "check_fits", "faults", "subject"]

_VALIDATORS = {
    name: jsonschema_rs.validator_for(catalog.json_schema()) for name, catalog in CATALOGS.items()
}


def subject(opener: dict[str, Any], request_id: str = "", catalog: Any = COPILOT) -> Asked:
    found = asked(catalog, opener, request_id or opener["data"]["requestId"])
    assert found is not None
    return found


def check_fits(catalog: str, closer: Closer) -> None:
    """Fail unless a completed event with this content fits its catalog."""
    one: dict[str, Any] = {"type": closer.type, "data": dict(closer.data)}
    if catalog == "everruns":
        members: dict[str, Any] = {
            "ts": "2026-08-21T09:00:00.123Z",
            "session_id": "session_1",
            "context": {},
        }
        one |= {"id": closer_id("everruns", SESSION, "r", "answered"), **members}
    else:
        one |= {"id": closer_id("copilot", SESSION, "r", "answered"), "parentId": None}
        one["timestamp"] = "2026-08-21T09:00:00.123Z"
        if CATALOGS[catalog].types[closer.type].ephemeral == "always":
            one["ephemeral"] = True
    errors = [str(error) for error in _VALIDATORS[catalog].iter_errors(one)]
    assert errors == []


def answer(opener: dict[str, Any], value: Any, request_id: str = "") -> Answer:
    """Check an answer that fits, and that its event does and closes the prompt it answers."""
    catalog = EVERRUNS if opener["type"] == "tool.call_requested" else COPILOT
    what = subject(opener, request_id, catalog)
    found = check_answer(what, value)
    check_fits(catalog.name, found.closer)
    assert found.value == value
    closing = effects(catalog, event(found.closer.type, dict(found.closer.data))).closes
    assert closing is not None
    assert closing.request_id == what.request_id
    assert closing.outcome == found.outcome
    return found


def faults(opener: dict[str, Any], value: Any, request_id: str = "") -> list[str]:
    """Return the pointers of what is wrong with an answer."""
    catalog = EVERRUNS if opener["type"] == "tool.call_requested" else COPILOT
    with pytest.raises(AnswerError) as caught:
        check_answer(subject(opener, request_id, catalog), value)
    return [fault.pointer for fault in caught.value.faults]
