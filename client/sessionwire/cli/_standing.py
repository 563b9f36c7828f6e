"""How a prompt stands, for people: how long it waits, who is at it, who answered. Pure but for the
clock."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from sessionwire._prompts import PromptRecord
from sessionwire._transcript import clean
from sessionwire.cli._asked import one_line

__all__ = ["answered_how", "asks", "claimed_how", "how_it_ended", "standing"]

_TELLING: Final = ("kind", "action", "selectedAction", "decision", "answer", "status")
"""The member of an answer that says the most, if it has one of these."""


def asks(one: PromptRecord) -> str:
    """Say in one line what a prompt asks; nothing where its opener is gone."""
    asked = one.asked()
    return "" if asked is None else one_line(asked)


def standing(one: PromptRecord) -> Iterator[str]:
    """Say how a prompt stands."""
    if one.answered_by is not None:
        yield f"{one.status}, {answered_how(one.members)}"
    elif one.status == "pending":
        yield f"waits for {_since(one.opened_at)}"
    elif one.status == "claimed" and one.claim is not None:
        by, until = one.claim.get("by"), one.claim.get("expires_at")
        yield f"claimed by {clean(str(by))} until {_clock(until)}"
    else:
        reason = one.members.get("reason")
        yield f"{one.status} ({clean(str(reason))})" if reason else one.status
    if one.waits and one.expires_at:
        yield f"until {_clock(one.expires_at)}"
    if one.members.get("human"):
        yield "for a person"
    if one.unattended:
        yield "nobody there to answer"
    if one.members.get("overruled"):
        yield "overruled by the host"


def answered_how(told: Mapping[str, Any]) -> str:
    """Say who answered what and when, out of a prompt or of the error about one."""
    by = _members(told.get("answered_by"))
    who = "the host" if by.get("host") else by.get("name") or "somebody"
    answer = told.get("answer")
    what = "" if answer is None else f" with {_brief(answer)}"
    when = told.get("answered_at")
    return clean(f"answered by {who}{what}{f' at {_clock(when)}' if when else ''}")


def _members(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _brief(answer: object) -> str:
    named = [_members(answer).get(name) for name in _TELLING]
    word = next((one for one in named if isinstance(one, str)), None)
    if word is not None:
        return repr(word)
    text = json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _clock(value: object) -> str:
    """Spell a time as the clock here shows it; with its date if that is another one."""
    try:
        at = datetime.fromisoformat(str(value)).astimezone()
    except ValueError:
        return clean(str(value))
    today = at.date() == datetime.now(UTC).astimezone().date()
    return f"{at:%H:%M:%S}" if today else f"{at:%Y-%m-%d %H:%M:%S}"


def _since(opened_at: str) -> str:
    try:
        seconds = int((datetime.now(UTC) - datetime.fromisoformat(opened_at)).total_seconds())
    except (TypeError, ValueError):
        return "some time"
    seconds = max(0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def claimed_how(told: Mapping[str, Any]) -> str:
    """Say who has claimed a prompt, out of the error about it."""
    claim = _members(told.get("claim")) or told
    by, until = claim.get("by"), claim.get("expires_at")
    who = clean(str(by)) if by else "somebody"
    return f"claimed by {who}" + (f" until {_clock(until)}" if until else "")


_ENDED: Final = {
    "expired": "its deadline has passed",
    "cancelled": "the agent's turn was aborted or has ended",
    "orphaned": "the agent's session was shut down",
    "withdrawn": "the agent's host closed it without an answer, or the session was deleted",
    "rewound": "the session was rewound to before it",
    "session_deleted": "the session was deleted",
}


def how_it_ended(status: str, told: Mapping[str, Any]) -> str:
    """Say why a prompt takes no answer any more, out of itself or of the error about it."""
    if status in ("answered", "completed"):
        return f"already {answered_how(told)}"
    return f"it is {clean(status)}: {_ENDED.get(status, 'it takes no answer any more')}"
