"""The prompt ledger: folds events and answers into every prompt's state (protocol.md §8).

Owns which records an event, an answer, a claim or a deadline touches, and the tombstones' bounds;
what becomes of each one is the table of `prompt_transitions`. The SDK folds the stream with it, the
hub's tests hold it against Redis, whose scripts do the same with the same arguments: the `Effects`
of each event, a place, a time. Nothing here reads a clock or draws an id.

Order within one event: it closes, it ends, it opens. A record that is `closing` waits for the
completed event that `due_closers` spells; whoever publishes it, its id is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sessionwire_schemas.catalog import Catalog
from sessionwire_schemas.closers import (
    CLOSING_REASONS,
    Closer,
    CloseReason,
    closer_id,
    ending_closer,
)
from sessionwire_schemas.outcomes import outcome_of
from sessionwire_schemas.prompt import Claim, Completion, Place, Prompt
from sessionwire_schemas.prompt_rules import DEFAULT_TTL_S, EndReason, PromptKind
from sessionwire_schemas.prompt_transitions import (
    MAX_LEASE_MS,
    Given,
    Refusal,
    answer_refusal,
    answered,
    claim_refusal,
    claimed,
    closed_by_event,
    ended,
    opened,
    rejected,
    released,
    unread,
)
from sessionwire_schemas.prompts import Closing, Effects, Ending, Opening, effects

__all__ = ["MAX_TOMBSTONES", "TOMBSTONE_MS", "Applied", "Decision", "PromptLedger"]

MAX_TOMBSTONES: Final = 1_000
"""Closed records that are kept, the newest."""

TOMBSTONE_MS: Final = 7 * 24 * 3_600_000
"""How long a closed record is kept."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What an event did.

    Attributes:
        duplicate: the record that already says what the event says: such an event is stored nowhere
            and answered with that record's closer, or opener. None for an event to be stored.
        changed: the records that it changed, in their new state.
    """

    duplicate: Prompt | None = None
    changed: tuple[Prompt, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of an answer or a claim.

    Attributes:
        verdict: `taken`; `repeated` for the winning answer sent again; `refused`.
        prompt: the record after it, None if there is none.
        refusal: why it was refused, None otherwise.
    """

    verdict: Literal["taken", "repeated", "refused"]
    prompt: Prompt | None
    refusal: Refusal | None = None


