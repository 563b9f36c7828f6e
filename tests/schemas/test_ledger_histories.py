"""The ledger over random histories, against a model of it and against a fold of what was stored.

The model says in its own words which prompts are open and how each one ended. Whatever happens,
there is one winner, nothing opens again, and a viewer that sees only the stored events comes to the
same states as soon as the hub has published what it owes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sessionwire_schemas.catalog import COPILOT
from sessionwire_schemas.closers import closer_id, ending_closer
from sessionwire_schemas.ledger import PromptLedger
from sessionwire_schemas.prompt import Claim, Place, Prompt
from sessionwire_schemas.prompt_rules import EndReason
from tests.schemas.prompting import SESSION, event, given

TTL_S = 60

NAMES = st.sampled_from([f"r{number}" for number in range(6)])
KINDS = st.sampled_from(["user_input", "permission", "external_tool"])


@dataclass
class Model:
    """What a prompt should be."""

    kind: str
    offset: int
    opened_ms: int
    agent: str
    state: str = "pending"
    winner: str = ""
    claim: tuple[str, int] = ("", 0)
    outcomes: list[str] = field(default_factory=list[str])

    @property
    def is_open(self) -> bool:
        return self.state in ("pending", "answered")

    def is_late(self, now_ms: int) -> bool:
        return self.state == "pending" and now_ms >= self.opened_ms + TTL_S * 1000


def opener(kind: str, name: str, agent: str) -> dict[str, Any]:
    data: dict[str, Any] = {"requestId": name}
    if kind == "permission":
        data["permissionRequest"] = {"kind": "read", "toolCallId": f"c-{name}"}
    elif kind == "external_tool":
        data |= {"toolCallId": f"c-{name}", "toolName": "t", "sessionId": "x"}
    return event(f"{kind}.requested", data, **({"agentId": agent} if agent else {}))


def closer(kind: str, name: str, word: str) -> dict[str, Any]:
    """Return the host's completed event; without a word, it carries no answer."""
    data: dict[str, Any] = {"requestId": name}
    if kind == "permission":
        data["result"] = {"kind": word or "cancelled"}
    elif kind == "user_input" and word:
        data["answer"] = word
    return event(f"{kind}.completed", data)


def outcome(kind: str, word: str) -> str:
    """Say in one word what a completed event of a kind reports; "" where that is no answer."""
    return "over" if kind == "external_tool" else word


