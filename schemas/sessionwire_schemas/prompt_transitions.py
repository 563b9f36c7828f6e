"""What may happen to a prompt, and what is refused (protocol.md §8). Pure: time is passed in.

Functions from a record to the next. Redis holds open records in one hash and closed ones, without
their opener, in another, and its scripts decide by the same table, in the same order. A closed
record never opens again.

| trigger | from | to | also |
|---|---|---|---|
| opener | none | pending | a known id opens nothing: `duplicate` while it is open |
| answer, `completion: hub` | pending | completed | closer: the hub's event, in the same step |
| answer, `completion: host` | pending | answered | |
| closer with an answer | pending | completed | the answer is the host's |
| closer without one | pending | withdrawn | |
| closer | answered | completed | overruled if the outcome is another |
| `tool.execution_complete` | pending, answered | completed | `external_tool` only; is no closer |
| deadline | pending | expired | at or after it; closer: the hub's event, in the same step |
| abort, turn_end, user_message | pending, answered | cancelled | closing |
| shutdown, resume | pending, answered | orphaned | closing |
| host_gone | pending, answered | orphaned | closer: the hub's event, in the same step |
| unread | answered | expired | a secret answer nobody fetched; closer in the same step |
| unread | completed | expired | the same; the answer's closer stands |
| deleted | pending, answered | withdrawn | no closer is due |
| rewind | pending, answered | rewound | no closer is due |
| the host rejects the answer | answered | withdrawn | overruled, with its detail |
| the host rejects the answer | completed | completed | overruled, with its detail |
| the hub's closer, the record closing | closed | same | the closer; no longer closing |
| the hub's closer, another one there | closed | same | `duplicate` |
| the host's closer, none there yet | closed | same | the closer; overruled if the outcome differs |
| the host's closer, the same outcome | closed | same | `duplicate`: stored nowhere |
| the host's closer, another outcome | closed | same | overruled, with the host's outcome |

An answer is refused for the first of these that holds, and taken otherwise:

| if | status, code |
|---|---|
| there is no record | 404 `prompt_not_found` |
| its key is the winner's, and so is the body | none: `repeated` |
| its key is the winner's, the body is not | 422 `idempotency_reused` |
| somebody answered, or the state is `completed` | 409 `prompt_already_answered` |
| the record is closed | 410, its state |
| the deadline is now or past | 410 `expired` |
| the prompt needs a human and this is none | 403 `human_required` |
| the answer is secret and the token lacks the mark | 403 `secrets_required` |
| a claim with another id lasts | 409 `prompt_claimed` |

A claim, and giving one back: the same without the lines about keys and marks, and with 409
`not_claimable` after the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from sessionwire_schemas.closers import CloseReason
from sessionwire_schemas.outcomes import NO_OUTCOME
from sessionwire_schemas.prompt import (
    HOST,
    REDACTED,
    Answerer,
    Claim,
    Completion,
    Place,
    Prompt,
    PromptState,
)
from sessionwire_schemas.prompt_rules import STATE_AFTER, EndReason
from sessionwire_schemas.prompts import Closing, Opening

__all__ = [
    "MAX_LEASE_MS",
    "REFUSALS",
    "Given",
    "Refusal",
    "RefusalCode",
    "answer_refusal",
    "answered",
    "claim_refusal",
    "claimed",
    "closed_by_event",
    "ended",
    "opened",
    "rejected",
    "released",
    "unread",
]

MAX_LEASE_MS: Final = 300_000
"""The longest that one claim lasts without being renewed."""

RefusalCode: TypeAlias = Literal[
    "cancelled",
    "expired",
    "human_required",
    "idempotency_reused",
    "not_claimable",
    "orphaned",
    "prompt_already_answered",
    "prompt_claimed",
    "prompt_not_found",
    "rewound",
    "secrets_required",
    "withdrawn",
]

REFUSALS: Final[Mapping[RefusalCode, int]] = MappingProxyType(
    {
        "cancelled": 410,
        "expired": 410,
        "human_required": 403,
        "idempotency_reused": 422,
        "not_claimable": 409,
        "orphaned": 410,
        "prompt_already_answered": 409,
        "prompt_claimed": 409,
        "prompt_not_found": 404,
        "rewound": 410,
        "secrets_required": 403,
        "withdrawn": 410,
    }
)
"""The HTTP status of each refusal, by its code."""


@dataclass(frozen=True, slots=True)
class Given:
    """An answer that fits its prompt, on its way to be the first.

    Attributes:
        value: the answer as the client wrote it.
        outcome: the outcome of the event that it makes.
        by: who gives it.
        key: its idempotency key, "" for none.
        digest: a hash of its body, compared where a key comes again.
        claim_id: the claim it is given under, "" for none.
        secrets: the token has the mark `secrets`.
        comment: the answerer's remark.
    """

    value: Any
    outcome: str
    by: Answerer
    key: str = ""
    digest: str = ""
    claim_id: str = ""
    secrets: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not done.

    Attributes:
        code: the stable code; `REFUSALS` has its status.
        prompt: the record that decided, None if there is none.
    """

    code: RefusalCode
    prompt: Prompt | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return REFUSALS[self.code]