class PromptLedger:
    """The prompts of one session, by request id, in the order of their opening.

    Args:
        catalog: the session's.
        session_id: its id, which the ids of the hub's events hash.
        completion: who publishes the completed event of an answer.
        ttl_s: seconds that a prompt waits whose opener names no deadline, by kind; by default the
            catalog's. A kind that is not in it waits for ever.
    """

    def __init__(
        self,
        catalog: Catalog,
        session_id: str,
        *,
        completion: Completion = "hub",
        ttl_s: Mapping[PromptKind, int] | None = None,
    ) -> None:
        self._catalog = catalog
        self._session_id = session_id
        self._completion: Completion = completion
        self._ttl_s = DEFAULT_TTL_S[catalog.name] if ttl_s is None else ttl_s
        self._open: dict[str, Prompt] = {}
        self._closed: dict[str, Prompt] = {}

    def __len__(self) -> int:
        """Return the number of open prompts."""
        return len(self._open)

    def __iter__(self) -> Iterator[Prompt]:
        """Yield the open prompts, the oldest first."""
        return iter(tuple(self._open.values()))

    @property
    def closed(self) -> tuple[Prompt, ...]:
        """The closed records that are kept, the first closed first."""
        return tuple(self._closed.values())

    def get(self, request_id: str) -> Prompt | None:
        """Return the record of a prompt, open or closed; None if there is none, or no longer."""
        return self._open.get(request_id) or self._closed.get(request_id)

    def keep(self, prompts: Iterable[Prompt]) -> None:
        """Take records that were kept elsewhere, in the order of their opening, as they are."""
        for prompt in prompts:
            self._keep(prompt)

    def apply(
        self,
        event: Mapping[str, object],
        place: Place,
        now_ms: int,
        *,
        rewound_from: int | None = None,
    ) -> Applied:
        """Fold one event of the session; see `fold`.

        Args:
            event: the event, as decoded JSON.
            place: where it stands, or would stand if it is no duplicate.
            now_ms: when it was received, milliseconds since 1970.
            rewound_from: for a rewind, the offset of the event that it names.
        """
        found = effects(self._catalog, event)
        event_id = event.get("id")
        name = event_id if isinstance(event_id, str) else ""
        return self.fold(found, name, place, now_ms, event=event, rewound_from=rewound_from)

    def fold(
        self,
        found: Effects,
        event_id: str,
        place: Place,
        now_ms: int,
        *,
        event: Mapping[str, object] | None = None,
        rewound_from: int | None = None,
    ) -> Applied:
        """Fold what one event does to prompts.

        An event comes once: copies of one id are the log's business.

        Args:
            found: what it does.
            event_id: its id.
            place: where it stands, or would stand if it is no duplicate.
            now_ms: when it was received, milliseconds since 1970.
            event: the event itself, which open records then hold.
            rewound_from: for a rewind, the offset of the event that it names, None where that is
                not known: then no prompt ends.
        """
        changed: list[Prompt] = []
        duplicate = None
        if found.closes is not None:
            duplicate, closed = self._close(found.closes, event_id, place, now_ms)
            changed += closed
        if found.ends is not None:
            changed += self._end(found.ends, now_ms, rewound_from)
        if found.opens:
            duplicate, opens = self._open_all(found, event, place, now_ms)
            changed += opens
        return Applied(duplicate, tuple(changed))

    def answer(self, request_id: str, given: Given, now_ms: int) -> Decision:
        """Take an answer, if it is the first and nothing speaks against it."""
        prompt = self.get(request_id)
        refusal = answer_refusal(prompt, given, now_ms)
        if refusal is not None or prompt is None:
            return Decision("refused", prompt, refusal)
        if given.key and given.key == prompt.key:
            return Decision("repeated", prompt)
        after = answered(
            prompt,
            given,
            now_ms,
            completion=self._completion,
            closer_id=self._closer_id(request_id, "answered"),
        )
        self._keep(after)
        return Decision("taken", after)

    def claim(self, request_id: str, claim: Claim, now_ms: int) -> Decision:
        """Take a claim, or renew the one whose id it has; it lasts `MAX_LEASE_MS` at most."""
        prompt = self.get(request_id)
        refusal = claim_refusal(prompt, claim.claim_id, now_ms)
        if refusal is not None or prompt is None:
            return Decision("refused", prompt, refusal)
        until_ms = min(claim.until_ms, now_ms + MAX_LEASE_MS)
        after = claimed(prompt, Claim(claim.claim_id, claim.by, until_ms))
        self._keep(after)
        return Decision("taken", after)

    def release(self, request_id: str, claim_id: str, now_ms: int) -> Decision:
        """Give a claim back. One that has lapsed, or was never there, is given back as well."""
        prompt = self.get(request_id)
        refusal = claim_refusal(prompt, claim_id, now_ms)
        if refusal is not None or prompt is None:
            return Decision("refused", prompt, refusal)
        after = released(prompt, claim_id)
        self._keep(after)
        return Decision("taken", after)

    def expire(self, now_ms: int) -> tuple[Prompt, ...]:
        """End the prompts whose deadline has come; the closer of each is made in the same step."""
        due = [prompt for prompt in self if prompt.is_due(now_ms)]
        return tuple(self._ended(prompt, "deadline", now_ms, at_once=True) for prompt in due)

    def end(self, reason: Literal["deleted", "host_gone"], now_ms: int) -> tuple[Prompt, ...]:
        """End every open prompt, for a reason that no event says.

        The closer of each, where one is due, is made in the same step: nothing in the stream would
        tell a viewer before.
        """
        return tuple(self._ended(prompt, reason, now_ms, at_once=True) for prompt in self)

    def reject(self, request_id: str, detail: str, now_ms: int) -> Prompt | None:
        """Note that the host did not accept an answer. Returns the record, if there is one."""
        prompt = self.get(request_id)
        return None if prompt is None else self._keep(rejected(prompt, detail, now_ms))

    def unread(self, request_id: str, now_ms: int) -> Prompt | None:
        """Expire a prompt whose secret answer no host fetched; others stay as they are.

        The closer, where there is none yet, is made in the same step.
        """
        prompt = self.get(request_id)
        by = None if prompt is None else prompt.answered_by
        if prompt is None or not prompt.opening.secret or by is None or by.host:
            return prompt
        if prompt.state not in ("answered", "completed"):
            return prompt
        if prompt.closer_id:
            return self._keep(unread(prompt))
        return self._ended(prompt, "unread", now_ms, at_once=True)

    def forget(self, now_ms: int) -> int:
        """Drop the closed records that are too old or too many. Returns how many."""
        old = {
            request_id
            for request_id, prompt in self._closed.items()
            if (prompt.closed_ms or 0) + TOMBSTONE_MS <= now_ms
        }
        young = [request_id for request_id in self._closed if request_id not in old]
        old.update(young[: max(0, len(young) - MAX_TOMBSTONES)])
        for request_id in old:
            del self._closed[request_id]
        return len(old)

    def due_closers(self) -> Iterator[tuple[str, Closer]]:
        """Yield the id and the content of each event that a `closing` record waits for."""
        for prompt in self._closed.values():
            if prompt.closing and prompt.reason and prompt.reason != "answered":
                closer = self._closer(prompt, prompt.reason)
                if closer is not None:
                    yield self._closer_id(prompt.request_id, prompt.reason), closer

    def _keep(self, prompt: Prompt) -> Prompt:
        request_id = prompt.request_id
        if prompt.is_open:
            self._open[request_id] = prompt
        else:
            self._open.pop(request_id, None)
            self._closed[request_id] = prompt
        return prompt

    def _closer_id(self, request_id: str, reason: CloseReason) -> str:
        return closer_id(self._catalog.name, self._session_id, request_id, reason)

    def _closer(self, prompt: Prompt, reason: EndReason) -> Closer | None:
        kind, call = prompt.opening.kind, prompt.opening.tool_call_id
        return ending_closer(self._catalog, kind, prompt.request_id, reason, tool_call_id=call)

    def _hub_reason(self, request_id: str, event_id: str) -> CloseReason | None:
        """Tell why the hub made this event, None if it is the host's."""
        for reason in CLOSING_REASONS:
            if event_id == self._closer_id(request_id, reason):
                return reason
        return None

    def _close(
        self, closing: Closing, event_id: str, place: Place, now_ms: int
    ) -> tuple[Prompt | None, list[Prompt]]:
        if closing.tool_call_id:
            meant = [prompt for prompt in self if _waits_for(prompt, closing)]
        else:
            found = self.get(closing.request_id)
            meant = [] if found is None or not _is_kind(found, closing) else [found]
        changed: list[Prompt] = []
        for prompt in meant:
            reason = self._hub_reason(prompt.request_id, event_id)
            after = closed_by_event(prompt, closing, event_id, place, now_ms, hub_reason=reason)
            if after is None:
                return prompt, []
            if after is not prompt:
                changed.append(self._keep(after))
        return None, changed

    def _end(self, ending: Ending, now_ms: int, rewound_from: int | None) -> tuple[Prompt, ...]:
        if ending.reason == "rewind" and rewound_from is None:
            return ()
        since = rewound_from or 0
        meant = [prompt for prompt in self if _fits(prompt, ending, since)]
        return tuple(self._ended(prompt, ending.reason, now_ms, at_once=False) for prompt in meant)

    def _ended(self, prompt: Prompt, reason: EndReason, now_ms: int, *, at_once: bool) -> Prompt:
        closer = self._closer(prompt, reason)
        if closer is None:
            return self._keep(ended(prompt, reason, now_ms))
        outcome = outcome_of(self._catalog, prompt.opening.kind, closer.data)
        made = self._closer_id(prompt.request_id, reason) if at_once else ""
        return self._keep(
            ended(prompt, reason, now_ms, outcome=outcome, closing=not at_once, closer_id=made)
        )

    def _open_all(
        self, found: Effects, event: Mapping[str, object] | None, place: Place, now_ms: int
    ) -> tuple[Prompt | None, list[Prompt]]:
        asked = [opening for opening in found.opens if not opening.settled]
        known = [self._open.get(opening.request_id) for opening in asked]
        if known and all(known):
            return known[0], []
        fresh = [opening for opening in asked if self.get(opening.request_id) is None]
        return None, [
            self._keep(opened(opening, event, place, now_ms, self._ttl_ms(opening)))
            for opening in fresh
        ]

    def _ttl_ms(self, opening: Opening) -> int | None:
        seconds = self._ttl_s.get(opening.kind)
        return None if seconds is None else seconds * 1000


def _is_kind(prompt: Prompt, closing: Closing) -> bool:
    return closing.kind in ("", prompt.opening.kind)


def _waits_for(prompt: Prompt, closing: Closing) -> bool:
    """Tell whether a finished tool call is the one that an open prompt is about."""
    here, there = prompt.opening.agent_id, closing.agent_id
    return (
        _is_kind(prompt, closing)
        and prompt.opening.tool_call_id == closing.tool_call_id
        # The model numbers its calls, so two agents may use one id; an event may name no agent.
        and (here == there or not here or not there)
    )


def _fits(prompt: Prompt, ending: Ending, since: int) -> bool:
    """Tell whether an ending means an open prompt."""
    opening = prompt.opening
    return (
        prompt.place.offset >= since
        and ending.agent_id in ("", opening.agent_id)
        and (not ending.turn_id or opening.turn_id in ("", ending.turn_id))
        and not (ending.keeps_resumable and opening.resumable)
    )
