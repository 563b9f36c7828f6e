"""A prompt as it is shown to people and programs (protocol.md §8.2). Pure.

The opener is shown byte for byte as its producer wrote it; a claim without its id, which is its
holder's alone; an answer with credentials only as `{"redacted": true}`, which is all that is kept.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sessionwire_schemas.prompt import REDACTED, Answerer, Prompt
from sessionwire_server.minting import rfc3339
from sessionwire_server.prompt_kept import Kept

__all__ = ["answerer_members", "prompt_members", "shown_answer"]


def answerer_members(by: Answerer) -> dict[str, Any]:
    """Spell who answered."""
    if by.host:
        return {"host": True}
    via = {"via": by.via} if by.via else {}
    return {"name": by.name or None, "human": by.human, **via}


def shown_answer(prompt: Prompt) -> Any:
    """Give the answer as it is shown, in types that JSON knows."""
    return dict(REDACTED) if prompt.answer is REDACTED else prompt.answer


def prompt_members(
    sid: str, kept: Kept, *, now_ms: int, unattended: bool | None = None
) -> dict[str, Any]:
    """Build the resource.

    Args:
        sid: the session.
        kept: the prompt.
        now_ms: Redis' time, which decides whether a claim lasts.
        unattended: whether nobody able to answer is connected; None where that is not known, or
            the prompt does not wait.
    """
    prompt, opener = kept.prompt, kept.opener
    opening, claim, by = prompt.opening, prompt.holder(now_ms), prompt.answered_by
    return {
        "request_id": prompt.request_id,
        "session_id": sid,
        "kind": opening.kind,
        "status": prompt.status(now_ms),
        "event": None if opener is None else msgspec.Raw(opener.body),
        "opened_at": rfc3339(prompt.opened_ms),
        "expires_at": _time(prompt.expires_ms),
        "claim": None if claim is None else {"by": claim.by, "expires_at": rfc3339(claim.until_ms)},
        "answer": shown_answer(prompt),
        "answered_by": None if by is None else answerer_members(by),
        "answered_at": _time(prompt.answered_ms),
        "unattended": unattended if prompt.state == "pending" else None,
        **_more(prompt),
    }


def _more(prompt: Prompt) -> dict[str, Any]:
    """Spell what is only there where it says something."""
    opening = prompt.opening
    members: dict[str, Any] = {
        "claimable": opening.claimable,
        "human": opening.human,
        "secret": opening.secret,
        "tool_call_id": opening.tool_call_id,
        "agent_id": opening.agent_id,
        "turn_id": opening.turn_id,
        "comment": prompt.comment,
        "closed_at": _time(prompt.closed_ms),
        "took_ms": prompt.took_ms,
        "outcome": prompt.outcome,
        "reason": prompt.reason,
        "closer_id": prompt.closer_id,
        "overruled": prompt.overruled,
        "overruled_outcome": prompt.overruled_outcome,
        "detail": prompt.detail,
    }
    return {name: value for name, value in members.items() if _says(value)}


def _says(value: object) -> bool:
    return value is not None and value is not False and value != ""


def _time(ms: int | None) -> str | None:
    """Spell a time; a producer's deadline may be beyond what can be spelled."""
    if ms is None:
        return None
    try:
        return rfc3339(ms)
    except (ValueError, OverflowError, OSError):
        return None