def opened(
    opening: Opening,
    event: Mapping[str, object] | None,
    place: Place,
    now_ms: int,
    ttl_ms: int | None,
) -> Prompt:
    """Return the record of a prompt that is new; `ttl_ms` holds where it names no deadline."""
    deadline = opening.expires_ms
    if deadline is None and ttl_ms is not None:
        deadline = now_ms + ttl_ms
    return Prompt(opening, "pending", event, place, now_ms, expires_ms=deadline)


def answer_refusal(prompt: Prompt | None, given: Given, now_ms: int) -> Refusal | None:
    """Return why an answer is not taken, None if it is. A repeated one is no refusal either."""
    if prompt is None:
        return Refusal("prompt_not_found")
    if given.key and given.key == prompt.key:
        return Refusal("idempotency_reused", prompt) if given.digest != prompt.digest else None
    if prompt.answered_by is not None:
        return Refusal("prompt_already_answered", prompt)
    over = _over(prompt, now_ms)
    if over is not None:
        return over
    if prompt.opening.human and not given.by.human:
        return Refusal("human_required", prompt)
    if prompt.opening.secret and not given.secrets:
        return Refusal("secrets_required", prompt)
    holder = prompt.holder(now_ms)
    if holder is not None and holder.claim_id != given.claim_id:
        return Refusal("prompt_claimed", prompt)
    return None


def answered(
    prompt: Prompt, given: Given, now_ms: int, *, completion: Completion, closer_id: str
) -> Prompt:
    """Return the record with an answer that nothing refuses.

    Args:
        prompt: the record before.
        given: the answer.
        now_ms: the time.
        completion: who closes it.
        closer_id: id of the hub's event, used where the hub closes it.
    """
    taken = replace(
        prompt,
        state="answered",
        claim=None,
        answered_by=given.by,
        answer=REDACTED if prompt.opening.secret else given.value,
        answered_ms=now_ms,
        comment=given.comment,
        key=given.key,
        digest=given.digest,
        outcome=given.outcome,
    )
    if completion == "host":
        return taken
    return replace(_closed(taken, "completed", now_ms), reason="answered", closer_id=closer_id)


def claim_refusal(prompt: Prompt | None, claim_id: str, now_ms: int) -> Refusal | None:
    """Return why a claim is not taken or not renewed, None if it is."""
    if prompt is None:
        return Refusal("prompt_not_found")
    if not prompt.opening.claimable:
        return Refusal("not_claimable", prompt)
    if prompt.answered_by is not None:
        return Refusal("prompt_already_answered", prompt)
    over = _over(prompt, now_ms)
    if over is not None:
        return over
    holder = prompt.holder(now_ms)
    if holder is not None and holder.claim_id != claim_id:
        return Refusal("prompt_claimed", prompt)
    return None


def claimed(prompt: Prompt, claim: Claim) -> Prompt:
    """Return the record with a claim that nothing refuses."""
    return replace(prompt, claim=claim)


def released(prompt: Prompt, claim_id: str) -> Prompt:
    """Return the record without the claim `claim_id`; as it is if it has another or none."""
    if prompt.claim is None or prompt.claim.claim_id != claim_id:
        return prompt
    return replace(prompt, claim=None)


