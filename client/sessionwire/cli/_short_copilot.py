"""Short answers to the prompts of the copilot catalog. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

from sessionwire.cli._short_words import (
    NO,
    YES,
    Choice,
    Kind,
    Words,
    are_pairs,
    find_option,
    named,
    offer,
    pairs_in,
    said_in,
    word_of,
)
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompts import Asked

__all__ = ["COPILOT", "form_of", "options_of"]


def _requests(asked: Asked) -> list[Mapping[str, Any]]:
    found = [member(asked.data, name) for name in ("permissionRequest", "promptRequest")]
    return [cast("Mapping[str, Any]", one) for one in found if isinstance(one, Mapping)]


def _domain(asked: Asked) -> str:
    urls = (one.get("url") for one in _requests(asked) if one.get("kind") == "url")
    return next((urlsplit(url).hostname or "" for url in urls if isinstance(url, str)), "")


def _permission_choices(asked: Asked) -> list[Choice]:
    found = [Choice("approve", "this once")]
    if all(one.get("canOfferSessionApproval") is not False for one in _requests(asked)):
        found.append(Choice("approve-for-session", "and the like, as long as the session lasts"))
    if domain := _domain(asked):
        found.append(Choice("approve-permanently", f"everything from {domain}"))
    return [*found, Choice("reject", "and go on without it")]


def _permission(asked: Asked, words: Words, comment: str) -> tuple[Any] | None:
    match word_of(words):
        case word if word in YES or word in ("approve-once", "once"):
            return ({"kind": "approve-once"},)
        case "approve-for-session" | "session" | "always":
            return ({"kind": "approve-for-session"},)
        case "approve-permanently" | "permanently" if domain := _domain(asked):
            return ({"kind": "approve-permanently", "domain": domain},)
        case "user-not-available":
            return ({"kind": "user-not-available"},)
        case word if word in NO:
            return ({"kind": "reject", **named("feedback", comment)},)
        case _:
            return None


def options_of(asked: Asked) -> list[str]:
    """Return the choices that a question offers; empty where any text will do."""
    listed = asked.data.get("choices")
    values = cast("list[object]", listed) if isinstance(listed, list) else []
    return [value for value in values if isinstance(value, str)]


def _user_input(asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    said = said_in(words)
    chosen = find_option(options_of(asked), said)
    if chosen is None and asked.data.get("allowFreeform") is False:
        return None
    return ({"answer": chosen or said, "wasFreeform": chosen is None},)


def form_of(asked: Asked) -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of the form that an elicitation shows, by name; empty without one."""
    paths = ("requestedSchema", "arguments.elicitation.requested_schema")
    for path in (*paths, "arguments.elicitation.requestedSchema"):
        fields = member(asked.data, f"{path}.properties")
        if isinstance(fields, Mapping):
            named = cast("Mapping[str, object]", fields)
            return {
                name: cast("Mapping[str, Any]", field)
                for name, field in named.items()
                if isinstance(field, Mapping)
            }
    return {}


def _elicitation_choices(asked: Asked) -> list[Choice]:
    accept = "with what the form suggests" if form_of(asked) else "go ahead"
    return [
        Choice("accept", accept),
        Choice("decline", "and go on without it"),
        Choice("cancel", "say neither yes nor no"),
    ]


