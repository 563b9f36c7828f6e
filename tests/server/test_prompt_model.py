"""Random histories over two hubs' stores and one Redis, against the pure ledger.

The ledger folds the same history: the events in the order in which they were taken, and what else
was done between. After each step every record in Redis is the ledger's, the events are those that
it expects with the hub's own among them, and whatever Redis keeps beside the records fits them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sessionwire_schemas.answers import check_answer
from sessionwire_schemas.catalog import COPILOT, EVERRUNS, Catalog
from sessionwire_schemas.closers import Closer, closer_id, ending_closer
from sessionwire_schemas.ledger import PromptLedger
from sessionwire_schemas.prompt import Claim, Completion, Place, Prompt
from sessionwire_schemas.prompt_transitions import Given, answer_refusal
from sessionwire_schemas.prompts import asked
from sessionwire_server.command_store import CommandStore
from sessionwire_server.commands import Acknowledge
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.entries import Position
from sessionwire_server.errors import HubError
from sessionwire_server.host_lease import HostLeases
from sessionwire_server.keys import ASKING, SessionKeys
from sessionwire_server.metrics import Metrics
from sessionwire_server.prompt_answer import answer_id
from sessionwire_server.prompt_kept import Said
from sessionwire_server.prompt_record import read, spelled
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.session_record import SessionFields
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from sessionwire_server.validation import Validation
from tests.server.prompting import ANN, ANSWERS, Event, ask, ask_calls, closer, event, publish

Result = TypeVar("Result")

NAMES = st.sampled_from([f"r{number}" for number in range(5)])
KINDS = st.sampled_from(["user_input", "permission", "external_tool", "mcp_oauth", "command"])
AGENTS = st.sampled_from(["", "a", "b"])
STORES = st.integers(0, 1)

TIMES = ("opened_ms", "answered_ms", "closed_ms", "expires_ms")

UNKNOWN = "00000000-0000-4000-8000-000000000000"

STRICT = Validation("strict", Metrics())


def timeless(prompt: Prompt | None) -> Prompt | None:
    """Leave out what a clock says, but for whether it says something."""
    if prompt is None:
        return None
    said: dict[str, Any] = {
        name: 0 if getattr(prompt, name) is not None else None for name in TIMES
    }
    claim = prompt.claim
    return replace(
        prompt,
        event=None,
        claim=None if claim is None else Claim(claim.claim_id, claim.by, 0),
        **said,
    )


class Model:
    """The ledger, and the events that are expected in the session."""

    def __init__(self, catalog: Catalog, sid: str, completion: Completion) -> None:
        self.catalog, self.sid, self.completion = catalog, sid, completion
        self.ledger = PromptLedger(catalog, sid, completion=completion)
        self.events: list[tuple[str, bool]] = []
        self.commands: list[str] = []
        self.openers: dict[str, Event] = {}
        self.now_ms = 1_000

    @property
    def place(self) -> Place:
        durable = sum(is_durable for _, is_durable in self.events)
        return Place(len(self.events), durable)

    def place_of(self, event_id: str) -> Place:
        at = [name for name, _ in self.events].index(event_id) + 1
        return Place(at, sum(is_durable for _, is_durable in self.events[:at]))

    def _next(self, durable: bool) -> Place:
        at = self.place
        return Place(at.offset + 1, at.sequence + durable)

    def publish(self, one: Event) -> tuple[Place, bool]:
        """Fold an event; give the place that it is answered with, and whether it is a duplicate."""
        if one["id"] in [name for name, _ in self.events]:
            return self.place_of(one["id"]), True
        durable = not self.catalog.is_ephemeral(one["type"], one.get("ephemeral"))
        target = one["data"].get("upToEventId")
        hidden = self.place_of(target).offset if (target, True) in self.events else None
        place = self._next(durable)
        applied = self.ledger.apply(one, place, self.now_ms, rewound_from=hidden)
        said = applied.duplicate
        if said is not None:
            return said.closer_place or said.place, True
        self.events.append((one["id"], durable))
        for prompt in applied.changed:
            if prompt.is_open and prompt.place == place:
                self.openers[prompt.request_id] = one
        for event_id, made in tuple(self.ledger.due_closers()):
            self.close(event_id, made)
        return place, False

    def close(self, event_id: str, made: Closer) -> None:
        durable = not self.catalog.is_ephemeral(made.type, None)
        one = {"id": event_id, "type": made.type, "data": dict(made.data)}
        place = self._next(durable)
        self.events.append((event_id, durable))
        assert self.ledger.apply(one, place, self.now_ms).duplicate is None

    def close_at_once(self, ended: tuple[Prompt, ...]) -> None:
        for prompt in ended:
            opening, reason = prompt.opening, prompt.reason
            assert reason
            assert reason != "answered"
            made = ending_closer(
                self.catalog,
                opening.kind,
                opening.request_id,
                reason,
                tool_call_id=opening.tool_call_id,
            )
            if made is not None:
                self.close(prompt.closer_id, made)

    def answer(self, name: str, value: Any, claim_id: str, key: str, by: Any) -> str:
        before = self.ledger.get(name)
        outcome, made = "", None
        if before is not None and before.is_open:
            question = asked(self.catalog, self.openers[name], name)
            assert question is not None
            checked = check_answer(question, value)
            outcome, made = checked.outcome, checked.closer
        given = Given(value, outcome, by, key, key, claim_id, secrets=True)
        decision = self.ledger.answer(name, given, self.now_ms)
        if decision.refusal is not None:
            return decision.refusal.code
        if decision.verdict == "taken":
            self.commands.append(answer_id(self.sid, name))
            if self.completion == "hub":
                assert made is not None
                self.close(closer_id(self.catalog.name, self.sid, name, "answered"), made)
        return decision.verdict


class Histories(RuleBasedStateMachine):
    """A session that two hubs serve."""

    url: str
    catalog: Catalog = COPILOT
    completion: Completion = "hub"

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sid = f"session_{secrets.token_hex(16)}"
        limits = Settings(redis_url=self.url, orphan_after_s=3_600)
        self.links = [RedisLink(limits), RedisLink(limits)]
        for link in self.links:
            self.run(link.__aenter__())
        self.stores = [EventStore(link, limits) for link in self.links]
        deadlines = [Deadlines(link, 3_600) for link in self.links]
        self.commands = [
            CommandStore(link, limits, its, store.prompts.rejected)
            for link, its, store in zip(self.links, deadlines, self.stores, strict=True)
        ]
        self.hosts = [HostLeases(self.links[0], limits, deadlines[0])]
        for its, store in zip(deadlines, self.stores, strict=True):
            its.also_end(store.prompts.end_due)
        self.deadlines = deadlines
        self.keys = SessionKeys.of(self.sid)
        self.begin()

    def begin(self) -> None:
        fields = SessionFields(self.catalog.name, completion=self.completion)
        self.run(self.stores[0].create_session(self.sid, fields))
        self.model = Model(self.catalog, self.sid, self.completion)
        self.checked = 0
        self.seen: tuple[int, dict[bytes, bytes], dict[bytes, bytes]] = (0, {}, {})
        self.is_rewritten = False
        self.published = 0
        """Requests: unlike the events, which a race decides about, the same in every run."""

    def run(self, job: Coroutine[Any, Any, Result]) -> Result:
        async def bounded() -> Result:
            with anyio.fail_after(20):
                return await job

        return self.runner.run(bounded())

    def refused(self, job: Coroutine[Any, Any, object]) -> str | None:
        """Give the code with which something is refused, None if it is not."""
        try:
            self.run(job)
        except HubError as error:
            return error.code
        return None

    def redis(self, *words: Any) -> Any:
        return self.run(self.links[0].command(*words))

    def teardown(self) -> None:
        for link in self.links:
            self.run(link.__aexit__(None, None, None))
        self.runner.close()

    # What may happen.

    def publish(self, at: int, *events: Event) -> None:
        self.published += 1
        name = self.catalog.name
        verdicts = self.run(publish(self.stores[at], self.sid, *events, catalog=name))
        for one, verdict in zip(events, verdicts, strict=True):
            place, duplicate = self.model.publish(one)
            assert verdict.duplicate == duplicate
            assert verdict.position == Position(place.sequence, place.offset)

    def known_id(self, data: st.DataObject, batch: list[Event]) -> str:
        names = [name for name, _ in self.model.events] + [one["id"] for one in batch]
        back = data.draw(st.integers(0, 12))
        return names[-back] if 0 < back <= len(names) else UNKNOWN

    def one_event(self, data: st.DataObject, batch: list[Event]) -> Event:
        what = data.draw(
            st.sampled_from(
                [
                    "ask",
                    "ask",
                    "ask",
                    "close",
                    "close",
                    "tool",
                    "abort",
                    "shutdown",
                    "resume",
                    "rewind",
                    "other",
                    "passing",
                    "again",
                ]
            )
        )
        name = data.draw(NAMES)
        match what:
            case "ask":
                return ask(data.draw(KINDS), name, data.draw(AGENTS))
            case "close":
                record = self.model.ledger.get(name)
                kind = data.draw(KINDS) if record is None else record.opening.kind
                words = {"permission": ["", "approved"], "user_input": ["", "yes", "no"]}
                word = data.draw(st.sampled_from(words.get(kind, [""])))
                return closer(kind, name, word)
            case "tool":
                agent = data.draw(AGENTS)
                members = {"agentId": agent} if agent else {}
                call = {"toolCallId": f"c-{name}", "success": True}
                return event("tool.execution_complete", call, **members)
            case "abort":
                agent = data.draw(AGENTS)
                members = {"agentId": agent} if agent else {}
                return event("abort", {"reason": "user_initiated"}, **members)
            case "shutdown":
                return event("session.shutdown", {"shutdownType": "routine"})
            case "resume":
                active, goes_on = data.draw(st.booleans()), data.draw(st.booleans())
                resumed = {"sessionWasActive": active, "continuePendingWork": goes_on}
                return event("session.resume", resumed)
            case "rewind":
                rewound = {"upToEventId": self.known_id(data, batch), "eventsRemoved": 1}
                return event("session.snapshot_rewind", rewound)
            case "again":
                one = event("session.info", {"infoType": "x", "message": "again"})
                return one | {"id": self.known_id(data, batch)}
            case "passing":
                return event("assistant.intent", {"intent": "x"}, ephemeral=True)
            case _:
                return event("session.info", {"infoType": "x", "message": "m"})

    @rule(at=STORES, size=st.integers(1, 4), data=st.data())
    def happens(self, at: int, size: int, data: st.DataObject) -> None:
        batch: list[Event] = []
        for _ in range(size):
            batch.append(self.one_event(data, batch))
        self.publish(at, *batch)

    @rule(at=STORES, name=NAMES, kind=KINDS, agent=AGENTS)
    def asks(self, at: int, name: str, kind: str, agent: str) -> None:
        self.publish(at, ask(kind, name, agent))

    async def _answer(self, at: int, name: str, claim: str, key: str) -> str:
        record = self.model.ledger.get(name)
        value = ANSWERS["command"] if record is None else ANSWERS[record.opening.kind]
        said = Said(name, value, claim_id=claim, key=key, digest=key)
        by = replace(ANN, name=f"hub {at}")
        try:
            (got,) = await self.stores[at].prompts.answer(self.sid, [said], by, secrets=True)
        except HubError as error:
            return error.code
        return got.verdict

    def _expected(self, at: int, name: str, claim: str, key: str) -> str:
        record = self.model.ledger.get(name)
        value = None if record is None else ANSWERS[record.opening.kind]
        by = replace(ANN, name=f"hub {at}")
        return self.model.answer(name, value, claim, key, by)

    @rule(
        at=STORES,
        name=NAMES,
        claim=st.sampled_from(["", "k1", "k2"]),
        key=st.sampled_from(["", "key"]),
    )
    def answer(self, at: int, name: str, claim: str, key: str) -> None:
        got = self.run(self._answer(at, name, claim, key))
        assert got == self._expected(at, name, claim, key)

    @rule(name=NAMES)
    def answer_at_both_hubs(self, name: str) -> None:
        got: dict[int, str] = {}

        async def both() -> None:
            async with anyio.create_task_group() as tasks:
                for at in (0, 1):
                    tasks.start_soon(one, at)

        async def one(at: int) -> None:
            got[at] = await self._answer(at, name, "", "")

        self.run(both())
        first = 0 if got[0] == "taken" else 1
        assert got[first] == self._expected(first, name, "", "")
        assert got[1 - first] == self._expected(1 - first, name, "", "")

    @rule(name=NAMES)
    def answer_while_the_host_closes(self, name: str) -> None:
        record = self.model.ledger.get(name)
        if record is None or self.catalog is EVERRUNS:
            return
        kind = record.opening.kind
        word = {"permission": "approved", "user_input": "no"}.get(kind, "")
        one, got = closer(kind, name, word), ["", ""]

        async def both() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(says)
                tasks.start_soon(closes)

        async def says() -> None:
            got[0] = await self._answer(0, name, "", "")

        async def closes() -> None:
            (verdict,) = await publish(self.stores[1], self.sid, one)
            got[1] = str(verdict.duplicate)

        self.run(both())
        if got[0] == "taken":
            assert self._expected(0, name, "", "") == "taken"
            assert got[1] == str(self.model.publish(one)[1])
        else:
            assert got[1] == str(self.model.publish(one)[1])
            # Refusing changes nothing, so it may have come first.
            asked_first = Given(None, "", ANN, secrets=True)
            before = answer_refusal(record, asked_first, self.model.now_ms)
            codes = set[str]() if before is None else {before.code}
            assert got[0] in codes | {self._expected(0, name, "", "")}

    @rule(at=STORES, name=NAMES, claim=st.sampled_from(["k1", "k2"]))
    def claim(self, at: int, name: str, claim: str) -> None:
        wanted = Claim(claim, "ann", self.model.now_ms + 30_000)
        decision = self.model.ledger.claim(name, wanted, self.model.now_ms)
        job = self.stores[at].prompts.claim(self.sid, name, claim_id=claim, lease_s=30, by="ann")
        assert self.refused(job) == (decision.refusal and decision.refusal.code)

    @rule(at=STORES, name=NAMES, claim=st.sampled_from(["k1", "k2"]))
    def release(self, at: int, name: str, claim: str) -> None:
        decision = self.model.ledger.release(name, claim, self.model.now_ms)
        job = self.stores[at].prompts.release(self.sid, name, claim)
        assert self.refused(job) == (decision.refusal and decision.refusal.code)

    def rewrite(self, name: str, prompt: Prompt) -> None:
        """Change a record behind the hubs' back, in the ledger too."""
        self.is_rewritten = True
        value = self.redis("HGET", self.keys.prompts, name)
        line = value.split(b"\n", 1)[0]
        self.redis("HSET", self.keys.prompts, name, line + b"\n" + spelled(prompt))
        self.model.ledger.keep((replace(prompt, place=self.model.ledger.get(name).place),))  # type: ignore[union-attr]

    @rule(at=STORES, name=NAMES, swept=st.booleans())
    def a_deadline_comes(self, at: int, name: str, swept: bool) -> None:
        record = self.model.ledger.get(name)
        if record is None or record.state != "pending":
            return
        self.rewrite(name, replace(record, expires_ms=1))
        self.redis("ZADD", self.keys.due, 1, f"p:{name}")
        if swept:
            self.sweep(at)

    @rule(at=STORES)
    def sweep(self, at: int) -> None:
        self.run(self.deadlines[at].end_due(self.sid))
        self.model.close_at_once(self.model.ledger.expire(self.model.now_ms))

    @rule(at=STORES, back=st.booleans())
    def the_host_goes(self, at: int, back: bool) -> None:
        lease = self.run(self.hosts[0].attach(self.sid, "host", takeover=True))
        self.run(self.hosts[0].release(lease))
        assert self.redis("ZSCORE", self.keys.due, "gone") is not None
        self.redis("ZADD", self.keys.due, 1, "gone")
        if back:
            self.run(self.hosts[0].attach(self.sid, "host", takeover=True))
        self.sweep(at)
        if not back:
            ended = self.model.ledger.end("host_gone", self.model.now_ms)
            self.model.close_at_once(ended)

    @rule(at=STORES, name=NAMES, times=st.integers(1, 2))
    def the_host_rejects(self, at: int, name: str, times: int) -> None:
        command = answer_id(self.sid, name)
        if command not in self.model.commands:
            return
        said = Acknowledge(outcome="rejected", detail="no")
        for _ in range(times):
            self.run(self.commands[at].acknowledge(self.sid, command, said))
        self.model.commands.remove(command)
        self.model.ledger.reject(name, "no", self.model.now_ms)

    @rule(name=NAMES, times=st.integers(1, 2))
    def the_host_consumes(self, name: str, times: int) -> None:
        command = answer_id(self.sid, name)
        if command not in self.model.commands:
            return
        for _ in range(times):
            self.run(
                self.commands[0].acknowledge(self.sid, command, Acknowledge(outcome="consumed"))
            )
        self.model.commands.remove(command)

    @rule(at=STORES, name=NAMES, taken=st.booleans())
    def nobody_fetches_a_secret(self, at: int, name: str, taken: bool) -> None:
        command = answer_id(self.sid, name)
        record = self.model.ledger.get(name)
        if command not in self.model.commands or record is None or not record.opening.secret:
            return
        if taken:
            lease = self.run(self.hosts[0].attach(self.sid, "host", takeover=True))
            self.run(self.commands[0].take(self.sid, lease.number, 0))
        receipt = self.redis("HGET", self.keys.receipts, command)
        line, rest = receipt.split(b"\n", 1)
        words = line.split(b" ")
        is_read = words[0] == b"delivered"
        self.redis("HSET", self.keys.receipts, command, b" ".join([*words[:-1], b"1\n"]) + rest)
        if not is_read:
            self.redis("ZADD", self.keys.due, 1, f"c:{command}")
        self.redis("ZADD", self.keys.due, 1, f"u:{name}")
        self.run(self.deadlines[at].end_due(self.sid))
        # Other deadlines come with it.
        self.model.close_at_once(self.model.ledger.expire(self.model.now_ms))
        if not is_read:
            self.model.commands.remove(command)
            before = self.model.ledger.get(name)
            after = self.model.ledger.unread(name, self.model.now_ms)
            assert before is not None
            if after is not None and after is not before and not before.closer_id:
                self.model.close_at_once((after,))

    @precondition(lambda self: self.published > 8)
    @rule()
    def delete(self) -> None:
        self.run(self.stores[1].delete_session(self.sid))
        for name in ("r0", "r1"):
            looked = self.refused(self.stores[0].prompts.look(self.sid, name))
            assert looked == "session_not_found"
            assert self.run(self._answer(0, name, "", "")) == "session_deleted"
        self.begin()

    # What always holds.

    @invariant()
    def redis_keeps_what_the_ledger_says(self) -> None:
        keys = self.keys
        found = self.run(
            self.links[1].pipeline(
                [
                    ("HGETALL", keys.prompts),
                    ("HGETALL", keys.closed),
                    ("XRANGE", keys.tail, "-", "+"),
                    ("XRANGE", keys.log, "-", "+"),
                    ("HMGET", keys.meta, "open_prompts", "prompts_version"),
                    ("HGETALL", keys.asking),
                    ("HGETALL", keys.openers),
                    ("HKEYS", keys.secrets),
                    ("ZRANGE", keys.due, 0, -1),
                    ("XRANGE", keys.commands, "-", "+"),
                    ("HGETALL", keys.receipts),
                    ("ZSCORE", ASKING, self.sid),
                ]
            )
        )
        opened, closed, tail, log, (counted, version), asking = found[:6]
        openers, hidden, due, commands, receipts, hint = found[6:]
        self._records(opened, closed)
        self._events(tail)
        self._beside(asking, openers, hidden, due)
        ledger = self.model.ledger
        assert int(counted or 0) == len(ledger)
        if (opened, closed) != self.seen[1:] and not self.is_rewritten:
            assert int(version or 0) > self.seen[0]
        self.seen, self.is_rewritten = (int(version or 0), opened, closed), False
        assert [entry[1][1].decode() for entry in commands] == self.model.commands
        assert (hint is not None) == bool(len(ledger))
        shown = repr([opened, closed, tail, log, openers, receipts])
        assert "hu5h" not in shown
        assert "t0p-s3cret" not in shown

    def _records(self, opened: dict[bytes, bytes], closed: dict[bytes, bytes]) -> None:
        kept = {name.decode(): read(value).prompt for name, value in {**closed, **opened}.items()}
        assert len(kept) == len(opened) + len(closed)
        for name in [f"r{number}" for number in range(5)]:
            assert timeless(kept.get(name)) == timeless(self.model.ledger.get(name))
        state = self.run(self.stores[1].prompts.open(self.sid))
        told = [one.prompt.request_id for one in state.kept]
        assert told == [prompt.request_id for prompt in self.model.ledger]
        for one in state.kept:
            assert one.opener is not None
            asks = json.loads(one.opener.body)
            assert asks["id"] == self.model.openers[one.prompt.request_id]["id"]
            assert one.opener.offset == one.prompt.place.offset

    def _events(self, tail: list[Any]) -> None:
        words = [entry[1][1].decode().split(" ") for entry in tail]
        assert [(said[0], said[4] == "d") for said in words] == self.model.events
        for entry in tail[self.checked :]:
            body = json.loads(entry[1][3])
            version = 18 if self.catalog is EVERRUNS else 14
            if body["id"][version : version + 1] == "8":
                # The hub's own, whose ids alone are of version 8.
                STRICT.check(body, self.catalog)
        self.checked = len(tail)

    def _beside(
        self, asking: dict[bytes, bytes], openers: dict[bytes, bytes], hidden: Any, due: Any
    ) -> None:
        ledger = self.model.ledger
        offsets = [str(prompt.place.offset).encode() for prompt in ledger]
        counts = {name: int(count) for name, count in asking.items()}
        assert counts == {name: offsets.count(name) for name in offsets}
        assert set(openers) == set(offsets)
        secret = {prompt.request_id.encode() for prompt in ledger if prompt.opening.secret}
        assert set(hidden) == secret
        noted = {name[2:].decode() for name in due if name.startswith(b"p:")}
        assert noted == {p.request_id for p in ledger if p.state == "pending" and p.expires_ms}


