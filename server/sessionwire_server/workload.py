"""A simulated agent: the course of a believable session, which people steer.

Deterministic by seed and by what it is told. Pure: makes events and reads no clock; `demo` sends
them in time, answers its questions and obeys its commands. A story is told as a generator: it
gives `Paced` events, and a `Question` where the agent waits, which wants a `Reply` sent in.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias, cast

from sessionwire_server.agent_voice import MODEL, AgentVoice, Call, Paced, rfc3339
from sessionwire_server.stories import STORIES, Scout, Step

__all__ = ["Paced", "Question", "Reply", "SimulatedAgent", "Telling"]

HOOKED: Final = 0.3

PLANS: Final = 2
"""How often it shows a plan before it gives up."""


@dataclass(frozen=True, slots=True)
class Question:
    """The agent asks, and waits.

    Attributes:
        opener: the event that asks.
    """

    opener: Paced

    @property
    def request_id(self) -> str:
        """The prompt's id."""
        return str(self.opener.event["data"]["requestId"])


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, in the vocabulary of its prompt's kind, and how long it took."""

    answer: Any
    waited_ms: int = 0


Telling: TypeAlias = Generator[Paced | Question, Reply | None, None]

_Asking: TypeAlias = Generator[Paced | Question, Reply | None, Mapping[str, Any]]