def ended(
    prompt: Prompt,
    reason: EndReason,
    now_ms: int,
    *,
    outcome: str = NO_OUTCOME,
    closing: bool = False,
    closer_id: str = "",
) -> Prompt:
    """Return the record of a prompt that ended for a reason; an answer it has stays.

    Args:
        prompt: the record before.
        reason: why it ends.
        now_ms: the time.
        outcome: outcome of the hub's event that says so.
        closing: that event is still to be published.
        closer_id: its id, where it is published in the same step.
    """
    over = _closed(prompt, STATE_AFTER[reason], now_ms)
    return replace(over, reason=reason, outcome=outcome, closing=closing, closer_id=closer_id)


def closed_by_event(
    prompt: Prompt,
    closing: Closing,
    event_id: str,
    place: Place,
    now_ms: int,
    *,
    hub_reason: CloseReason | None,
) -> Prompt | None:
    """Return the record after a completed event of its own; None where that is a duplicate.

    Args:
        prompt: the record before, open or closed.
        closing: what the event closes.
        event_id: its id.
        place: where it stands, or would.
        now_ms: the time.
        hub_reason: why, where the event is the hub's own; None for the host's.
    """
    if prompt.is_open:
        return _closed_at_last(prompt, closing, event_id, place, now_ms, hub_reason)
    if event_id and event_id == prompt.closer_id:
        return prompt if prompt.closer_place else replace(prompt, closer_place=place)
    if closing.tool_call_id:
        return prompt
    if not prompt.closer_id:
        found = replace(prompt, closing=False, closer_id=event_id, closer_place=place)
        return found if hub_reason is not None else _overruled(found, closing.outcome)
    if hub_reason is not None:
        return None
    said = prompt.overruled_outcome
    known = prompt.outcome if said is None else said
    return None if closing.outcome == known else _overruled(prompt, closing.outcome)


def unread(prompt: Prompt) -> Prompt:
    """Return the record after no host fetched the secret answer that closed it."""
    return replace(prompt, state="expired", reason="unread")


def rejected(prompt: Prompt, detail: str, now_ms: int) -> Prompt:
    """Return the record after the host acknowledged its answer as rejected.

    No closer will come for one that waits for the host, so it is closed; an answer it has is still
    the one that later answers are told of.
    """
    if prompt.answered_by is None or prompt.answered_by.host:
        return prompt
    over = _closed(prompt, "withdrawn", now_ms) if prompt.state == "answered" else prompt
    return replace(over, overruled=True, detail=detail)


def _over(prompt: Prompt, now_ms: int) -> Refusal | None:
    state = prompt.state
    if state == "completed":
        # Only events were seen of it, and those do not say who answered.
        return Refusal("prompt_already_answered", prompt)
    if not prompt.is_open:
        return Refusal(cast("RefusalCode", state), prompt)
    return Refusal("expired", prompt) if prompt.is_due(now_ms) else None


def _closed(prompt: Prompt, state: PromptState, now_ms: int) -> Prompt:
    return replace(prompt, state=state, event=None, claim=None, closed_ms=now_ms)


def _closed_at_last(
    prompt: Prompt,
    closing: Closing,
    event_id: str,
    place: Place,
    now_ms: int,
    hub_reason: CloseReason | None,
) -> Prompt:
    """Return the record of an open prompt after the event that closes it."""
    if prompt.state == "answered":
        over = _closed(prompt, "completed", now_ms)
        if not closing.tool_call_id:
            over = _overruled(over, closing.outcome)
    elif hub_reason is not None and hub_reason != "answered":
        over = ended(prompt, hub_reason, now_ms, outcome=closing.outcome)
    elif hub_reason is not None:
        # The answer itself was not seen: this fold has only the stream.
        over = replace(_closed(prompt, "completed", now_ms), outcome=closing.outcome)
        over = replace(over, reason="answered")
    elif closing.answered:
        over = replace(
            _closed(prompt, "completed", now_ms),
            answered_by=HOST,
            answered_ms=now_ms,
            outcome=closing.outcome,
        )
    else:
        over = _closed(prompt, "withdrawn", now_ms)
    if closing.tool_call_id:
        # Not the pair's own closer, which may still come and is then stored.
        return over
    return replace(over, closer_id=event_id, closer_place=place)


def _overruled(prompt: Prompt, outcome: str) -> Prompt:
    """Return the record with what the host says; it may come back to the outcome it overruled."""
    if outcome != prompt.outcome:
        return replace(prompt, overruled=True, overruled_outcome=outcome)
    if prompt.overruled_outcome is None:
        return prompt
    return replace(prompt, overruled=bool(prompt.detail), overruled_outcome=None)
