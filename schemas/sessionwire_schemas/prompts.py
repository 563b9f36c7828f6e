"""What one event does to the prompts of its session (protocol.md §8): opens, closes, ends.

Works on JSON that nobody has checked and on tables, and never raises; it knows no prompt but those
in the event. What becomes of a prompt is decided by `ledger`, and by the hub's scripts, which get
an `Effects` as their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Final, cast

from sessionwire_schemas.catalog import CATALOGS, Catalog, CatalogName
from sessionwire_schemas.names import MAX_REQUEST_ID_BYTES
from sessionwire_schemas.outcomes import outcome_of
from sessionwire_schemas.pairs import Pair
from sessionwire_schemas.paths import MAX_ITEMS, member
from sessionwire_schemas.prompt_rules import (
    CLAIMABLE_KINDS,
    END_RULES,
    KIND_OF_PAIR,
    RESUMABLE_KINDS,
    SECRET_KINDS,
    EndReason,
    EndRule,
    PromptKind,
    call_kind,
)

__all__ = ["NO_EFFECTS", "Asked", "Closing", "Effects", "Ending", "Opening", "asked", "effects"]

Event = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Opening:
    """A prompt that an event opens.

    Attributes:
        request_id: the producer's id of it, unique in the session; at most 256 bytes.
        kind: what is asked.
        claimable: a program answers it and may claim it before.
        human: only a token with the `human` mark may answer.
        secret: the answer carries credentials, and needs the mark `secrets`.
        settled: it is decided already: shown, never asked, in no ledger.
        resumable: it outlives a cold resume that continues pending work.
        expires_ms: the event's own deadline, milliseconds since 1970; None for none.
        tool_call_id: the tool call that waits for it, "" for none.
        agent_id: the sub-agent that asks, "" for the main one.
        turn_id: the everruns turn that waits for it, "" for none.
    """

    request_id: str
    kind: PromptKind
    claimable: bool = False
    human: bool = False
    secret: bool = False
    settled: bool = False
    resumable: bool = False
    expires_ms: int | None = None
    tool_call_id: str = ""
    agent_id: str = ""
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Closing:
    """Which prompt an event closes. One of the two ids is set.

    Attributes:
        request_id: that of the prompt.
        tool_call_id: that of the call behind external tools, all of which are over; such an event
            is never a duplicate of another closer and never overrules one.
        agent_id: with a tool call: a prompt of another agent is not meant.
        kind: the prompt's kind; "" for any, where the catalog has one closer for all.
        outcome: see `outcomes.outcome_of`; "" where it carries no answer.
        answered: it carries an answer.
    """

    request_id: str = ""
    tool_call_id: str = ""
    agent_id: str = ""
    kind: PromptKind | str = ""
    outcome: str = ""
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Ending:
    """Which open prompts an event ends, all of those that fit every condition.

    Attributes:
        reason: why; `prompt_rules.STATE_AFTER` says what they become.
        agent_id: only prompts of this agent; "" for all.
        turn_id: only prompts of this turn, and those of none; "" for all.
        keeps_resumable: `Opening.resumable` ones stay open.
        from_event_id: for a rewind, the first event that is hidden: only prompts opened at or after
            it end, and none where it is not known.
    """

    reason: EndReason
    agent_id: str = ""
    turn_id: str = ""
    keeps_resumable: bool = False
    from_event_id: str = ""


@dataclass(frozen=True, slots=True)
class Effects:
    """What an event does to prompts: first it closes, then it ends, then it opens.

    Attributes:
        opens: in the event's order, each request id once; at most `paths.MAX_ITEMS`.
        closes: None for most events.
        ends: None for most events.
    """

    opens: tuple[Opening, ...] = ()
    closes: Closing | None = None
    ends: Ending | None = None


NO_EFFECTS: Final = Effects()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a prompt asks, taken out of its opener.

    Attributes:
        catalog: the session's.
        kind: the prompt's kind.
        request_id: the prompt's id.
        event_type: the opener's type.
        data: the opener's data (copilot), or the one call that is meant (everruns).
        tool_call_id: the tool call that waits for it, "" for none.
    """

    catalog: CatalogName
    kind: PromptKind
    request_id: str
    event_type: str
    data: Mapping[str, object]
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    """The roles that an event type has."""

    opens: Pair | None = None
    closes: Pair | None = None
    closes_calls_of: Pair | None = None
    ends: EndRule | None = None


def effects(catalog: Catalog, event: Event) -> Effects:
    """Return what an event does to the prompts of its session.

    Args:
        catalog: the session's.
        event: the event, as decoded JSON. What it lacks opens, closes and ends nothing.
    """
    name = event.get("type")
    rule = _rules(catalog.name).get(name) if isinstance(name, str) else None
    if rule is None:
        return NO_EFFECTS
    return Effects(
        opens=() if rule.opens is None else tuple(_openings(catalog, rule.opens, event)),
        closes=_closing(catalog, rule, event),
        ends=None if rule.ends is None else _ending(catalog, rule.ends, event),
    )


