"""What is done with prompts, whatever brings the call (protocol.md §8): shown, answered, claimed.

Owns how prompts are spelled for one reader and what each call answers. Who may call is checked
before; whether an answer fits and who is first is the store's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sessionwire_schemas.prompt import Answerer, ShownState
from sessionwire_server.api_keys import Principal
from sessionwire_server.errors import HubError
from sessionwire_server.hub import Hub
from sessionwire_server.minting import rfc3339
from sessionwire_server.prompt_bodies import ClaimPrompt
from sessionwire_server.prompt_kept import Kept, Looked, Said
from sessionwire_server.prompt_search import Found
from sessionwire_server.prompt_view import prompt_members
from sessionwire_server.query import Query, invalid
from sessionwire_server.redaction import shown

__all__ = [
    "OPEN_STATES",
    "answer_prompt",
    "claim_prompt",
    "limit_of",
    "list_prompts",
    "look_at_prompt",
    "prompt_shown",
    "prompts_shown",
    "statuses_of",
]

LIMIT: Final = 50
MAX_LIMIT: Final = 200

STATES: Final[tuple[ShownState, ...]] = (
    "pending",
    "claimed",
    "answered",
    "completed",
    "expired",
    "cancelled",
    "orphaned",
    "withdrawn",
    "rewound",
)
OPEN_STATES: Final = frozenset[str]({"pending", "claimed", "answered"})


async def list_prompts(hub: Hub, reader: Principal, sid: str, query: Query) -> dict[str, Any]:
    """List the prompts of a session, the open ones unless `status` says otherwise.

    Raises:
        HubError: 400 `invalid_parameter`, `invalid_page_token`; as `PromptStore.find`.
    """
    statuses = statuses_of(query, frozenset(STATES))
    token = query.text("page_token", 2_048) or None
    page = await hub.prompts.find(sid, statuses or None, limit_of(query), token)
    data = await prompts_shown(hub, reader, [Found(sid, page.kept, page.now_ms)])
    return {"data": data, "next_page_token": page.next_page_token}


async def look_at_prompt(
    hub: Hub, reader: Principal, sid: str, rid: str, *, secrets: bool
) -> Looked:
    """Read a prompt.

    Raises:
        HubError: 403 `secrets_required`; as `PromptStore.look`.
    """
    if secrets and not reader.secrets:
        raise HubError(403, "secrets_required", "reading credentials needs the mark 'secrets'")
    return await hub.prompts.look(sid, rid, secrets=secrets)


async def prompt_shown(hub: Hub, reader: Principal, sid: str, looked: Looked) -> dict[str, Any]:
    """Spell a prompt, with what was cut out of it where that was read."""
    (members,) = await prompts_shown(hub, reader, [Found(sid, (looked.kept,), looked.now_ms)])
    if looked.secrets is not None:
        members["secrets"] = looked.secrets
    return members


async def answer_prompt(
    hub: Hub, who: Principal, sid: str, said: Said, by: Answerer
) -> dict[str, Any]:
    """Take an answer; gives the prompt for the first, and for the same one again.

    Raises:
        HubError: as `PromptStore.answer`.
    """
    (answered,) = await hub.prompts.answer(sid, [said], by, secrets=who.secrets)
    # It waits no longer, so nobody asks who could answer.
    seen = _seen_by(hub, who, answered.kept)
    return prompt_members(sid, seen, now_ms=answered.now_ms)


async def claim_prompt(
    hub: Hub, sid: str, rid: str, wanted: ClaimPrompt, by: Answerer
) -> dict[str, Any]:
    """Claim a prompt, or renew a claim: while it lasts only its holder may answer.

    Raises:
        HubError: as `PromptStore.claim`.
    """
    held = await hub.prompts.claim(
        sid, rid, claim_id=wanted.claim_id, lease_s=wanted.lease_s, by=by.name
    )
    return {"claim_id": held.claim_id, "expires_at": rfc3339(held.until_ms)}


def statuses_of(query: Query, known: frozenset[str]) -> frozenset[str]:
    """Read which states are asked for; none where it is not said.

    Raises:
        HubError: 400 `invalid_parameter`.
    """
    wanted = frozenset(query.many("status", len(STATES)))
    odd = sorted(wanted - known)
    if odd:
        words = ", ".join(word for word in STATES if word in known)
        raise invalid("status", f"must be of {words}, not {odd[0][:40]!r}")
    return wanted


def limit_of(query: Query) -> int:
    """Read how many prompts a page has.

    Raises:
        HubError: 400 `invalid_parameter`.
    """
    return query.integer("limit", 1, MAX_LIMIT) or LIMIT


async def prompts_shown(
    hub: Hub, reader: Principal, found: Sequence[Found]
) -> list[dict[str, Any]]:
    """Spell prompts of some sessions for a reader."""
    asking = [one.sid for one in found if any(kept.prompt.is_open for kept in one.kept)]
    present = dict(zip(asking, await hub.presence.of_all(asking), strict=True)) if asking else {}
    return [
        prompt_members(
            one.sid,
            _seen_by(hub, reader, kept),
            now_ms=one.now_ms,
            unattended=present[one.sid].can_answer == 0 if one.sid in present else None,
        )
        for one in found
        for kept in one.kept
    ]


def _seen_by(hub: Hub, reader: Principal, kept: Kept) -> Kept:
    """Hold back from the opener what this reader is not shown of any event."""
    if kept.opener is None or not hub.redacts(reader):
        return kept
    return replace(kept, opener=shown(kept.opener))
