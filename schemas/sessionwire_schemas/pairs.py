"""Pairs of events that open and close something: prompts, spans, states. Data, no behaviour.

The prompt ledger folds events with these tables (protocol.md §8); nothing here decides who may
answer or when a prompt ends otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Kind", "Pair"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One variant of a tagged object and the members it has besides its tag."""

    kind: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Events that open one thing and the events that close it.

    Paths start at the event (`data.requestId`, `agentId`) and use `[]` for every item of an array.
    Where `open_key` goes through an array, the opener opens one thing per item. Both keys empty:
    at most one is open at a time (per agent, where events name one).

    Attributes:
        id: the pair's own name, stable within its catalog.
        role: `prompt` (somebody answers), `span` (nobody does) or `state` (a toggle).
        opens: types that open it.
        closes: types that close it.
        progress: types in between.
        open_key: paths that identify it in an opener.
        close_key: the same in a closer, item by item; where a path of the closer is "", the closer
            does not say.
        secondary_keys: further paths that name it, where present.
        open_ephemeral: the opener stands in no log.
        close_ephemeral: the closer stands in no log.
        also_closed_by: types that close it as well, for a lost or ephemeral closer, by a
            secondary key.
        close_when: member of a closer and the values with which it closes; empty for always.
        open_when: member of an opener and the values with which it opens; empty for always.
        skip_when: path that, being true, means that it is already decided.
        human_when: paths that, being true, mean that a human must answer.
        machine: a program answers it, no human is asked.
        secret: opener or answer carries credentials.
        requires_interest: type that somebody must be interested in, or the agent does not ask.
        answer_method: the runtime's own method for the answer, "" where there is none.
        kinds: what can be asked.
        prompt_kinds: the same, as it is shown to a user.
        result_kinds: what the closer can report.
        approval_kinds: what an approval beyond once can cover.
        outcomes: words that the closer reports, where it has an outcome.
        reasons: words that the opener gives, where it has a reason.
        modes: words that the opener's mode can have.
    """

    id: str
    role: Literal["prompt", "span", "state"]
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    progress: tuple[str, ...] = ()
    open_key: tuple[str, ...] = ()
    close_key: tuple[str, ...] = ()
    secondary_keys: tuple[str, ...] = ()
    open_ephemeral: bool = False
    close_ephemeral: bool = False
    also_closed_by: tuple[str, ...] = ()
    close_when: tuple[str, tuple[str, ...]] = ("", ())
    open_when: tuple[str, tuple[str, ...]] = ("", ())
    skip_when: str = ""
    human_when: tuple[str, ...] = ()
    machine: bool = False
    secret: bool = False
    requires_interest: str = ""
    answer_method: str = ""
    kinds: tuple[Kind, ...] = ()
    prompt_kinds: tuple[Kind, ...] = ()
    result_kinds: tuple[Kind, ...] = ()
    approval_kinds: tuple[Kind, ...] = ()
    outcomes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