def _elicitation(asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    form = form_of(asked)
    word = word_of(words)
    if word in YES or are_pairs(words):
        content = {name: field["default"] for name, field in form.items() if "default" in field}
        for name, values in pairs_in(words if word not in YES else ()).items():
            content[name] = _typed(form.get(name, {}), values)
        return ({"action": "accept", **({"content": content} if form or content else {})},)
    if word in NO:
        return ({"action": "decline"},)
    return ({"action": "cancel"},) if word == "cancel" else None


def _typed(field: Mapping[str, Any], values: Sequence[str]) -> Any:
    """Read what was typed into a field as the field's type, or leave it as it is."""
    value = values[-1]
    match field.get("type"):
        case "array":
            return [value for value in values if value]
        case "boolean" if value.casefold() in (*_TRUE, *_FALSE):
            return value.casefold() in _TRUE
        case "integer" | "number":
            number = _number(value)
            return value if number is None else number
        case _:
            return value


_TRUE: Final = ("true", "yes", "y", "on")
_FALSE: Final = ("false", "no", "n", "off")


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plan_choices(asked: Asked) -> list[Choice]:
    best = asked.data.get("recommendedAction")
    listed = _actions(asked)
    approve = f"and go on: {best}" if best in listed else "and go on"
    return [
        Choice("approve", approve),
        *(Choice(action, _ACTIONS.get(action, "")) for action in listed),
        Choice("reject", "the agent goes on planning; --comment says why"),
    ]


_ACTIONS: Final = {
    "exit_only": "leave the plan, do nothing yet",
    "interactive": "carry it out, asking for each permission",
    "autopilot": "carry it out without asking",
    "autopilot_fleet": "carry it out with several agents, without asking",
}


def _actions(asked: Asked) -> list[str]:
    listed = asked.data.get("actions")
    values = cast("list[object]", listed) if isinstance(listed, list) else []
    return [value for value in values if isinstance(value, str)]


def _plan(asked: Asked, words: Words, comment: str) -> tuple[Any] | None:
    word, listed = word_of(words), _actions(asked)
    if word in NO:
        return ({"approved": False, **named("feedback", comment)},)
    best = asked.data.get("recommendedAction")
    chosen = best if word in YES and best in listed else word.replace("-", "_")
    if word not in YES and chosen not in listed:
        return None
    action = {"selectedAction": chosen} if chosen in listed else {}
    return ({"approved": True, **action, **named("feedback", comment)},)


def _auto_mode(_asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    match word_of(words):
        case word if word in YES:
            return ("yes",)
        case "yes-always" | "always":
            return ("yes_always",)
        case word if word in NO:
            return ("no",)
        case _:
            return None


def _limits(_asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    parts = said_in(words).replace("=", " ").split()
    match [part.casefold() for part in parts]:
        case ["unset"]:
            return ({"action": "unset"},)
        case [word] if word == "cancel" or word in NO:
            return ({"action": "cancel"},)
        case ["add" | "set" as action, amount]:
            name = "additionalAiCredits" if action == "add" else "maxAiCredits"
            credits = _number(amount)
            return None if credits is None else ({"action": action, name: credits},)
        case _:
            return None


def _oauth(_asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    word = word_of(words)
    return ({"kind": "cancelled"},) if word in ("cancel", "cancelled") or word in NO else None


def _headers(_asked: Asked, words: Words, comment: str) -> tuple[Any] | None:
    word = word_of(words)
    none = {"kind": "none", **named("message", comment)}
    return (none,) if word in ("none", "cancel") or word in NO else None


def _sampling(_asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    return (None,) if word_of(words) in NO or word_of(words) == "cancel" else None


def _external_tool(_asked: Asked, words: Words, comment: str) -> tuple[Any] | None:
    if word_of(words) in NO:
        return ({"error": comment or "rejected"},)
    return ({"result": said_in(words)},)


def _command_choices(asked: Asked) -> list[Choice]:
    if asked.event_type == "command.queued":
        stop = Choice("stop", "it was, and the queue is to end here")
        return [Choice("approve", "it was carried out"), stop, Choice("reject", "it was not")]
    return [
        Choice("approve", "it was carried out"),
        Choice("reject", "it failed; --comment says why"),
    ]


def _command(asked: Asked, words: Words, comment: str) -> tuple[Any] | None:
    word = word_of(words)
    done, failed = word in YES or word in ("done", "handled"), word in NO
    if asked.event_type == "command.queued":
        if word == "stop":
            return ({"handled": True, "stopProcessingQueue": True},)
        return ({"handled": done},) if done or failed else None
    if failed:
        return ({"error": comment or "rejected"},)
    return (None,) if done else None


COPILOT: Final[Mapping[str, Kind]] = {
    "permission": Kind(_permission_choices, _permission),
    "user_input": Kind(
        lambda asked: [Choice(option, "") for option in options_of(asked)], _user_input, "TEXT"
    ),
    "elicitation": Kind(_elicitation_choices, _elicitation, "FIELD=VALUE …"),
    "sampling": Kind(offer(("reject", "no result")), _sampling),
    "exit_plan_mode": Kind(_plan_choices, _plan),
    "auto_mode_switch": Kind(
        offer(
            ("yes", "switch this once"),
            ("yes_always", "switch whenever it happens"),
            ("no", "wait instead"),
        ),
        _auto_mode,
    ),
    "session_limits_exhausted": Kind(
        offer(("unset", "take the limit away"), ("cancel", "stop here")),
        _limits,
        "add CREDITS, set CREDITS",
    ),
    "mcp_oauth": Kind(offer(("cancel", "no token")), _oauth),
    "mcp_headers": Kind(offer(("none", "no headers")), _headers),
    "external_tool": Kind(offer(("reject", "it failed")), _external_tool, "TEXT"),
    "command": Kind(_command_choices, _command),
}