class Histories(RuleBasedStateMachine):
    completion: Any = "hub"

    def __init__(self) -> None:
        super().__init__()
        kinds: Any = {"user_input": TTL_S, "permission": TTL_S, "external_tool": TTL_S}
        self.ledger = PromptLedger(COPILOT, SESSION, completion=self.completion, ttl_s=kinds)
        self.viewer = PromptLedger(COPILOT, SESSION)
        self.now_ms = 1_000
        self.offset = 0
        self.ids: list[str] = []
        self.models: dict[str, Model] = {}

    def publish(self, one: dict[str, Any], rewound_from: int | None = None) -> bool:
        """Fold an event in the hub, and in the viewer if it is stored; tell whether it was."""
        place = Place(self.offset + 1, self.offset + 1)
        applied = self.ledger.apply(one, place, self.now_ms, rewound_from=rewound_from)
        if applied.duplicate is not None:
            return False
        self.offset += 1
        self.ids.append(one["id"])
        self.viewer.apply(one, place, self.now_ms, rewound_from=rewound_from)
        return True

    def end(self, state: str, spared: tuple[str, ...] = (), agent: str = "") -> None:
        for model in self.models.values():
            if model.is_open and model.kind not in spared and agent in ("", model.agent):
                # What ends a prompt says no answer, as the hub's own event does.
                model.state, model.outcomes = state, [outcome(model.kind, "")]

    def say_at_once(self, reason: EndReason, ended: tuple[Prompt, ...]) -> None:
        """Publish the events that the hub makes in the step that ends prompts."""
        for prompt in ended:
            name, kind = prompt.request_id, prompt.opening.kind
            call = prompt.opening.tool_call_id
            made = ending_closer(COPILOT, kind, name, reason, tool_call_id=call)
            assert made is not None
            assert not prompt.closing
            assert self.publish(event(made.type, dict(made.data)) | {"id": prompt.closer_id})

    @rule(name=NAMES, kind=KINDS, agent=st.sampled_from(["", "a"]))
    def ask(self, name: str, kind: str, agent: str) -> None:
        stored = self.publish(opener(kind, name, agent))
        known = self.models.get(name)
        assert stored == (known is None or not known.is_open)
        if known is None:
            self.models[name] = Model(kind, self.offset, self.now_ms, agent)

    @rule(name=NAMES, who=st.sampled_from(["ann", "bob"]), claim=st.sampled_from(["", "k1", "k2"]))
    def answer(self, name: str, who: str, claim: str) -> None:
        model = self.models.get(name)
        word = {"permission": "approved", "user_input": "yes", "external_tool": ""}
        kind = "" if model is None else model.kind
        made = closer(kind, name, word.get(kind, ""))
        if kind == "permission":
            value = '{"result":{"kind":"approved"}}'
        else:
            value = '{"answer":"yes"}' if kind == "user_input" else "{}"
        said = given(name=who, claim_id=claim, outcome=value)
        decision = self.ledger.answer(name, said, self.now_ms)
        code = "" if decision.refusal is None else decision.refusal.code
        if model is None:
            assert code == "prompt_not_found"
        elif model.winner:
            assert code == "prompt_already_answered"
        elif not model.is_open:
            assert code == model.state
        elif model.is_late(self.now_ms):
            assert code == "expired"
        elif model.claim[1] > self.now_ms and model.claim[0] != claim:
            assert code == "prompt_claimed"
        else:
            assert decision.verdict == "taken"
            model.winner = who
            model.outcomes = [outcome(kind, word[kind])]
            model.state = "completed" if self.completion == "hub" else "answered"
            if self.completion == "hub":
                assert self.publish(made | {"id": closer_id("copilot", SESSION, name, "answered")})

    @rule(name=NAMES, claim=st.sampled_from(["k1", "k2"]))
    def claim(self, name: str, claim: str) -> None:
        model = self.models.get(name)
        until_ms = self.now_ms + 30_000
        decision = self.ledger.claim(name, Claim(claim, "ann", until_ms), self.now_ms)
        if (
            model is None
            or model.kind != "external_tool"
            or model.state != "pending"
            or model.is_late(self.now_ms)
            or (model.claim[1] > self.now_ms and model.claim[0] != claim)
        ):
            assert decision.verdict == "refused"
        else:
            assert decision.verdict == "taken"
            model.claim = (claim, until_ms)

    @rule(name=NAMES, word=st.sampled_from(["", "yes", "no"]))
    def host_closes(self, name: str, word: str) -> None:
        model = self.models.get(name)
        if model is None:
            return
        if model.kind == "permission" and word:
            word = {"yes": "approved", "no": "denied-interactively-by-user"}[word]
        said = outcome(model.kind, word)
        stored = self.publish(closer(model.kind, name, word))
        record = self.ledger.get(name)
        assert record is not None
        if model.is_open:
            assert stored
            overruled = model.state == "answered" and said != model.outcomes[-1]
            assert record.overruled == overruled
            if model.state == "pending":
                model.winner = "the host" if said else ""
            model.state = "completed" if model.winner else "withdrawn"
            model.outcomes.append(said)
        elif stored:
            model.outcomes.append(said)
        else:
            assert said == model.outcomes[-1]
            assert record.closer_id

    @rule(name=NAMES, agent=st.sampled_from(["", "a", "b"]))
    def finish_tool(self, name: str, agent: str) -> None:
        data = {"toolCallId": f"c-{name}", "success": True}
        members = {"agentId": agent} if agent else {}
        assert self.publish(event("tool.execution_complete", data, **members))
        model = self.models.get(name)
        if model is None or model.kind != "external_tool" or not model.is_open:
            return
        if agent and model.agent and agent != model.agent:
            return
        model.state, model.winner = "completed", model.winner or "the host"
        model.outcomes = [outcome(model.kind, "")]

    @rule(agent=st.sampled_from(["", "a"]))
    def abort(self, agent: str) -> None:
        members = {"agentId": agent} if agent else {}
        self.publish(event("abort", {"reason": "user_initiated"}, **members))
        self.end("cancelled", agent=agent)

    @rule()
    def shut_down(self) -> None:
        self.publish(event("session.shutdown", {"shutdownType": "routine"}))
        self.end("orphaned")

    @rule(active=st.booleans(), continued=st.booleans())
    def resume(self, active: bool, continued: bool) -> None:
        data = {"sessionWasActive": active, "continuePendingWork": continued}
        self.publish(event("session.resume", data))
        if not active:
            self.end("orphaned", ("permission", "external_tool") if continued else ())

    @rule()
    def lose_host(self) -> None:
        self.say_at_once("host_gone", self.ledger.end("host_gone", self.now_ms))
        self.end("orphaned")

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.ids) - 1))
        members = {"upToEventId": self.ids[index], "eventsRemoved": 1}
        self.publish(event("session.snapshot_rewind", members), rewound_from=index + 1)
        for model in self.models.values():
            if model.is_open and model.offset >= index + 1:
                model.state, model.outcomes = "rewound", [""]

    @rule(seconds=st.sampled_from([1, 29, 30, 59, 60]))
    def wait(self, seconds: int) -> None:
        self.now_ms += seconds * 1000

    @rule()
    def sweep(self) -> None:
        late = {name for name, model in self.models.items() if model.is_late(self.now_ms)}
        expired = self.ledger.expire(self.now_ms)
        assert {prompt.request_id for prompt in expired} == late
        self.say_at_once("deadline", expired)
        refusal = "denied-no-approval-rule-and-could-not-request-from-user"
        for name in late:
            model = self.models[name]
            said = refusal if model.kind == "permission" else ""
            model.state, model.outcomes = "expired", [outcome(model.kind, said)]

    @rule()
    def publish_what_is_due(self) -> None:
        for event_id, made in tuple(self.ledger.due_closers()):
            assert self.publish(event(made.type, dict(made.data)) | {"id": event_id})
        assert list(self.ledger.due_closers()) == []

    @invariant()
    def the_model_agrees(self) -> None:
        for name, model in self.models.items():
            record = self.ledger.get(name)
            assert record is not None
            assert record.state == model.state
            by = record.answered_by
            assert (("the host" if by.host else by.name) if by else "") == model.winner
            claimed = model.state == "pending" and model.claim[1] > self.now_ms
            assert record.status(self.now_ms) == ("claimed" if claimed else model.state)
        assert len(self.ledger) == sum(model.is_open for model in self.models.values())

    @invariant()
    def the_stream_tells_the_same(self) -> None:
        if any(prompt.closing for prompt in self.ledger.closed):
            return
        for name, model in self.models.items():
            seen = self.viewer.get(name)
            assert seen is not None
            # An answer that waits for the host, or that an ending came before, is in no event.
            if model.state == "answered":
                assert seen.state == "pending"
            elif self.completion == "hub" or not model.winner:
                assert seen.state == model.state


class HostCompletes(Histories):
    completion = "host"


_SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestHubCompletes = Histories.TestCase
TestHubCompletes.settings = _SETTINGS
TestHostCompletes = HostCompletes.TestCase
TestHostCompletes.settings = _SETTINGS
