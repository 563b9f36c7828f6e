"""The prompts of all sessions, in Redis: shown, answered, claimed, ended (protocol.md §8, ADR 8).

Owns how a change is made: one read, one decision by the pure ledger, one write that only counts if
nothing has changed meanwhile; else it is read and decided again. What the write stores (events,
records, commands to the host) is stored in one step. Any number of stores over one Redis are one
store. Who may do what is decided before anybody calls this.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import random
import secrets as randomness
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import anyio

from sessionwire_schemas.catalog import CATALOGS, COPILOT
from sessionwire_schemas.ledger import TOMBSTONE_MS
from sessionwire_schemas.prompt import OPEN_STATES, Answerer, Claim, Place, Prompt
from sessionwire_server import publish_call, scripts
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.entries import Entry, Verdict
from sessionwire_server.errors import HubError
from sessionwire_server.keys import ASKING, SessionKeys
from sessionwire_server.log_reader import text
from sessionwire_server.prompt_answer import answer_id
from sessionwire_server.prompt_kept import (
    Answered,
    Kept,
    Looked,
    OpenPrompts,
    PromptPage,
    Said,
)
from sessionwire_server.prompt_log import ReadLog, unclosed
from sessionwire_server.prompt_plan import Plan, opened_by, quiet_terms, wanted_for
from sessionwire_server.prompt_record import read
from sessionwire_server.prompt_refusals import prompt_not_found
from sessionwire_server.prompt_state import PromptState, Wanted, read_state
from sessionwire_server.prompt_terms import BATCH, Decided
from sessionwire_server.publish_call import PublishRequest
from sessionwire_server.redis_link import RedisLink, Reply
from sessionwire_server.settings import Settings

__all__ = [
    "Answered",
    "Kept",
    "Looked",
    "OpenPrompts",
    "PromptPage",
    "PromptStore",
    "Said",
]

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 64
"""Changes that may come between, before whoever asks is told to come again."""

HINT_S: Final = 60.0
"""How often the hints to a session that is read are made sure of."""

MAX_HINTED: Final = 10_000

Submit: TypeAlias = Callable[[str, PublishRequest], Awaitable[list[Verdict] | None]]
"""Stores a request; None if its terms did not hold."""


@dataclass(slots=True)
class _Turn:
    """Who decides about a session in this process; others wait."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class PromptStore:
    """Shows prompts and changes them.

    Every method raises `StoreUnavailable` while Redis is away, and 404 `session_not_found` where
    there is no session; one that changes something 410 `session_deleted` where there was one.

    Attributes:
        counts: what happened to prompts through this process, by words of `/metrics`.
    """

    def __init__(
        self,
        link: RedisLink,
        settings: Settings,
        deadlines: Deadlines,
        submit: Submit,
        read_log: ReadLog,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._link = link
        self._settings = settings
        self._deadlines = deadlines
        self._submit = submit
        self._read_log = read_log
        self._hinted: dict[str, float] = {}
        """When the hints to a session were last made sure of, the oldest first."""
        self._turns: dict[str, _Turn] = {}

    # Reading.

    async def open(self, sid: str) -> OpenPrompts:
        """Read the open prompts of a session with their openers, the oldest first."""
        state = await self._seen(sid, Wanted("all", openers=True))
        if state.open:
            await self._find_again(sid, state)
        kept = [state.kept(one.prompt.request_id) for one in state.oldest_first()]
        catalog = "" if state.catalog is None else state.catalog.name
        found = tuple(one for one in kept if one is not None)
        return OpenPrompts(state.version, state.now_ms, catalog, found)

    async def _find_again(self, sid: str, state: PromptState) -> None:
        """Write the hints to a session that has open prompts, should they be lost; now and then."""
        now = anyio.current_time()
        if now - self._hinted.get(sid, float("-inf")) < HINT_S:
            return
        self._hinted.pop(sid, None)
        self._hinted[sid] = now
        if len(self._hinted) > MAX_HINTED:
            del self._hinted[next(iter(self._hinted))]
        prompts = [one.prompt for one in state.open.values()]
        deadlines = [p.expires_ms for p in prompts if p.state == "pending" and p.expires_ms]
        if deadlines:
            await self._deadlines.note(sid, max(1, min(deadlines) - state.now_ms))
        await self._link.command("ZADD", ASKING, 0, sid)

    async def look(self, sid: str, rid: str, *, secrets: bool = False) -> Looked:
        """Read one prompt, open or closed, and with `secrets` what was cut out of its opener.

        Raises:
            HubError: 404 `prompt_not_found`.
        """
        state = await self._seen(sid, Wanted(names=(rid,), openers=True, secrets=secrets))
        kept = state.kept(rid)
        if kept is None or _is_old(kept.prompt, state.now_ms):
            raise prompt_not_found(rid)
        return Looked(kept, state.now_ms, state.secrets.get(rid))

    async def find(
        self, sid: str, statuses: frozenset[str] | None, limit: int, page_token: str | None
    ) -> PromptPage:
        """Read a page of a session's prompts.

        Args:
            sid: the session.
            statuses: how they are shown; None for the open ones.
            limit: most prompts.
            page_token: `next_page_token` of the page before.

        Raises:
            HubError: 400 `invalid_page_token`.
        """
        wanted = frozenset((*OPEN_STATES, "claimed")) if statuses is None else statuses
        after = _Mark.read(page_token) if page_token else _Mark(is_open=True)
        found: list[tuple[Kept, _Mark]] = []
        state = await self._seen(sid, Wanted("all", openers=after.is_open))
        now_ms = state.now_ms
        if after.is_open:
            for one in state.oldest_first():
                mark = _Mark(True, one.prompt.place.offset, one.order, one.prompt.request_id)
                kept = state.kept(one.prompt.request_id)
                if kept is not None and one.prompt.status(now_ms) in wanted and mark > after:
                    found.append((kept, mark))
        if len(found) <= limit and not wanted <= {*OPEN_STATES, "claimed"}:
            start = _Mark(is_open=False, offset=2**53) if after.is_open else after
            found += await self._closed(sid, wanted, limit + 1 - len(found), start, now_ms)
        token = found[limit - 1][1].token() if len(found) > limit else None
        return PromptPage(tuple(kept for kept, _ in found[:limit]), token, now_ms)

    async def _closed(
        self, sid: str, wanted: frozenset[str], limit: int, after: _Mark, now_ms: int
    ) -> list[tuple[Kept, _Mark]]:
        """Read closed records, the last closed first, after a place in that order."""
        keys = SessionKeys.of(sid)
        rows = await self._link.command("ZREVRANGE", keys.closed_at, 0, -1, "WITHSCORES")
        marks = [_Mark(False, int(at), 0, text(name)) for name, at in rows]
        left = [mark for mark in marks if mark < after and mark.offset + TOMBSTONE_MS > now_ms]
        found: list[tuple[Kept, _Mark]] = []
        for first in range(0, len(left), 100):
            part = left[first : first + 100]
            names = [mark.request_id for mark in part]
            values = await self._link.command("HMGET", keys.closed, *names)
            for mark, value in zip(part, values, strict=True):
                if value is None:
                    continue
                prompt = read(value).prompt
                if prompt.state in wanted:
                    found.append((Kept(prompt, None), mark))
            if len(found) >= limit:
                break
        return found[:limit]

    async def sessions_with_open(self, after: str, limit: int) -> list[str]:
        """Name sessions that may have open prompts, in the order of their ids, after one.

        Fewer than `limit` are the last ones. Each session's own state tells whether it has some.
        """
        start = f"({after}" if after else "-"
        reply: list[bytes] = await self._link.command(
            "ZRANGE", ASKING, start, "+", "BYLEX", "LIMIT", 0, limit
        )
        return [text(name) for name in reply]

    async def _read(self, sid: str, wanted: Wanted) -> PromptState:
        """Read what is wanted; its epoch is empty for a session that does not exist.

        Raises:
            SessionDeleted: it was deleted lately.
        """
        reply: list[Reply] = await self._link.run(
            scripts.load("prompt_read"), Wanted.keys(SessionKeys.of(sid)), wanted.words()
        )
        if reply[0] == b"deleted":
            raise publish_call.SessionDeleted(sid)
        return read_state(wanted, reply)

    async def _seen(self, sid: str, wanted: Wanted) -> PromptState:
        state = await self._read(sid, wanted)
        if not state.epoch:
            raise publish_call.session_not_found(sid)
        return state

    # Changing.

    async def publish(
        self, sid: str, catalog: str | None, entries: Sequence[Entry], *, create: bool
    ) -> list[Verdict]:
        """Store events of which some open, close or end prompts; see `EventStore.publish`.

        Raises:
            HubError: also 429 `prompts_full`; 413 `too_many_events`.
        """
        terms = quiet_terms(entries)
        if terms is not None:
            # Nearly always nothing is open, and there is nothing to decide.
            verdicts = await self._submit(
                sid, PublishRequest(catalog or "", create, entries, terms)
            )
            if verdicts is not None:
                return verdicts

        def decide(state: PromptState) -> Plan:
            if not state.epoch and not create:
                raise publish_call.session_not_found(sid)
            known = state.catalog
            if known is not None and catalog and known.name != catalog:
                raise publish_call.catalog_mismatch(sid, known.name)
            chosen = known or CATALOGS.get(catalog or "") or COPILOT
            plan = Plan(state, chosen, sid)
            plan.publish(entries)
            return plan

        changed = await self._change(sid, wanted_for(entries), decide, catalog or "", create=create)
        return changed.plan.published(changed.verdicts)

    async def answer(
        self, sid: str, said: Sequence[Said], by: Answerer, *, secrets: bool
    ) -> list[Answered]:
        """Take answers, all of them or none.

        Args:
            sid: the session.
            said: one answer for each of some prompts.
            by: who gives them.
            secrets: their token has the mark `secrets`.

        Raises:
            HubError: why the first that is refused is, with its `request_id`: 404
                `prompt_not_found`; 409 `prompt_already_answered`, `prompt_claimed`; 410 with the
                state as code; 403 `human_required`, `secrets_required`; 422 `invalid_answer`,
                `idempotency_reused`.
        """
        verdicts: list[bool] = []

        def decide(state: PromptState) -> Plan:
            plan = self._plan(sid, state)
            verdicts[:] = [plan.answer(one, by, secrets=secrets) for one in said]
            return plan

        names = tuple(dict.fromkeys(one.request_id for one in said))
        changed = await self._change(sid, Wanted(names=names, openers=True), decide)
        return [
            Answered(changed.kept(one.request_id), "taken" if new else "repeated", changed.now_ms)
            for one, new in zip(said, verdicts, strict=True)
        ]

    async def claim(
        self, sid: str, rid: str, *, claim_id: str | None, lease_s: float, by: str
    ) -> Claim:
        """Claim a prompt, or renew a claim.

        Args:
            sid: the session.
            rid: the prompt.
            claim_id: the claim to renew; None for a new one.
            lease_s: how long it lasts; 300 at most.
            by: name of the token.

        Raises:
            HubError: 404 `prompt_not_found`; 409 `not_claimable`, `prompt_already_answered`,
                `prompt_claimed`; 410 with the state as code.
        """
        name = claim_id or f"claim_{randomness.token_hex(16)}"
        taken: list[Claim] = []

        def decide(state: PromptState) -> Plan:
            plan = self._plan(sid, state)
            until_ms = state.now_ms + round(lease_s * 1000)
            taken[:] = [plan.claim(rid, Claim(name, by, until_ms))]
            return plan

        await self._change(sid, Wanted(names=(rid,)), decide)
        return taken[0]

    async def release(self, sid: str, rid: str, claim_id: str) -> None:
        """Give a claim back; one that has lapsed, or never was, is given back as well.

        Raises:
            HubError: as `claim`.
        """

        def decide(state: PromptState) -> Plan:
            plan = self._plan(sid, state)
            plan.release(rid, claim_id)
            return plan

        await self._change(sid, Wanted(names=(rid,)), decide)

    async def rejected(self, sid: str, rid: str, detail: str) -> None:
        """Note that the host acknowledged an answer as rejected; again changes nothing."""

        def decide(state: PromptState) -> Plan:
            plan = self._plan(sid, state)
            plan.reject(rid, detail)
            return plan

        await self._change(sid, Wanted(names=(rid,)), decide)

    async def end_due(self, sid: str) -> None:
        """End what of a session's prompts is due by Redis' clock."""

        async def unread(state: PromptState) -> list[str]:
            names = [member[2:] for member in state.due if member.startswith("u:")]
            return [name for name in names if await self._is_unread(sid, name)]

        while True:
            state = await self._read(sid, Wanted("due"))
            if not state.due:
                return
            forgotten = await unread(state)

            def decide(state: PromptState, forgotten: Sequence[str] = tuple(forgotten)) -> Plan:
                plan = self._plan(sid, state)
                plan.end_due(forgotten)
                return plan

            await self._change(sid, Wanted("due"), decide)

    async def _is_unread(self, sid: str, rid: str) -> bool:
        """Tell whether an answer's command ended before a host had read it, or is about to."""
        keys = SessionKeys.of(sid)
        value = await self._link.command("HGET", keys.receipts, answer_id(sid, rid))
        # An answer that was delivered is never `accepted` again, whatever the time.
        return value is not None and value.split(b" ", 1)[0] in (b"accepted", b"expired")

    def _plan(self, sid: str, state: PromptState) -> Plan:
        if not state.epoch:
            raise publish_call.session_not_found(sid)
        return Plan(state, state.catalog or COPILOT, sid)

    async def _change(
        self,
        sid: str,
        wanted: Wanted,
        decide: Callable[[PromptState], Plan],
        catalog: str = "",
        *,
        create: bool = False,
    ) -> _Changed:
        """Read, decide and write until nothing has come between.

        Raises:
            HubError: what `decide` raises; 410 `session_deleted`; 503 `busy`.
        """
        async with self._turn(sid):
            for attempt in range(ATTEMPTS):
                try:
                    state = await self._read(sid, wanted)
                except publish_call.SessionDeleted:
                    raise publish_call.session_deleted(sid) from None
                if state.epoch and not state.is_whole:
                    await self._mend(sid)
                    continue
                plan = decide(state)
                terms = plan.terms()
                verdicts = await self._write(sid, state, plan, terms, catalog, create=create)
                if verdicts is not None:
                    self.counts.update(plan.counts)
                    return _Changed(state, plan, verdicts)
                await anyio.sleep(random.uniform(0, 0.001 * attempt))
        detail = "the prompts of the session change too fast, try again shortly"
        raise HubError(503, "busy", detail, headers={"Retry-After": "1"})

    async def _write(
        self,
        sid: str,
        state: PromptState,
        plan: Plan,
        terms: Decided,
        catalog: str,
        *,
        create: bool,
    ) -> list[Verdict] | None:
        """Write what was decided; None if it does not hold any more."""
        if not (plan.entries or terms.writes or terms.due or terms.commands or terms.flag == "r"):
            return []
        more = opened_by(terms.writes)
        if more > 0 and terms.flag != "r" and state.counted + more > self._settings.prompts_max:
            raise _full(self._settings.prompts_max)
        opens = any(write.is_open and not write.was_open for write in terms.writes)
        # What helps to find a session is there before what is to be found.
        if opens:
            await self._link.command("ZADD", ASKING, 0, sid)
        ahead = [at - state.now_ms for _, at in terms.due if at is not None]
        if ahead:
            await self._deadlines.note(sid, max(1, min(ahead)))
        verdicts = await self._submit(sid, PublishRequest(catalog, create, plan.entries, terms))
        if verdicts is None or not terms.writes:
            return verdicts
        if opens:
            # Whoever closed the last one just before may have taken it away meanwhile.
            await self._link.command("ZADD", ASKING, 0, sid)
        elif more and state.counted + more <= 0:
            await self._link.command("ZREM", ASKING, sid)
        return verdicts

    @asynccontextmanager
    async def _turn(self, sid: str) -> AsyncGenerator[None]:
        """Decide about a session one at a time in this process: most retries never happen."""
        turn = self._turns.setdefault(sid, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[sid]

    async def _mend(self, sid: str) -> None:
        """Open again what the log says of prompts whose records are lost; the others are gone."""
        state = await self._read(sid, Wanted("all"))
        if state.is_whole or not state.epoch or state.catalog is None:
            return
        lost = state.counted - state.stored
        found = await unclosed(self._read_log, sid, state.catalog, state.completion)
        names = tuple(one.prompt.request_id for one in found)
        state = await self._read(sid, Wanted("all", names))
        plan = self._plan(sid, state)
        again = [
            (one.prompt, one.order)
            for one in found
            if one.prompt.request_id not in state.open and one.prompt.request_id not in state.closed
        ]
        plan.mend(again)
        if await self._write(sid, state, plan, plan.terms(), "", create=False) is None:
            return
        self.counts["lost"] += max(0, lost - len(again))
        logger.warning(
            "session %s counts %d open prompts and has %d: %d were found again in its log",
            sid,
            state.counted,
            state.stored,
            len(again),
        )


@dataclass(frozen=True, slots=True)
class _Changed:
    """A change that was written."""

    state: PromptState
    plan: Plan
    verdicts: Sequence[Verdict]

    @property
    def now_ms(self) -> int:
        return self.state.now_ms

    def kept(self, request_id: str) -> Kept:
        """Give a prompt as it is now."""
        prompt = self.plan.get(request_id)
        if prompt is None:
            raise prompt_not_found(request_id)
        closer = prompt.closer_place
        if closer is not None and closer.offset > BATCH:
            sequence, offset = self.verdicts[closer.offset - BATCH - 1].position
            prompt = replace(prompt, closer_place=Place(offset, sequence))
        before = self.state.kept(request_id)
        opener = before.opener if before is not None and prompt.is_open else None
        return Kept(prompt, opener)


@dataclass(frozen=True, slots=True, order=True)
class _Mark:
    """The place of a prompt in a list: open ones by their openers, closed ones by their time."""

    is_open: bool
    offset: int = -1
    order: int = 0
    request_id: str = ""

    def token(self) -> str:
        words = [self.is_open, self.offset, self.order, self.request_id]
        return base64.urlsafe_b64encode(json.dumps(words).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, token: str) -> _Mark:
        try:
            padded = token + "=" * (-len(token) % 4)
            words = json.loads(base64.b64decode(padded, b"-_", validate=True))
            is_open, offset, order, request_id = words
        except (ValueError, TypeError, binascii.Error, RecursionError):
            is_open = offset = order = request_id = None
        match is_open, offset, order, request_id:
            case bool(), int(), int(), str():
                return cls(is_open, offset, order, request_id)
            case _:
                raise HubError(400, "invalid_page_token", "page_token is none of ours")


def _is_old(prompt: Prompt, now_ms: int) -> bool:
    return prompt.closed_ms is not None and prompt.closed_ms + TOMBSTONE_MS <= now_ms


def _full(most: int) -> HubError:
    detail = f"{most} prompts of the session are open, as many as may"
    return HubError(429, "prompts_full", detail, headers={"Retry-After": "5"}, limit=most)
