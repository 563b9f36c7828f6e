"""What becomes of a session's prompts, decided before it is written (protocol.md §8, ADR 8). Pure.

A `Plan` begins with what one read found, folds events, answers and deadlines into it by the one
`PromptLedger` there is, and ends as the events to be stored and the terms on which they are: the
hub's own closers among the events, right after what they follow from, and the records beside them.
Where nothing else has changed meanwhile the publish script writes all of it in one step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from sessionwire_schemas.answers import AnswerError, check_answer
from sessionwire_schemas.catalog import Catalog
from sessionwire_schemas.closers import Closer, CloseReason, ending_closer
from sessionwire_schemas.ledger import PromptLedger
from sessionwire_schemas.prompt import Answerer, Claim, Place, Prompt
from sessionwire_schemas.prompt_transitions import Given, answer_refusal
from sessionwire_schemas.prompts import NO_EFFECTS, asked
from sessionwire_server.entries import Entry, Verdict
from sessionwire_server.errors import HubError
from sessionwire_server.prompt_answer import UNREAD_MS, answer_command
from sessionwire_server.prompt_closers import closing_entry
from sessionwire_server.prompt_kept import Said
from sessionwire_server.prompt_record import kept_answer, spelled
from sessionwire_server.prompt_refusals import invalid_answer, refused
from sessionwire_server.prompt_state import PromptState, Scope, Wanted
from sessionwire_server.prompt_terms import (
    CommandWrite,
    Decided,
    Flag,
    Mark,
    PromptWrite,
    Quiet,
    Sent,
    place_in_batch,
)

__all__ = ["Plan", "opened_by", "quiet_terms", "wanted_for"]

MAX_CLOSERS: Final = 1_000
"""The hub's own closers in one call. A single event never needs more: no more prompts are open."""


def quiet_terms(entries: Sequence[Entry]) -> Quiet | None:
    """Give the term on which events that open nothing do nothing; None if some open prompts."""
    names: dict[str, None] = {}
    for entry in entries:
        if entry.prompts.opens:
            return None
        closing = entry.prompts.closes
        if closing is not None and closing.request_id:
            names[closing.request_id] = None
    return Quiet(tuple(names), sent_with(entries))


def sent_with(entries: Sequence[Entry]) -> tuple[Sent, ...]:
    """Give the commands that are taken with events."""
    return tuple(
        Sent(index, entry.command, entry.commands_max)
        for index, entry in enumerate(entries, 1)
        if entry.command is not None
    )


def wanted_for(entries: Sequence[Entry]) -> Wanted:
    """Tell what has to be read to decide what events do."""
    names: dict[str, None] = {}
    targets: dict[str, None] = {}
    whole = False
    for entry in entries:
        found = entry.prompts
        names.update((one.request_id, None) for one in found.opens)
        if found.closes is not None:
            names.update({found.closes.request_id: None} if found.closes.request_id else {})
            whole = whole or bool(found.closes.tool_call_id)
        if found.ends is not None:
            whole = True
            if found.ends.from_event_id:
                targets[found.ends.from_event_id] = None
    ids = {
        entry.id: None
        for entry in entries
        if not entry.minted and (entry.prompts is not NO_EFFECTS or entry.id in targets)
    }
    scope: Scope = "all" if whole else "named"
    return Wanted(scope, tuple(names), targets=tuple(targets), ids=tuple(ids))