class SimulatedAgent:
    """One session of an agent.

    Args:
        seed: the same seed, start, id and replies give the same events.
        start: the time of the first event.
        session_id: for `session.start`, which names it.
    """

    def __init__(self, seed: int, start: datetime, session_id: str) -> None:
        self._voice = AgentVoice(seed, start)
        self._start = self._voice.now
        self._session_id = session_id
        self._story = self._voice.chance.choice(STORIES)
        self._asks = True
        self._heard: list[str] = []

    def whole(self) -> Telling:
        """Tell the session from its start until the agent is idle: 400 to 900 events."""
        story, voice = self._story, self._voice
        yield self._started()
        yield voice.passing("session.tools_updated", {"model": MODEL})
        yield from self.told(story.asks, "idle")
        yield voice.passing("session.title_changed", {"title": story.title})
        first, second, last = story.steps
        yield from self._turn(first)
        yield from self._scouts()
        yield from self._which()
        yield from self._turn(second)
        answer = story.answer
        if (yield from self._planned()):
            yield from self._turn(last)
            yield from self._hand_over()
        else:
            answer = "I have changed nothing. The plan is there whenever you want it carried out."
        if self._heard:
            answer += " I have kept in mind what you sent me meanwhile."
        yield from self._says(answer)
        yield from self._idle()

    def told(self, text: str, delivery: str) -> Iterator[Paced]:
        """Take a message of a user: `idle`, `queued` or `steering`."""
        voice = self._voice
        yield voice.passing("pending_messages.modified", {}, pause_ms=300)
        content = {"content": text, "delivery": delivery, "agentMode": "interactive"}
        yield voice.event("user.message", content)
        yield voice.passing("pending_messages.modified", {})

    def replies(self, text: str) -> Telling:
        """Answer a message that came while it was at work, or idle."""
        self._heard.append(text)
        yield from self._says(f"Understood: \u201c{text}\u201d. I will keep to that.")

    def idle_again(self) -> Iterator[Paced]:
        """Come to rest after a message."""
        yield from self._idle()

    def aborts(self) -> Iterator[Paced]:
        """Drop what it is at."""
        yield self._voice.event("abort", {"reason": "remote_command"})
        yield self._voice.passing("assistant.idle", {})
        yield self._voice.passing("session.idle", {"aborted": True})

    def ends(self) -> Paced:
        """Shut the session down."""
        chance = self._voice.chance
        changes = {
            "linesAdded": chance.randint(10, 90),
            "linesRemoved": chance.randint(2, 40),
            "filesModified": list(self._story.files),
        }
        end: dict[str, Any] = {
            "shutdownType": "routine",
            "totalApiDurationMs": int((self._voice.now - self._start).total_seconds() * 1000),
            "sessionStartTime": int(self._start.timestamp() * 1000),
            "codeChanges": changes,
            "modelMetrics": {},
        }
        return self._voice.event("session.shutdown", end, pause_ms=200)

    def _started(self) -> Paced:
        start = {
            "sessionId": self._session_id,
            "version": 1,
            "producer": "sessionwire-demo",
            "copilotVersion": "1.0.79",
            "startTime": rfc3339(self._voice.now),
            "selectedModel": MODEL,
        }
        return self._voice.event("session.start", start)

    def _idle(self) -> Iterator[Paced]:
        yield self._voice.passing("assistant.idle", {})
        yield self._voice.passing("session.idle", {})

    def _says(self, text: str) -> Telling:
        yield from self._turn(Step("", "", text))

    def _turn(self, step: Step, agent: str = "") -> Telling:
        """One call of the model and the tools it asks for."""
        voice, turn = self._voice, self._voice.next_turn()
        yield voice.event(
            "assistant.turn_start", {**turn, "model": MODEL}, pause_ms=40, agent=agent
        )
        yield voice.passing("model.call_start", turn, agent=agent)
        if step.intent:
            intent = {"intent": step.intent}
            yield voice.passing("assistant.intent", intent, pause_ms=120, agent=agent)
        if step.thought:
            yield from voice.reasoning(step.thought, agent)
        calls = [voice.call(tool, what) for tool, what in step.tools]
        yield from voice.message(step.says, calls, turn, agent)
        for call in calls:
            yield from self._tool(call, turn, agent)
        yield voice.event("assistant.turn_end", turn, agent=agent)

    def _tool(self, call: Call, turn: dict[str, str], agent: str) -> Telling:
        voice = self._voice
        if voice.chance.random() < HOOKED:
            yield from voice.hook(call, agent)
        if call.tool == "bash" and self._asks and not agent:
            decision = yield from self._permission(call)
            if decision.get("kind") == "approve-for-session":
                self._asks = False
            elif not str(decision.get("kind")).startswith("approve"):
                yield voice.refusal(call, turn, str(decision.get("feedback") or ""))
                return
        yield from voice.execution(call, turn, agent)

    def _ask(self, type_: str, data: dict[str, Any], *, ephemeral: bool = True) -> _Asking:
        """Ask, and wait for the answer."""
        asked = {"requestId": self._voice.uuid(), **data}
        reply = yield Question(self._voice.event(type_, asked, ephemeral=ephemeral))
        if reply is None:
            raise RuntimeError("a question wants a reply")
        self._voice.waited(reply.waited_ms)
        return cast("Mapping[str, Any]", reply.answer)

    def _permission(self, call: Call) -> _Asking:
        shown = {
            "toolCallId": call.id,
            "fullCommandText": call.what,
            "intention": "Carry on with the task",
            "canOfferSessionApproval": True,
        }
        identifier = call.what.split()[0]
        request = {
            "kind": "shell",
            **shown,
            "commands": [{"identifier": identifier, "readOnly": False}],
            "possiblePaths": [],
            "possibleUrls": [],
            "hasWriteFileRedirection": False,
        }
        prompt = {"kind": "commands", **shown, "commandIdentifiers": [identifier]}
        asked = {"permissionRequest": request, "promptRequest": prompt}
        return (yield from self._ask("permission.requested", asked, ephemeral=False))

    def _which(self) -> Telling:
        """Ask the user which way to go, and say that it goes there."""
        story = self._story
        asked = {"question": story.question, "choices": list(story.choices)}
        answer = yield from self._ask("user_input.requested", {**asked, "allowFreeform": True})
        said = str(answer.get("answer") or "")
        yield from self._says(story.choices.get(said) or f"All right: {said}.")

    def _planned(self) -> Generator[Paced | Question, Reply | None, bool]:
        """Show a plan until it is approved. Returns: whether it is to be carried out."""
        summary, plan = self._story.plan
        for left in reversed(range(PLANS)):
            asked = {
                "summary": summary,
                "planContent": plan,
                "actions": ["interactive", "autopilot", "exit_only"],
                "recommendedAction": "interactive",
            }
            answer = yield from self._ask("exit_plan_mode.requested", asked)
            if answer.get("approved"):
                self._asks = self._asks and answer.get("selectedAction") != "autopilot"
                return answer.get("selectedAction") != "exit_only"
            wish = str(answer.get("feedback") or "something else")
            if left:
                plan = f"{plan}\n\nChanged as you asked: {wish}."
                yield from self._says(f"I have changed the plan: {wish}.")
        return False

    def _hand_over(self) -> Telling:
        """Ask where the change is to go, and bring it there."""
        branch = f"agent/{self._story.title.lower().replace(' ', '-')}"
        form = {
            "type": "object",
            "properties": {
                "branch": {"type": "string", "title": "Branch", "default": branch},
                "draft": {"type": "boolean", "title": "As a draft", "default": False},
                "reviewer": {"type": "string", "enum": ["ann", "bo"], "default": "ann"},
            },
            "required": ["branch", "draft"],
        }
        message = "Where shall the pull request go?"
        asked = {"message": message, "mode": "form", "elicitationSource": "tracker"}
        answer = yield from self._ask("elicitation.requested", {**asked, "requestedSchema": form})
        if answer.get("action") != "accept":
            yield from self._says("I open no pull request; the change stays on this machine.")
            return
        content = cast("Mapping[str, Any]", answer.get("content") or {})
        draft = "a draft" if content.get("draft") else "a pull request"
        says = f"I open {draft} on {content.get('branch')}."
        opens = ("create_pull_request", str(content.get("branch")))
        yield from self._turn(Step("Handing the change over", "", says, (opens,)))

    def _scouts(self) -> Telling:
        """Sub-agents at work at the same time: their events are interleaved."""
        voice = self._voice
        running: list[tuple[Scout, str, str, Telling]] = []
        for scout in self._story.scouts:
            call, agent = (
                voice.call("task", scout.task),
                f"agent-{voice.chance.getrandbits(32):08x}",
            )
            sent = {"agent_type": "explore", "prompt": scout.task}
            begun = {"toolCallId": call.id, "toolName": "task", "arguments": sent}
            yield voice.event("tool.execution_start", begun)
            yield voice.event("subagent.started", _named(call.id), agent=agent)
            running.append((scout, call.id, agent, self._scouting(scout, agent)))
        while running:
            place = voice.chance.randrange(len(running))
            scout, call_id, agent, events = running[place]
            for _ in range(voice.chance.randint(1, 6)):
                step = next(events, None)
                if step is None:
                    del running[place]
                    yield from self._scout_back(scout, call_id, agent)
                    break
                yield step

    def _scouting(self, scout: Scout, agent: str) -> Telling:
        yield from self._turn(Step("", f"{scout.task}.", "Looking.", scout.looks), agent)
        yield from self._turn(Step("", "", scout.report), agent)

    def _scout_back(self, scout: Scout, call_id: str, agent: str) -> Iterator[Paced]:
        done = {k: v for k, v in _named(call_id).items() if k != "agentDescription"}
        yield self._voice.event(
            "subagent.completed", {**done, "totalToolCalls": len(scout.looks)}, agent=agent
        )
        result = {"toolCallId": call_id, "success": True, "result": {"content": scout.report}}
        yield self._voice.event("tool.execution_complete", result)


def _named(call_id: str) -> dict[str, str]:
    return {
        "toolCallId": call_id,
        "agentName": "explore",
        "agentDisplayName": "Explore",
        "agentDescription": "Looks through the code and reports",
    }
