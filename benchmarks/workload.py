"""The events that are published: templates of copilot events with holes, one a line.

The generator (`load/workload.h`) fills the holes in place: the id, the round (new message and tool
ids each time the templates begin again) and the mark, a backquote and 16 hex digits, which is all
that it reads of what arrives. The first template of every workload is durable and belongs to no
message, since each session is born with it.

`turns` follows published logs of agent sessions: many small deltas, few durable events, and most
bytes in a few long results (log-normal).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ID", "MARK", "ROUND", "WORKLOADS", "deltas", "durable", "turns"]

ID = "00000000-0000-4000-8000-000000000000"
MARK = "`" + "0" * 16
ROUND = "@" * 8

_TEXT = (
    "the session keeps every event and the viewer that comes back reads on from its cursor while "
    "an agent writes tests runs tools asks for permission and reports what it found in the code"
)
_WORDS = _TEXT.split()


class _Script:
    """Writes events as a copilot host does, with a fixed seed: every run publishes the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def words(self, count: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=count))

    def size(self, median: int, largest: int) -> int:
        return int(min(largest, median * self._random.lognormvariate(0, 1.5)))

    @staticmethod
    def event(type_: str, data: Mapping[str, Any], *, ephemeral: bool = False) -> str:
        members: dict[str, Any] = {
            "id": ID,
            "timestamp": "2026-08-21T09:31:03.123Z",
            "parentId": None,
        }
        if ephemeral:
            members["ephemeral"] = True
        members |= {"type": type_, "data": data}
        return json.dumps(members, separators=(",", ":"))


def deltas() -> list[str]:
    """One message of 198 deltas of about 235 bytes, begun and replaced by durable events of about
    the same size: what a viewer sees nearly all of the time."""
    script = _Script(1)
    message = f"m{ROUND}"
    return [
        script.event("user.message", {"content": f"{MARK} {script.words(12)}"}),
        *(
            script.event(
                "assistant.message_delta",
                {"messageId": message, "deltaContent": f"{MARK} {script.words(4):.20}"},
                ephemeral=True,
            )
            for _ in range(198)
        ),
        script.event(
            "assistant.message", {"messageId": message, "content": f"{MARK} {script.words(8)}"}
        ),
    ]


def _reasoning(script: _Script, turn: int) -> Iterator[str]:
    reasoning = f"r{ROUND}-{turn}"
    for _ in range(20):
        data = {"reasoningId": reasoning, "deltaContent": f"{MARK} {script.words(1)}"}
        yield script.event("assistant.reasoning_delta", data, ephemeral=True)
    data = {"reasoningId": reasoning, "content": f"{MARK} {script.words(20)}"}
    yield script.event("assistant.reasoning", data)


def _message(script: _Script, turn: int) -> Iterator[str]:
    message = f"m{ROUND}-{turn}"
    for _ in range(40):
        data = {"messageId": message, "deltaContent": f"{MARK} {script.words(1)}"}
        yield script.event("assistant.message_delta", data, ephemeral=True)
    content = f"{MARK} {script.words(40)}"
    whole = {"messageId": message, "content": content, "turnId": str(turn), "outputTokens": 60}
    yield script.event("assistant.message", whole)


def _tool(script: _Script, turn: int) -> Iterator[str]:
    call = f"call_{ROUND}{turn}"
    start = {"toolCallId": call, "toolName": "bash", "arguments": {"command": f"echo '{MARK}'"}}
    yield script.event("tool.execution_start", start)
    for _ in range(3):
        data = {"toolCallId": call, "partialOutput": f"{MARK} {script.words(12)}\n"}
        yield script.event("tool.execution_partial_result", data, ephemeral=True)
    content = f"{MARK} " + script.words(script.size(240, 4_000))
    result = {"toolCallId": call, "success": True, "result": {"content": content}}
    yield script.event("tool.execution_complete", result)


def turns() -> list[str]:
    """One user message and six turns: reasoning, a message and a tool each; six of seven events
    are deltas, and the results of tools reach 20 KB."""
    script = _Script(2)
    events = [script.event("user.message", {"content": f"{MARK} {script.words(30)}"})]
    for turn in range(6):
        events += [*_reasoning(script, turn), *_message(script, turn), *_tool(script, turn)]
    return events


def durable() -> list[str]:
    """The durable events of `turns`, as a replay brings them."""
    return [event for event in turns() if '"ephemeral":true' not in event]


WORKLOADS = {"deltas": deltas, "turns": turns, "durable": durable}
"""Name in a cell → how its templates are made."""