class Plan:
    """A change in the making.

    Attributes:
        entries: the events of the request, the hub's own among them.
        counts: what happened, by words of `/metrics`.
    """

    def __init__(self, state: PromptState, catalog: Catalog, sid: str) -> None:
        self.entries: list[Entry] = []
        self.counts: Counter[str] = Counter()
        self._state = state
        self._catalog = catalog
        self._sid = sid
        self._now_ms = state.now_ms
        self._ledger = PromptLedger(catalog, sid, completion=state.completion)
        self._ledger.keep(one.prompt for one in state.oldest_first())
        self._ledger.keep(one.prompt for one in state.closed.values())
        self._marks: list[str] = []
        self._suppressed: list[tuple[int, Place]] = []
        self._stored: set[str] = set()
        self._places: dict[str, Place] = {}
        """Durable events of the request by id."""
        self._touched: dict[str, None] = {}
        self._orders: dict[str, int] = {}
        self._secrets: dict[str, bytes] = {}
        self._commands: list[CommandWrite] = []
        self._due: dict[str, int | None] = {}
        self._before_ms = 0
        self._flag: Flag = "-"
        self._closers = 0

    def get(self, request_id: str) -> Prompt | None:
        """Give a record as it will be."""
        return self._ledger.get(request_id)

    def _next(self) -> Place:
        return place_in_batch(len(self.entries) + 1)

    def _touch(self, prompts: Iterable[Prompt]) -> None:
        self._touched.update((prompt.request_id, None) for prompt in prompts)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Fold events that somebody publishes, in order.

        Raises:
            HubError: 413 `too_many_events`, they end more prompts than fit into one call.
        """
        for entry in entries:
            if entry.id in self._stored:
                self._put(entry, Mark.ANY)
            elif entry.id in self._state.known:
                self._put(entry, Mark.KNOWN)
            elif entry.prompts is not NO_EFFECTS:
                self._fold(entry)
            else:
                is_asked = entry.id in self._state.asked
                self._store(entry, Mark.NEW if is_asked else Mark.ANY)

    def published(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Give the verdicts on what somebody published, without the hub's own events."""
        pairs = zip(verdicts, self._marks, strict=True)
        return [verdict for verdict, mark in pairs if mark != Mark.HUB]

    def _put(self, entry: Entry, mark: str) -> None:
        self.entries.append(entry)
        self._marks.append(mark)

    def _store(self, entry: Entry, mark: str) -> None:
        self._stored.add(entry.id)
        if entry.durable:
            self._places[entry.id] = self._next()
        self._put(entry, mark)

    def _fold(self, entry: Entry) -> None:
        """Fold an event that does something to prompts, with what follows from it."""
        place, found = self._next(), entry.prompts
        rewound_from = None
        if found.ends is not None and found.ends.from_event_id:
            rewound_from = self._rewound_from(found.ends.from_event_id)
        applied = self._ledger.fold(found, entry.id, place, self._now_ms, rewound_from=rewound_from)
        said = applied.duplicate
        if said is not None:
            closer = said.closer_place if found.closes is not None else None
            self._suppressed.append((len(self.entries) + 1, closer or said.place))
            self._put(entry, Mark.SUPPRESSED)
            return
        self._store(entry, Mark.NEW)
        self._touch(applied.changed)
        for order, prompt in enumerate(p for p in applied.changed if p.place == place):
            self._orders.setdefault(prompt.request_id, order)
            if entry.secrets:
                self._secrets[prompt.request_id] = entry.secrets
        for prompt in applied.changed:
            if prompt.closing and prompt.reason:
                self._close(prompt, prompt.reason)

    def _rewound_from(self, event_id: str) -> int | None:
        place = self._places.get(event_id)
        if place is not None:
            return place.offset
        return self._state.targets.get(event_id)

    def _close(self, prompt: Prompt, reason: CloseReason, closer: Closer | None = None) -> None:
        """Publish the hub's own event about a prompt that has ended, or was answered."""
        opening = prompt.opening
        if closer is None and reason != "answered":
            closer = ending_closer(
                self._catalog,
                opening.kind,
                opening.request_id,
                reason,
                tool_call_id=opening.tool_call_id,
            )
        if closer is None:
            return
        self._closers += 1
        if self._closers > MAX_CLOSERS:
            detail = f"these events end more than {MAX_CLOSERS} prompts, send fewer at a time"
            raise HubError(413, "too_many_events", detail, limit=MAX_CLOSERS)
        entry = closing_entry(self._catalog, self._sid, opening, reason, closer, self._now_ms)
        place = self._next()
        self._store(entry, Mark.HUB)
        self._touch(self._ledger.fold(entry.prompts, entry.id, place, self._now_ms).changed)

    def answer(self, said: Said, by: Answerer, *, secrets: bool) -> bool:
        """Take an answer; tell whether it is new, and not the winning one again.

        Raises:
            HubError: 403, 404, 409, 410 or 422, as protocol.md §8.3 says.
        """
        request_id = said.request_id
        before = self._ledger.get(request_id)
        given = Given(None, "", by, said.key, said.digest, said.claim_id, secrets, said.comment)
        refusal = answer_refusal(before, given, self._now_ms)
        if refusal is not None or before is None:
            raise refused(request_id, refusal, self._now_ms)
        if said.key and said.key == before.key:
            return False
        answer, closer, outcome = self._checked(said)
        given = Given(
            answer, outcome, by, said.key, said.digest, said.claim_id, secrets, said.comment
        )
        decision = self._ledger.answer(request_id, given, self._now_ms)
        after = decision.prompt
        if decision.verdict != "taken" or after is None:
            raise refused(request_id, decision.refusal, self._now_ms)
        self._touched[request_id] = None
        self._not_after(before)
        self.counts["answered"] += 1
        command = answer_command(self._sid, before.opening, said, by, self._now_ms)
        self._commands.append(command)
        if before.opening.secret:
            self._due[f"u:{request_id}"] = self._now_ms + UNREAD_MS
        if not after.is_open:
            self._close(after, "answered", closer)
        return True

    def _checked(self, said: Said) -> tuple[object, Closer, str]:
        """Check an answer; give what is kept of it, its completed event and its outcome."""
        kept = self._state.kept(said.request_id)
        opener = None if kept is None else kept.opener
        if opener is None:
            raise HubError(503, "redis_unavailable", "what the prompt asks is lost")
        event = cast("Mapping[str, object]", json.loads(opener.body))
        question = asked(self._catalog, event, said.request_id)
        if question is None:
            raise HubError(503, "redis_unavailable", "what the prompt asks is lost")
        try:
            answer = check_answer(question, said.answer)
            return kept_answer(answer.value), answer.closer, answer.outcome
        except AnswerError as error:
            faults = [{"pointer": one.pointer, "message": one.message} for one in error.faults]
        except (ValueError, RecursionError):
            faults = [{"pointer": "", "message": "holds what JSON cannot spell"}]
        raise invalid_answer(said.request_id, faults)

    def _not_after(self, prompt: Prompt) -> None:
        """Have the change fail at the deadline of a prompt, which only Redis' clock decides."""
        deadline = prompt.expires_ms
        if deadline is not None and prompt.state == "pending":
            self._before_ms = min(self._before_ms or deadline, deadline)

    def claim(self, request_id: str, claim: Claim) -> Claim:
        """Take a claim, or renew it; gives it as it lasts.

        Raises:
            HubError: 404, 409 or 410.
        """
        before = self._ledger.get(request_id)
        decision = self._ledger.claim(request_id, claim, self._now_ms)
        prompt = decision.prompt
        if decision.verdict != "taken" or prompt is None or prompt.claim is None:
            raise refused(request_id, decision.refusal, self._now_ms)
        if before is not None:
            self._not_after(before)
        self._touched[request_id] = None
        return prompt.claim

    def release(self, request_id: str, claim_id: str) -> None:
        """Give a claim back.

        Raises:
            HubError: 404, 409 or 410.
        """
        decision = self._ledger.release(request_id, claim_id, self._now_ms)
        if decision.verdict != "taken":
            raise refused(request_id, decision.refusal, self._now_ms)
        self._touched[request_id] = None

    def end_due(self, unread: Iterable[str]) -> None:
        """End what is due: deadlines, a host that stays away, and secret answers nobody fetched.

        Args:
            unread: request ids of the latter.
        """
        # What is due no longer is, whether or not it still means something.
        self._due.update(dict.fromkeys(self._state.due))
        self._end_at_once(self._ledger.expire(self._now_ms))
        for request_id in unread:
            before = self._ledger.get(request_id)
            after = self._ledger.unread(request_id, self._now_ms)
            if after is not None and after is not before:
                self._touched[request_id] = None
                if before is not None and not before.closer_id:
                    self._end_at_once((after,))
        if "gone" in self._state.due:
            self._flag = "g"
            self._end_at_once(self._ledger.end("host_gone", self._now_ms))

    def _end_at_once(self, ended: Iterable[Prompt]) -> None:
        for prompt in ended:
            self._touched[prompt.request_id] = None
            if prompt.reason:
                self._close(prompt, prompt.reason)

    def reject(self, request_id: str, detail: str) -> None:
        """Note that the host did not accept an answer; saying it again changes nothing."""
        if self._ledger.reject(request_id, detail, self._now_ms) is not None:
            self._touched[request_id] = None

    def mend(self, prompts: Iterable[tuple[Prompt, int]]) -> None:
        """Open prompts again whose records are lost; each with its place among its opener's."""
        self._flag = "r"
        for prompt, order in prompts:
            self._ledger.keep((prompt,))
            self._orders[prompt.request_id] = order
            self._touched[prompt.request_id] = None

    def terms(self) -> Decided:
        """Give the terms on which the events are stored, with all that is written beside them."""
        writes = [write for name in self._touched if (write := self._write(name)) is not None]
        return Decided(
            epoch=self._state.epoch,
            version=self._state.version,
            marks="".join(self._marks),
            suppressed=tuple(self._suppressed),
            before_ms=self._before_ms,
            flag=self._flag,
            writes=tuple(writes),
            due=tuple(self._due.items()),
            commands=tuple(self._commands),
            sent=sent_with(self.entries),
        )

    def _write(self, request_id: str) -> PromptWrite | None:
        after = self._ledger.get(request_id)
        record = self._state.open.get(request_id) or self._state.closed.get(request_id)
        if after is None or (record is not None and record.prompt == after):
            return None
        was_open = request_id in self._state.open
        self._count(after, None if record is None else record.prompt)
        member = f"p:{request_id}"
        if after.state == "pending" and after.expires_ms is not None:
            if not was_open:
                self._due[member] = after.expires_ms
        elif was_open and record is not None and record.prompt.expires_ms is not None:
            self._due[member] = None
        return PromptWrite(
            request_id=request_id,
            state=after.status(self._now_ms),
            was_open=was_open,
            is_open=after.is_open,
            place=after.place,
            closer_place=after.closer_place,
            order=self._orders.get(request_id, 0) if record is None else record.order,
            record=spelled(after),
            secrets=self._secrets.get(request_id, b""),
            closed_ms=after.closed_ms or 0,
        )

    def _count(self, after: Prompt, before: Prompt | None) -> None:
        if before is None:
            self.counts["opened"] += 1
        if not after.is_open and (before is None or before.state != after.state):
            self.counts[after.state] += 1
        if after.overruled and not (before is not None and before.overruled):
            self.counts["overruled"] += 1


def opened_by(writes: Sequence[PromptWrite]) -> int:
    """Count how many prompts more are open after some writes."""
    return sum(write.is_open - write.was_open for write in writes)
