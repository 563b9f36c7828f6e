"""Why an answer or a claim is refused: errors that clients can act on (protocol.md §8.3). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sessionwire_schemas.prompt import Prompt
from sessionwire_schemas.prompt_transitions import Refusal, RefusalCode
from sessionwire_server.errors import HubError
from sessionwire_server.minting import rfc3339
from sessionwire_server.prompt_view import answerer_members, shown_answer

__all__ = ["invalid_answer", "prompt_not_found", "refused"]

_WORDS: Final[Mapping[RefusalCode, str]] = {
    "cancelled": "the prompt was cancelled",
    "expired": "the time to answer the prompt is over",
    "human_required": "this prompt is for a person, and the token has no mark `human`",
    "idempotency_reused": "another answer was given under this Idempotency-Key",
    "not_claimable": "prompts of this kind are answered, never claimed",
    "orphaned": "nobody waits for an answer to the prompt any more",
    "prompt_already_answered": "the prompt was answered before",
    "prompt_claimed": "somebody has claimed the prompt",
    "rewound": "the prompt was rewound",
    "secrets_required": "the answer carries credentials, and the token has no mark `secrets`",
    "withdrawn": "the prompt was withdrawn",
}


def prompt_not_found(request_id: str) -> HubError:
    """Make the error for a prompt that is not known (any more)."""
    detail = f"there is no prompt {request_id!r}"
    return HubError(404, "prompt_not_found", detail, request_id=request_id)


def refused(request_id: str, refusal: Refusal | None, now_ms: int) -> HubError:
    """Make the error of a refusal, with who won or holds the prompt."""
    if refusal is None or refusal.prompt is None or refusal.code == "prompt_not_found":
        return prompt_not_found(request_id)
    members = _members(refusal.code, refusal.prompt, now_ms)
    return HubError(
        refusal.status, refusal.code, _WORDS[refusal.code], request_id=request_id, **members
    )


def _members(code: RefusalCode, prompt: Prompt, now_ms: int) -> dict[str, Any]:
    if code == "prompt_already_answered":
        by, at_ms = prompt.answered_by, prompt.answered_ms
        return {
            "answered_by": None if by is None else answerer_members(by),
            "answered_at": None if at_ms is None else rfc3339(at_ms),
            "answer": shown_answer(prompt),
        }
    holder = prompt.holder(now_ms)
    if code == "prompt_claimed" and holder is not None:
        return {"claimed_by": holder.by, "expires_at": rfc3339(holder.until_ms)}
    return {}


def invalid_answer(request_id: str, faults: Sequence[Mapping[str, str]]) -> HubError:
    """Make the error for an answer that does not fit its prompt; `faults` never quote it."""
    first = faults[0]
    detail = f"{first['pointer'] or 'answer'}: {first['message']}"
    return HubError(422, "invalid_answer", detail, request_id=request_id, faults=list(faults))
