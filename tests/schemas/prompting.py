"""Events that open, close and end prompts, spelled briefly; and ledgers to fold them with."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, cast

from sessionwire_schemas.catalog import COPILOT, EVERRUNS
from sessionwire_schemas.ledger import Applied, PromptLedger
from sessionwire_schemas.outcomes import canonical
from sessionwire_schemas.prompt import Answerer, Place, Prompt
from sessionwire_schemas.prompt_transitions import Given
from tests.schemas.corpus import DATA

__all__ = ["SESSION", "Fold", "call", "event", "given", "openers", "requested", "sequences"]

SESSION = "s1"

_ids = count(1)


def event(event_type: str, data: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return an event with what prompts look at, and an id of its own."""
    return {"id": f"e{next(_ids)}", "type": event_type, "data": data, **members}


def call(call_id: str, name: str = "lookup", **arguments: Any) -> dict[str, Any]:
    """Return one call of an everruns batch."""
    return {"id": call_id, "name": name, "arguments": arguments}


def requested(*calls: dict[str, Any], turn_id: str = "") -> dict[str, Any]:
    """Return the everruns event that asks for these calls."""
    context = {"turn_id": turn_id} if turn_id else {}
    return event("tool.call_requested", {"tool_calls": list(calls)}, context=context)


def given(value: Any = "yes", *, name: str = "ann", **members: Any) -> Given:
    """Return an answer by somebody whom nothing refuses, unless `members` say otherwise."""
    outcome = cast("str", members.pop("outcome", canonical({"answer": value})))
    by = Answerer(name=name, human=members.pop("human", True))
    return Given(value, outcome, by, secrets=members.pop("secrets", True), **members)


def sequences() -> dict[str, list[dict[str, Any]]]:
    """Return the copilot example histories, events in order, by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (DATA / "copilot.jsonl").read_text().splitlines():
        example = json.loads(line)
        if example.get("sequence"):
            found.setdefault(example["sequence"], []).append(example["event"])
    return found


def openers(kind: str = "") -> list[dict[str, Any]]:
    """Return every example opener of the copilot catalog; `kind`: of one type only."""
    types = {t for pair in COPILOT.pairs if pair.role == "prompt" for t in pair.opens}
    lines = (DATA / "copilot.jsonl").read_text().splitlines()
    found = [json.loads(line)["event"] for line in lines]
    return [e for e in found if e["type"] in types and kind in ("", e["type"])]


class Fold:
    """A ledger with a clock, and a log that numbers the events it is given."""

    def __init__(self, catalog: str = "copilot", **settings: Any) -> None:
        chosen = EVERRUNS if catalog == "everruns" else COPILOT
        self.ledger = PromptLedger(chosen, SESSION, **settings)
        self.now_ms = 1_000_000
        self._offsets: dict[str, int] = {}

    def __call__(self, *events: dict[str, Any]) -> Applied:
        """Fold events, each the next of the session; return what the last one did."""
        applied = Applied()
        for one in events:
            offset = len(self._offsets) + 1
            self._offsets[one["id"]] = offset
            hidden = self._offsets.get(one["data"].get("upToEventId", ""))
            place = Place(offset, offset)
            applied = self.ledger.apply(one, place, self.now_ms, rewound_from=hidden)
        return applied

    @property
    def open(self) -> list[str]:
        """The request ids of the open prompts."""
        return [prompt.request_id for prompt in self.ledger]

    def __getitem__(self, request_id: str) -> Prompt:
        found = self.ledger.get(request_id)
        assert found is not None
        return found

    def state(self, request_id: str) -> str:
        """Return how a prompt is shown now."""
        return self[request_id].status(self.now_ms)
