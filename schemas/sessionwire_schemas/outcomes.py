"""What a completed event says about its prompt: the outcome, and whether it is an answer.

Two events that close one prompt are the same if their outcomes are equal (protocol.md §8). An
outcome leaves out what merely describes (ids, names, whether a text was typed or chosen), so that
the hub's event and the host's of one answer agree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from sessionwire_schemas.catalog import Catalog
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompt_rules import PromptKind

__all__ = ["MAX_OUTCOME_CHARS", "NO_OUTCOME", "canonical", "outcome_of"]

MAX_OUTCOME_CHARS: Final = 1_024
"""A longer outcome is hashed: it stands in every record, and a tool's result may have megabytes."""

NO_OUTCOME: Final = ""
"""The outcome of an event that closes a prompt and carries no answer."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Which members of a completed event decide, and with which words it carries no answer."""

    members: tuple[str, ...]
    path: str = ""
    unanswered: tuple[str | None, ...] = ()

    def carries_answer(self, data: object) -> bool:
        if not self.path:
            return True
        value = member(data, self.path)
        return not (isinstance(value, str | None) and value in self.unanswered)


_COPILOT: Final[Mapping[PromptKind, _Outcome]] = {
    "auto_mode_switch": _Outcome(("response",), "response", (None,)),
    # These three say no more than that it is over, which is all there is to say.
    "command": _Outcome(()),
    "external_tool": _Outcome(()),
    "sampling": _Outcome(()),
    "elicitation": _Outcome(("action", "content"), "action", (None, "cancel")),
    "exit_plan_mode": _Outcome(
        ("approved", "selectedAction", "autoApproveEdits", "feedback"), "approved", (None,)
    ),
    "mcp_headers": _Outcome(("outcome",), "outcome", (None, "timeout")),
    "mcp_oauth": _Outcome(("outcome",), "outcome", (None, "cancelled")),
    "permission": _Outcome(("result",), "result.kind", (None, "cancelled")),
    "session_limits_exhausted": _Outcome(("response",), "response.action", (None,)),
    "user_input": _Outcome(("answer",), "answer", (None,)),
}

_EVERRUNS: Final = _Outcome(("status", "result", "error"), "status", ("timeout", "cancelled"))


def outcome_of(catalog: Catalog, kind: PromptKind, data: object) -> str:
    """Return the outcome that the data of a completed event reports.

    Returns: canonical JSON of the members that decide, or `#` and a hash where it is longer than
        `MAX_OUTCOME_CHARS`; `NO_OUTCOME` where the event carries no answer.
    """
    rule = _EVERRUNS if catalog.name == "everruns" else _COPILOT[kind]
    if not rule.carries_answer(data):
        return NO_OUTCOME
    found = {name: member(data, name) for name in rule.members}
    text = canonical({name: value for name, value in found.items() if value is not None})
    if len(text) <= MAX_OUTCOME_CHARS:
        return text
    return "#" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def canonical(value: object) -> str:
    """Spell a JSON value in the one way that equal values share: ASCII, members sorted.

    A number without fraction is spelled without one. What is nested too deeply to be compared is
    spelled `null`.
    """
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return "null"


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return {name: _plain(item) for name, item in members.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[object]", value)]
    return value