class HostCompletes(Histories):
    """The host has the last word."""

    completion = "host"


def completed(name: str, status: str, turn: str = "") -> Event:
    """Make the everruns event that closes a call."""
    data = {"tool_call_id": name, "tool_name": "lookup", "success": status == "success"}
    one = ask_calls(turn=turn) | {"type": "tool.completed"}
    return one | {"data": {**data, "status": status}}


class Everruns(Histories):
    """Calls, many of which one event may ask for."""

    catalog = EVERRUNS

    def one_event(self, data: st.DataObject, batch: list[Event]) -> Event:
        what = data.draw(
            st.sampled_from(["ask", "ask", "close", "turn", "message", "agent", "other", "again"])
        )
        turn = data.draw(st.sampled_from(["", "t1", "t2"]))
        match what:
            case "ask":
                names = data.draw(st.lists(NAMES, min_size=1, max_size=4))
                return ask_calls(*names, turn=turn)
            case "close":
                status = data.draw(st.sampled_from(["success", "error", "cancelled"]))
                return completed(data.draw(NAMES), status, turn)
            case "turn":
                members = {"type": "turn.completed", "data": {"turn_id": turn or "t3"}}
                return ask_calls(turn=turn) | members
            case "message" | "agent":
                message = {"id": "m", "role": "user" if what == "message" else "agent"}
                members = {"type": "input.message", "data": {"message": message}}
                return ask_calls() | members
            case "again":
                return ask_calls() | {"type": "x.y", "id": self.known_id(data, batch), "data": {}}
            case _:
                return ask_calls() | {"type": "x.y", "data": {}}

    @rule(at=STORES, name=NAMES)
    def asks(self, at: int, name: str, kind: str = "", agent: str = "") -> None:
        self.publish(at, ask_calls(name))


@pytest.mark.parametrize(
    "machine", [Histories, HostCompletes, Everruns], ids=lambda machine: machine.__name__
)
def test_redis_keeps_what_the_ledger_says(machine: type[Histories], redis_url: str) -> None:
    """Whatever happens, at whichever hub."""
    limits = settings(
        max_examples=25,
        phases=(Phase.generate, Phase.shrink),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    )
    run_state_machine_as_test(type("Run", (machine,), {"url": redis_url}), settings=limits)
