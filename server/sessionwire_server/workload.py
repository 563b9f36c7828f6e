"""A simulated agent: the events of a believable session, in order and with their pauses.

Deterministic by seed. Pure: makes events and reads no clock; `demo` sends them in time. Rates and
sizes are those measured of real agents: one delta a token, 10 to 14 ms apart; tool output with a
long tail; a quarter of the tools ask first.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sessionwire_server.stories import STORIES, Scout, Story

__all__ = ["Paced", "session_events"]

MODEL: Final = "claude-sonnet-4.5"

OUTPUT_MEDIAN: Final = 1_500
OUTPUT_SIGMA: Final = 1.9
OUTPUT_MAX: Final = 150_000
"""Characters of a tool's output: log-normal, with a tail a tenth as long as in the wild, so that
the demo stays light."""

CONTENT_MAX: Final = 20_000
"""What of it the model sees; the whole is `detailedContent`."""

ASKS: Final = 0.25
"""Share of tools that wait for a permission."""

HOOKED: Final = 0.3

_TOKEN: Final = re.compile(r"\s*\S{1,5}")


@dataclass(frozen=True, slots=True)
class Paced:
    """An event of the copilot catalog and the pause before it, in milliseconds."""

    event: dict[str, Any]
    pause_ms: int

    @property
    def ephemeral(self) -> bool:
        """Whether it is told once and not kept."""
        return self.event.get("ephemeral") is True


def session_events(seed: int, start: datetime, session_id: str) -> Iterator[Paced]:
    """Yield one session from its start to its shutdown, 500 to 800 events.

    Args:
        seed: the same seed, start and id give the same events.
        start: the time of the first event.
        session_id: for `session.start`, which names it.
    """
    return _Session(seed, start).whole(session_id)


class _Session:
    def __init__(self, seed: int, start: datetime) -> None:
        self._random = random.Random(seed)
        self._now = start.astimezone(UTC)
        self._start = self._now
        self._last_durable: str | None = None
        self._turn = 0
        self._tokens = 6_000

    def _event(
        self,
        type_: str,
        data: dict[str, Any],
        *,
        pause_ms: int = 2,
        ephemeral: bool = False,
        agent: str = "",
    ) -> Paced:
        self._now += timedelta(milliseconds=pause_ms)
        stamp = self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event: dict[str, Any] = {
            "id": self._uuid(),
            "timestamp": stamp,
            "parentId": self._last_durable,
            **({"ephemeral": True} if ephemeral else {}),
            **({"agentId": agent} if agent else {}),
            "type": type_,
            "data": data,
        }
        # Ephemeral events hang off the chain of durable ones and do not move it.
        if not ephemeral:
            self._last_durable = event["id"]
        return Paced(event, pause_ms)

    def _passing(
        self, type_: str, data: dict[str, Any], *, pause_ms: int = 1, agent: str = ""
    ) -> Paced:
        return self._event(type_, data, pause_ms=pause_ms, ephemeral=True, agent=agent)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _call_id(self) -> str:
        return f"call_{self._random.getrandbits(64):016x}"

    def whole(self, session_id: str) -> Iterator[Paced]:
        story = self._random.choice(STORIES)
        yield self._event(
            "session.start",
            {
                "sessionId": session_id,
                "version": 1,
                "producer": "sessionwire-demo",
                "copilotVersion": "1.0.79",
                "startTime": self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "selectedModel": MODEL,
            },
        )
        yield self._passing("session.tools_updated", {"model": MODEL})
        yield from self._user(story)
        yield self._passing("session.title_changed", {"title": story.title})
        for number, step in enumerate(story.steps):
            yield from self._turn_of(step.thought, step.says, step.tools, intent=step.intent)
            if number == 0:
                yield from self._scouts(story)
        yield from self._turn_of("", story.answer, ())
        yield self._passing("assistant.idle", {})
        yield self._passing("session.idle", {})
        yield self._shutdown(story)

    def _user(self, story: Story) -> Iterator[Paced]:
        yield self._passing("pending_messages.modified", {}, pause_ms=300)
        content = {"content": story.asks, "delivery": "idle", "agentMode": "interactive"}
        yield self._event("user.message", content)
        yield self._passing("pending_messages.modified", {})

    def _turn_of(
        self,
        thought: str,
        says: str,
        tools: tuple[tuple[str, str], ...],
        *,
        intent: str = "",
        agent: str = "",
    ) -> Iterator[Paced]:
        """One call of the model and the tools it asks for."""
        self._turn += 1
        turn = {"turnId": str(self._turn)}
        yield self._event(
            "assistant.turn_start", {**turn, "model": MODEL}, pause_ms=40, agent=agent
        )
        yield self._passing("model.call_start", turn, agent=agent)
        if intent:
            yield self._passing("assistant.intent", {"intent": intent}, pause_ms=120, agent=agent)
        if thought:
            yield from self._reasoning(thought, agent)
        calls = [(self._call_id(), name, argument) for name, argument in tools]
        yield from self._message(says, calls, turn, agent)
        for call in calls:
            yield from self._tool(call, turn, agent)
        yield self._event("assistant.turn_end", turn, agent=agent)

    def _reasoning(self, thought: str, agent: str) -> Iterator[Paced]:
        reasoning = {"reasoningId": f"reasoning-{self._random.getrandbits(32):08x}"}
        for token in _TOKEN.findall(thought):
            delta = {**reasoning, "deltaContent": token}
            yield self._passing(
                "assistant.reasoning_delta", delta, pause_ms=self._beat(), agent=agent
            )
        yield self._event("assistant.reasoning", {**reasoning, "content": thought}, agent=agent)

    def _message(
        self, says: str, calls: list[tuple[str, str, str]], turn: dict[str, str], agent: str
    ) -> Iterator[Paced]:
        message = {"messageId": self._uuid()}
        yield self._passing("assistant.message_start", message, agent=agent)
        size, tokens = 0, _TOKEN.findall(says)
        for number, token in enumerate(tokens, 1):
            delta = {**message, "deltaContent": token}
            yield self._passing(
                "assistant.message_delta", delta, pause_ms=self._beat(), agent=agent
            )
            size += len(token)
            if number % 16 == 0:
                progress = {"totalResponseSizeBytes": size}
                yield self._passing("assistant.streaming_delta", progress, agent=agent)
        for call in calls:
            yield from self._call_text(call, agent)
        asked = [
            {"toolCallId": call, "name": name, "arguments": _arguments(name, what)}
            for call, name, what in calls
        ]
        requests = {"toolRequests": [{**each, "type": "function"} for each in asked]}
        content = {**message, "content": says, **turn, "outputTokens": len(tokens)}
        yield self._event(
            "assistant.message", {**content, **(requests if asked else {})}, agent=agent
        )
        yield from self._usage(len(tokens), agent)

    def _call_text(self, call: tuple[str, str, str], agent: str) -> Iterator[Paced]:
        call_id, name, what = call
        named = {"toolName": name}
        for piece in _TOKEN.findall(f'{{"{_argument_name(name)}": "{what}"}}'):
            delta = {"toolCallId": call_id, "inputDelta": piece, **named}
            yield self._passing("assistant.tool_call_delta", delta, pause_ms=10, agent=agent)
            named = {}

    def _usage(self, output: int, agent: str) -> Iterator[Paced]:
        self._tokens += output + self._random.randint(200, 2_000)
        usage = {
            "model": MODEL,
            "inputTokens": self._tokens,
            "outputTokens": output,
            "duration": self._random.randint(800, 9_000),
        }
        yield self._passing("assistant.usage", usage, agent=agent)
        info = {
            "tokenLimit": 200_000,
            "currentTokens": self._tokens,
            "messagesLength": 2 * self._turn,
        }
        yield self._passing("session.usage_info", info)

    def _tool(
        self, call: tuple[str, str, str], turn: dict[str, str], agent: str
    ) -> Iterator[Paced]:
        call_id, name, what = call
        if self._random.random() < HOOKED:
            yield from self._hook(name, what, agent)
        if name in ("bash", "edit", "create") and self._random.random() < ASKS * 2:
            yield from self._permission(call_id, what, agent)
        arguments = {"toolName": name, "arguments": _arguments(name, what)}
        yield self._event(
            "tool.execution_start", {"toolCallId": call_id, **arguments, **turn}, agent=agent
        )
        lines = self._output(name, what)
        for line in lines[: self._random.randint(2, 8)] if name == "bash" else []:
            partial = {"toolCallId": call_id, "partialOutput": f"{line}\n"}
            yield self._passing("tool.execution_partial_result", partial, pause_ms=60, agent=agent)
        text = "\n".join(lines)
        result = {"content": text[:CONTENT_MAX], "detailedContent": text}
        done = {"toolCallId": call_id, "success": True, "result": result, **turn}
        took_ms = min(900, int(self._random.lognormvariate(0, 1) * 120))
        yield self._event("tool.execution_complete", done, pause_ms=took_ms, agent=agent)

    def _hook(self, name: str, what: str, agent: str) -> Iterator[Paced]:
        hook = {"hookInvocationId": self._uuid(), "hookType": "preToolUse"}
        given = {"input": {"toolName": name, "toolArgs": _arguments(name, what)}}
        yield self._event("hook.start", {**hook, **given}, agent=agent)
        yield self._event("hook.end", {**hook, "success": True}, pause_ms=8, agent=agent)

    def _permission(self, call_id: str, what: str, agent: str) -> Iterator[Paced]:
        request_id = self._uuid()
        shown = {
            "toolCallId": call_id,
            "fullCommandText": what,
            "intention": "Carry on with the task",
            "canOfferSessionApproval": True,
        }
        identifier = what.split()[0]
        asked = {
            "requestId": request_id,
            "permissionRequest": {
                "kind": "shell",
                **shown,
                "commands": [{"identifier": identifier, "readOnly": False}],
                "possiblePaths": [],
                "possibleUrls": [],
                "hasWriteFileRedirection": False,
            },
            "promptRequest": {"kind": "commands", **shown, "commandIdentifiers": [identifier]},
        }
        yield self._event("permission.requested", asked, agent=agent)
        # A person reads it and decides; the demo's is quick about it.
        wait_ms = min(2_500, int(self._random.lognormvariate(6.7, 0.5)))
        answer = {"requestId": request_id, "toolCallId": call_id, "result": {"kind": "approved"}}
        yield self._event("permission.completed", answer, pause_ms=wait_ms, agent=agent)

    def _output(self, name: str, what: str) -> list[str]:
        """Make a tool's output: lines that look like its own, as many as the size drawn asks."""
        size = min(OUTPUT_MAX, int(self._random.lognormvariate(0, OUTPUT_SIGMA) * OUTPUT_MEDIAN))
        lines: list[str] = []
        while size > 0:
            lines.append(self._output_line(name, what, len(lines) + 1))
            size -= len(lines[-1]) + 1
        return lines or ["ok"]

    def _output_line(self, name: str, what: str, number: int) -> str:
        draw = self._random.randint
        if name == "bash" and "pytest" in what:
            return f"run {number:>4}: 1 passed in {draw(4, 90) / 100:.2f}s"
        if name == "bash":
            return f"{draw(1, 9_999):>6}  {draw(0, 9_999) / 10_000:.4f}s  {what.split()[-1]}"
        if name == "grep":
            return f"src/module_{draw(1, 40)}.py:{draw(1, 900)}:    {what}"
        return f"{number:>5}  value_{draw(1, 99)} = step_{draw(1, 99)}(value_{draw(1, 99)})"

    def _scouts(self, story: Story) -> Iterator[Paced]:
        """Sub-agents at work at the same time: their events are interleaved."""
        running: list[tuple[Scout, str, str, Iterator[Paced]]] = []
        for scout in story.scouts:
            call_id, agent = self._call_id(), f"agent-{self._random.getrandbits(32):08x}"
            sent = {"agent_type": "explore", "prompt": scout.task}
            begun = {"toolCallId": call_id, "toolName": "task", "arguments": sent}
            yield self._event("tool.execution_start", begun)
            yield self._event("subagent.started", _named(call_id), agent=agent)
            running.append((scout, call_id, agent, self._scouting(scout, agent)))
        while running:
            place = self._random.randrange(len(running))
            scout, call_id, agent, events = running[place]
            for _ in range(self._random.randint(1, 6)):
                paced = next(events, None)
                if paced is None:
                    del running[place]
                    yield from self._scout_back(scout, call_id, agent)
                    break
                yield paced

    def _scouting(self, scout: Scout, agent: str) -> Iterator[Paced]:
        yield from self._turn_of(scout.task + ".", "Looking.", scout.looks, agent=agent)
        yield from self._turn_of("", scout.report, (), agent=agent)

    def _scout_back(self, scout: Scout, call_id: str, agent: str) -> Iterator[Paced]:
        done = {k: v for k, v in _named(call_id).items() if k != "agentDescription"}
        yield self._event(
            "subagent.completed", {**done, "totalToolCalls": len(scout.looks)}, agent=agent
        )
        result = {"toolCallId": call_id, "success": True, "result": {"content": scout.report}}
        yield self._event("tool.execution_complete", result)

    def _shutdown(self, story: Story) -> Paced:
        changes = {
            "linesAdded": self._random.randint(10, 90),
            "linesRemoved": self._random.randint(2, 40),
            "filesModified": list(story.files),
        }
        end: dict[str, Any] = {
            "shutdownType": "routine",
            "totalApiDurationMs": int((self._now - self._start).total_seconds() * 1000),
            "sessionStartTime": int(self._start.timestamp() * 1000),
            "codeChanges": changes,
            "modelMetrics": {},
        }
        return self._event("session.shutdown", end, pause_ms=200)

    def _beat(self) -> int:
        return self._random.randint(10, 14)


def _named(call_id: str) -> dict[str, str]:
    return {
        "toolCallId": call_id,
        "agentName": "explore",
        "agentDisplayName": "Explore",
        "agentDescription": "Looks through the code and reports",
    }


def _argument_name(tool: str) -> str:
    return {"bash": "command", "grep": "pattern"}.get(tool, "path")


def _arguments(tool: str, what: str) -> dict[str, str]:
    return {_argument_name(tool): what}
