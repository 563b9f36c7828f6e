"""The record of one prompt: what is kept of it, and how it is shown (protocol.md §8).

A value, which `prompt_transitions` makes from another one. It is open (`pending`, `answered`) or
closed (the six others). `claimed` is no state of its own but how a pending one is shown while a
claim lasts, so that nothing has to happen when the claim lapses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from sessionwire_schemas.closers import CloseReason
from sessionwire_schemas.outcomes import NO_OUTCOME
from sessionwire_schemas.prompts import Opening

__all__ = [
    "HOST",
    "OPEN_STATES",
    "REDACTED",
    "Answerer",
    "Claim",
    "Completion",
    "Place",
    "Prompt",
    "PromptState",
    "ShownState",
]

PromptState: TypeAlias = Literal[
    "pending",
    "answered",
    "completed",
    "expired",
    "cancelled",
    "orphaned",
    "withdrawn",
    "rewound",
]

ShownState: TypeAlias = PromptState | Literal["claimed"]

Completion: TypeAlias = Literal["hub", "host"]
"""Who closes an answered prompt; see protocol.md §8."""

OPEN_STATES: Final = frozenset[PromptState](("pending", "answered"))
"""The states of a record that something can still happen to."""

REDACTED: Final[Mapping[str, bool]] = MappingProxyType({"redacted": True})
"""What a record shows in place of an answer with credentials."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands.

    Attributes:
        offset: its number among all events of the session.
        sequence: the number of the last durable event at or before it.
    """

    offset: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Answerer:
    """Who answered.

    Attributes:
        name: name of the token, "" for the host.
        host: it was the host's own completed event.
        human: the token has the `human` mark.
        via: from where: the transport and whatever the hub knows of the client.
    """

    name: str = ""
    host: bool = False
    human: bool = False
    via: str = ""


HOST: Final = Answerer(host=True)
"""The host, whose completed event was the answer."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, which may have lapsed.

    Attributes:
        claim_id: its id, minted by the hub.
        by: name of the token that holds it.
        until_ms: when it lapses.
    """

    claim_id: str
    by: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """The record of a prompt.

    Attributes:
        opening: what the opener said.
        state: see the table.
        event: the opener; None once the prompt is closed.
        place: where the opener stands.
        opened_ms: when it was received, milliseconds since 1970.
        expires_ms: its deadline, None for none.
        claim: the last claim, also one that has lapsed; None where there was none, it was given
            back, or the prompt is no longer pending.
        answered_by: who answered, None if nobody did.
        answer: the answer, None where nobody answered or the host's event did; `REDACTED` for
            credentials.
        answered_ms: when.
        comment: the answerer's remark.
        key: idempotency key of the winning answer.
        digest: hash of its body.
        outcome: outcome of the answer, or of the event that ended it; "" for none.
        reason: why it was closed; "" while it is open, and where the host closed it.
        closed_ms: when it was closed, None while it is open.
        closing: it has ended and the hub's event that says so is still to be published.
        closer_id: id of the event that closed it, "" where there is none yet.
        closer_place: where that event stands, None where that is not known yet.
        overruled: the host decided otherwise.
        overruled_outcome: the outcome of the host's event that did so, None where none did.
        detail: the host's words about a rejected answer.
    """

    opening: Opening
    state: PromptState
    event: Mapping[str, object] | None
    place: Place
    opened_ms: int
    expires_ms: int | None = None
    claim: Claim | None = None
    answered_by: Answerer | None = None
    answer: Any = None
    answered_ms: int | None = None
    comment: str = ""
    key: str = ""
    digest: str = ""
    outcome: str = NO_OUTCOME
    reason: CloseReason | Literal[""] = ""
    closed_ms: int | None = None
    closing: bool = False
    closer_id: str = ""
    closer_place: Place | None = None
    overruled: bool = False
    overruled_outcome: str | None = None
    detail: str = ""

    @property
    def request_id(self) -> str:
        """The producer's id of it."""
        return self.opening.request_id

    @property
    def is_open(self) -> bool:
        """It waits for an answer, or for the host to take one."""
        return self.state in OPEN_STATES

    @property
    def took_ms(self) -> int | None:
        """How long the answer took, None if there is none."""
        return None if self.answered_ms is None else self.answered_ms - self.opened_ms

    def status(self, now_ms: int) -> ShownState:
        """Return the state as clients see it: `claimed` while a claim lasts."""
        return "claimed" if self.holder(now_ms) is not None else self.state

    def holder(self, now_ms: int) -> Claim | None:
        """Return the claim that lasts at `now_ms`."""
        claim = self.claim if self.state == "pending" else None
        return claim if claim is not None and claim.until_ms > now_ms else None

    def is_due(self, now_ms: int) -> bool:
        """Tell whether it waits for an answer and its deadline has come."""
        deadline = self.expires_ms
        return self.state == "pending" and deadline is not None and now_ms >= deadline
