"""What an agent of the copilot catalog says, as events: messages, thoughts, tools and their output.

Deterministic by seed. Pure: reads no clock. Owns the ids, the times and the chain of one session;
`workload` decides what is said. Rates and sizes are those measured of real agents: one delta a
token, 10 to 14 ms apart; tool output with a long tail.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["MODEL", "AgentVoice", "Call", "Paced", "arguments", "rfc3339"]

MODEL: Final = "claude-sonnet-4.5"

OUTPUT_MEDIAN: Final = 1_500
OUTPUT_SIGMA: Final = 1.9
OUTPUT_MAX: Final = 150_000
"""Characters of a tool's output: log-normal, with a tail a tenth as long as in the wild, so that
the demo stays light."""

CONTENT_MAX: Final = 20_000
"""What of it the model sees; the whole is `detailedContent`."""

_TOKEN: Final = re.compile(r"\s*\S{1,5}")


@dataclass(frozen=True, slots=True)
class Paced:
    """An event of the copilot catalog and the pause before it, in milliseconds."""

    event: dict[str, Any]
    pause_ms: int

    @property
    def type(self) -> str:
        """The event's type."""
        return str(self.event["type"])

    @property
    def ephemeral(self) -> bool:
        """Whether it is told once and not kept."""
        return self.event.get("ephemeral") is True


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool: its id, the tool, and its main argument."""

    id: str
    tool: str
    what: str


class AgentVoice:
    """The events of one session, in order.

    Attributes:
        chance: what is drawn by lot.
        now: the time of the newest event.
    """

    def __init__(self, seed: int, start: datetime) -> None:
        self.chance = random.Random(seed)
        self.now = start.astimezone(UTC)
        self._last_durable: str | None = None
        self._turns = 0
        self._tokens = 6_000

    def waited(self, ms: int) -> None:
        """Let time pass that no event tells of."""
        self.now += timedelta(milliseconds=ms)

    def next_turn(self) -> dict[str, str]:
        """Count a turn; what its events name it by."""
        self._turns += 1
        return {"turnId": str(self._turns)}

    def event(
        self,
        type_: str,
        data: dict[str, Any],
        *,
        pause_ms: int = 2,
        ephemeral: bool = False,
        agent: str = "",
    ) -> Paced:
        """Make an event, `pause_ms` after the one before it; `agent` names a sub-agent."""
        self.now += timedelta(milliseconds=pause_ms)
        event: dict[str, Any] = {
            "id": self.uuid(),
            "timestamp": rfc3339(self.now),
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

    def passing(
        self, type_: str, data: dict[str, Any], *, pause_ms: int = 1, agent: str = ""
    ) -> Paced:
        """Make an event that is told once and not kept."""
        return self.event(type_, data, pause_ms=pause_ms, ephemeral=True, agent=agent)

    def uuid(self) -> str:
        """Draw a UUID."""
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def call(self, tool: str, what: str) -> Call:
        """Make a call of a tool."""
        return Call(f"call_{self.chance.getrandbits(64):016x}", tool, what)

    def reasoning(self, thought: str, agent: str) -> Iterator[Paced]:
        """Think, token by token."""
        reasoning = {"reasoningId": f"reasoning-{self.chance.getrandbits(32):08x}"}
        for token in _TOKEN.findall(thought):
            delta = {**reasoning, "deltaContent": token}
            yield self.passing(
                "assistant.reasoning_delta", delta, pause_ms=self._beat(), agent=agent
            )
        yield self.event("assistant.reasoning", {**reasoning, "content": thought}, agent=agent)

    def message(
        self, says: str, calls: Sequence[Call], turn: dict[str, str], agent: str
    ) -> Iterator[Paced]:
        """Say something and ask for tools, token by token."""
        message = {"messageId": self.uuid()}
        yield self.passing("assistant.message_start", message, agent=agent)
        size, tokens = 0, _TOKEN.findall(says)
        for number, token in enumerate(tokens, 1):
            delta = {**message, "deltaContent": token}
            yield self.passing("assistant.message_delta", delta, pause_ms=self._beat(), agent=agent)
            size += len(token)
            if number % 16 == 0:
                progress = {"totalResponseSizeBytes": size}
                yield self.passing("assistant.streaming_delta", progress, agent=agent)
        for call in calls:
            yield from self._call_text(call, agent)
        asked = [
            {"toolCallId": call.id, "name": call.tool, "arguments": arguments(call)}
            for call in calls
        ]
        requests = {"toolRequests": [{**each, "type": "function"} for each in asked]}
        content = {**message, "content": says, **turn, "outputTokens": len(tokens)}
        yield self.event(
            "assistant.message", {**content, **(requests if asked else {})}, agent=agent
        )
        yield from self._usage(len(tokens), agent)

    def _call_text(self, call: Call, agent: str) -> Iterator[Paced]:
        named = {"toolName": call.tool}
        for piece in _TOKEN.findall(f'{{"{_argument_name(call.tool)}": "{call.what}"}}'):
            delta = {"toolCallId": call.id, "inputDelta": piece, **named}
            yield self.passing("assistant.tool_call_delta", delta, pause_ms=10, agent=agent)
            named = {}

    def _usage(self, output: int, agent: str) -> Iterator[Paced]:
        self._tokens += output + self.chance.randint(200, 2_000)
        usage = {
            "model": MODEL,
            "inputTokens": self._tokens,
            "outputTokens": output,
            "duration": self.chance.randint(800, 9_000),
        }
        yield self.passing("assistant.usage", usage, agent=agent)
        info = {
            "tokenLimit": 200_000,
            "currentTokens": self._tokens,
            "messagesLength": 2 * self._turns,
        }
        yield self.passing("session.usage_info", info)

    def hook(self, call: Call, agent: str) -> Iterator[Paced]:
        """Run a hook before a tool."""
        hook = {"hookInvocationId": self.uuid(), "hookType": "preToolUse"}
        given = {"input": {"toolName": call.tool, "toolArgs": arguments(call)}}
        yield self.event("hook.start", {**hook, **given}, agent=agent)
        yield self.event("hook.end", {**hook, "success": True}, pause_ms=8, agent=agent)

    def execution(self, call: Call, turn: dict[str, str], agent: str) -> Iterator[Paced]:
        """Run a tool that succeeds."""
        given = {"toolName": call.tool, "arguments": arguments(call)}
        yield self.event(
            "tool.execution_start", {"toolCallId": call.id, **given, **turn}, agent=agent
        )
        lines = self._output(call)
        for line in lines[: self.chance.randint(2, 8)] if call.tool == "bash" else []:
            partial = {"toolCallId": call.id, "partialOutput": f"{line}\n"}
            yield self.passing("tool.execution_partial_result", partial, pause_ms=60, agent=agent)
        text = "\n".join(lines)
        result = {"content": text[:CONTENT_MAX], "detailedContent": text}
        done = {"toolCallId": call.id, "success": True, "result": result, **turn}
        took_ms = min(900, int(self.chance.lognormvariate(0, 1) * 120))
        yield self.event("tool.execution_complete", done, pause_ms=took_ms, agent=agent)

    def refusal(self, call: Call, turn: dict[str, str], why: str) -> Paced:
        """Give a tool up that was not allowed to run."""
        error = {"message": f"Not allowed{f': {why}' if why else ''}", "code": "denied"}
        done = {"toolCallId": call.id, "success": False, "error": error, **turn}
        return self.event("tool.execution_complete", done)

    def _output(self, call: Call) -> list[str]:
        """Make a tool's output: lines that look like its own, as many as the size drawn asks."""
        if call.tool == "create_pull_request":
            return [f"Opened pull request #{self.chance.randint(100, 999)} from {call.what}"]
        size = min(OUTPUT_MAX, int(self.chance.lognormvariate(0, OUTPUT_SIGMA) * OUTPUT_MEDIAN))
        lines: list[str] = []
        while size > 0:
            lines.append(self._output_line(call, len(lines) + 1))
            size -= len(lines[-1]) + 1
        return lines or ["ok"]

    def _output_line(self, call: Call, number: int) -> str:
        draw = self.chance.randint
        if call.tool == "bash" and "pytest" in call.what:
            return f"run {number:>4}: 1 passed in {draw(4, 90) / 100:.2f}s"
        if call.tool == "bash":
            return f"{draw(1, 9_999):>6}  {draw(0, 9_999) / 10_000:.4f}s  {call.what.split()[-1]}"
        if call.tool == "grep":
            return f"src/module_{draw(1, 40)}.py:{draw(1, 900)}:    {call.what}"
        return f"{number:>5}  value_{draw(1, 99)} = step_{draw(1, 99)}(value_{draw(1, 99)})"

    def _beat(self) -> int:
        return self.chance.randint(10, 14)


def arguments(call: Call) -> dict[str, str]:
    """Spell the arguments of a call."""
    return {_argument_name(call.tool): call.what}


def _argument_name(tool: str) -> str:
    return {"bash": "command", "grep": "pattern", "create_pull_request": "branch"}.get(tool, "path")


def rfc3339(time: datetime) -> str:
    """Spell a time as the events have it."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