def asked(catalog: Catalog, event: Event, request_id: str) -> Asked | None:
    """Return what the prompt `request_id` of an opener asks; None if the event does not open it."""
    name = event.get("type")
    rule = _rules(catalog.name).get(name) if isinstance(name, str) else None
    if rule is None or rule.opens is None or not isinstance(name, str):
        return None
    for subject in _subjects(catalog, event):
        if request_id and _request_id(catalog, subject) == request_id:
            kind = _kind(catalog, rule.opens, subject)
            call = _tool_call_id(catalog, rule.opens, event, request_id)
            return Asked(catalog.name, kind, request_id, name, cast("Event", subject), call)
    return None


@cache
def _rules(name: CatalogName) -> Mapping[str, _Rule]:
    found: dict[str, _Rule] = {}
    for pair in CATALOGS[name].pairs:
        if pair.role != "prompt":
            continue
        for event_type in pair.opens:
            found[event_type] = replace(found.get(event_type, _Rule()), opens=pair)
        for event_type in pair.closes:
            found[event_type] = replace(found.get(event_type, _Rule()), closes=pair)
        for event_type in pair.also_closed_by:
            found[event_type] = replace(found.get(event_type, _Rule()), closes_calls_of=pair)
    for event_type, rule in END_RULES[name].items():
        found[event_type] = replace(found.get(event_type, _Rule()), ends=rule)
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _subjects(catalog: Catalog, event: Event) -> Iterator[object]:
    """Yield what each prompt of an opener is about: its data, or one of its calls."""
    if catalog.name == "everruns":
        calls = member(event, "data.tool_calls")
        if isinstance(calls, list):
            yield from cast("list[object]", calls)[:MAX_ITEMS]
    else:
        yield event.get("data")


def _request_id(catalog: Catalog, subject: object) -> str:
    value = _text(member(subject, "id" if catalog.name == "everruns" else "requestId"))
    return value if len(value.encode(errors="surrogatepass")) <= MAX_REQUEST_ID_BYTES else ""


def _kind(catalog: Catalog, pair: Pair, subject: object) -> PromptKind:
    return call_kind(subject) if catalog.name == "everruns" else KIND_OF_PAIR[pair.id]


def _openings(catalog: Catalog, pair: Pair, event: Event) -> Iterator[Opening]:
    seen: set[str] = set()
    for subject in _subjects(catalog, event):
        request_id = _request_id(catalog, subject)
        if not request_id or request_id in seen:
            continue
        seen.add(request_id)
        kind = _kind(catalog, pair, subject)
        yield Opening(
            request_id=request_id,
            kind=kind,
            claimable=kind in CLAIMABLE_KINDS,
            human=any(member(event, path) is True for path in pair.human_when),
            secret=kind in SECRET_KINDS,
            settled=bool(pair.skip_when) and member(event, pair.skip_when) is True,
            resumable=kind in RESUMABLE_KINDS and catalog.name == "copilot",
            expires_ms=_deadline(member(subject, "arguments.expires_at")),
            tool_call_id=_tool_call_id(catalog, pair, event, request_id),
            agent_id=_text(event.get("agentId")),
            turn_id=_text(member(event, "context.turn_id")),
        )


def _tool_call_id(catalog: Catalog, pair: Pair, event: Event, request_id: str) -> str:
    if catalog.name == "everruns":
        return request_id
    paths = (path for path in pair.secondary_keys if path.endswith("oolCallId"))
    return next(filter(None, (_text(member(event, path)) for path in paths)), "")


def _deadline(value: object) -> int | None:
    """Read a time of RFC 3339, one without an offset as UTC; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return math.floor(seconds * 1000)


def _closing(catalog: Catalog, rule: _Rule, event: Event) -> Closing | None:
    data = event.get("data")
    if rule.closes is not None:
        request_id = _text(member(event, rule.closes.close_key[0]))
        if not request_id:
            return None
        kind = "" if catalog.name == "everruns" else KIND_OF_PAIR[rule.closes.id]
        outcome = outcome_of(catalog, kind or "tool", data)
        return Closing(request_id, kind=kind, outcome=outcome, answered=bool(outcome))
    if rule.closes_calls_of is not None:
        call = _text(member(data, "toolCallId"))
        kind = KIND_OF_PAIR[rule.closes_calls_of.id]
        outcome = outcome_of(catalog, kind, data)
        agent_id = _text(event.get("agentId"))
        return Closing("", call, agent_id, kind, outcome) if call else None
    return None


def _ending(catalog: Catalog, rule: EndRule, event: Event) -> Ending | None:
    data = event.get("data")
    if not rule.applies(data):
        return None
    from_event_id = ""
    if rule.reason == "rewind":
        from_event_id = catalog.rewind_to(_text(event.get("type")), data)
        if not from_event_id:
            return None
    return Ending(
        rule.reason,
        agent_id=_text(event.get("agentId")) if rule.by_agent else "",
        turn_id=_text(member(data, rule.by_turn)) if rule.by_turn else "",
        keeps_resumable=bool(rule.keeps_resumable_if)
        and member(data, rule.keeps_resumable_if) is True,
        from_event_id=from_event_id,
    )
