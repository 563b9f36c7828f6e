"""What the catalogs say about prompts, as tables (protocol.md §8): kinds, and what ends one.

Data and the reading of it, no state. `prompts` applies the tables to an event; the hub's scripts
get what it finds there and know no event type themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from sessionwire_schemas.everruns_pairs import TOOL_APPROVAL, TOOL_QUESTION
from sessionwire_schemas.paths import member

__all__ = [
    "CLAIMABLE_KINDS",
    "DEFAULT_TTL_S",
    "END_RULES",
    "KIND_OF_PAIR",
    "RESUMABLE_KINDS",
    "SECRET_KINDS",
    "STATE_AFTER",
    "EndReason",
    "EndRule",
    "EndState",
    "PromptKind",
    "call_kind",
]

PromptKind: TypeAlias = Literal[
    "permission",
    "user_input",
    "elicitation",
    "sampling",
    "exit_plan_mode",
    "auto_mode_switch",
    "session_limits_exhausted",
    "mcp_oauth",
    "mcp_headers",
    "external_tool",
    "command",
    "tool",
    "question",
    "approval",
]
"""What is asked. `elicitation` is in both catalogs; the last three are everruns'."""

EndState: TypeAlias = Literal["expired", "cancelled", "orphaned", "withdrawn", "rewound"]
"""How a prompt ends that nobody answered."""

EndReason: TypeAlias = Literal[
    "abort",
    "deadline",
    "deleted",
    "host_gone",
    "resume",
    "rewind",
    "shutdown",
    "turn_end",
    "unread",
    "user_message",
]
"""Why it ends. An event says `abort`, `resume`, `rewind`, `shutdown`, `turn_end` or `user_message`;
the others are the hub's: its deadline, the session's deletion, a host that stays away, a secret
answer that no host fetched."""

STATE_AFTER: Final[Mapping[EndReason, EndState]] = MappingProxyType(
    {
        "abort": "cancelled",
        "deadline": "expired",
        "deleted": "withdrawn",
        "host_gone": "orphaned",
        "resume": "orphaned",
        "rewind": "rewound",
        "shutdown": "orphaned",
        "turn_end": "cancelled",
        "unread": "expired",
        "user_message": "cancelled",
    }
)
"""The state that each reason leaves a prompt in."""

KIND_OF_PAIR: Final[Mapping[str, PromptKind]] = MappingProxyType(
    {
        "auto_mode_switch": "auto_mode_switch",
        # Two openers, one closer that does not say which: one kind, one table of request ids.
        "command_execute": "command",
        "command_queued": "command",
        "elicitation": "elicitation",
        "exit_plan_mode": "exit_plan_mode",
        "external_tool": "external_tool",
        "mcp_headers_refresh": "mcp_headers",
        "mcp_oauth": "mcp_oauth",
        "permission": "permission",
        "sampling": "sampling",
        "session_limits_exhausted": "session_limits_exhausted",
        "user_input": "user_input",
    }
)
"""The kind that a copilot pair asks; an everruns call has its own, `call_kind`."""

CLAIMABLE_KINDS: Final = frozenset[PromptKind](("command", "external_tool", "sampling", "tool"))
"""What a program answers, and may take before it works on it."""

SECRET_KINDS: Final = frozenset[PromptKind](("mcp_headers", "mcp_oauth"))
"""What is answered with credentials."""

RESUMABLE_KINDS: Final = frozenset[PromptKind](("external_tool", "permission"))
"""What a runtime still takes an answer for after a cold resume that continues pending work; it has
forgotten the others, whose openers are in no log."""

DEFAULT_TTL_S: Final[Mapping[str, Mapping[PromptKind, int]]] = MappingProxyType(
    {
        "copilot": MappingProxyType[PromptKind, int]({}),
        # An everruns server waits five minutes for its client.
        "everruns": MappingProxyType[PromptKind, int](
            {"approval": 300, "elicitation": 300, "question": 300, "tool": 300}
        ),
    }
)
"""Seconds that a prompt waits whose opener names no deadline, by catalog and kind; absent: for
ever."""


@dataclass(frozen=True, slots=True)
class EndRule:
    """Which open prompts an event ends. Paths are below `data`.

    Attributes:
        reason: why they end.
        only_if: path that must be true; "" for always.
        unless: path that must not be true; "" for never.
        role: path of a word that must be `user` or absent; "" for any event.
        keeps_resumable_if: path that, being true, spares those of `RESUMABLE_KINDS`.
        by_agent: where the event names an agent, only that agent's prompts end.
        by_turn: path of the turn whose prompts end; those that name none end as well.
    """

    reason: EndReason
    only_if: str = ""
    unless: str = ""
    role: str = ""
    keeps_resumable_if: str = ""
    by_agent: bool = False
    by_turn: str = ""

    def applies(self, data: object) -> bool:
        """Tell whether an event with this data ends anything."""
        if self.only_if and member(data, self.only_if) is not True:
            return False
        if self.unless and member(data, self.unless) is True:
            return False
        return not self.role or member(data, self.role) in (None, "user")


_TURN_END: Final = EndRule("turn_end", by_turn="turn_id")

END_RULES: Final[Mapping[str, Mapping[str, EndRule]]] = MappingProxyType(
    {
        "copilot": MappingProxyType(
            {
                "abort": EndRule("abort", by_agent=True),
                # What was asked between the abort and the end of the loop.
                "session.idle": EndRule("abort", only_if="aborted"),
                "session.resume": EndRule(
                    "resume", unless="sessionWasActive", keeps_resumable_if="continuePendingWork"
                ),
                "session.shutdown": EndRule("shutdown"),
                "session.snapshot_rewind": EndRule("rewind"),
            }
        ),
        "everruns": MappingProxyType(
            {
                "input.message": EndRule("user_message", role="message.role"),
                "turn.cancelled": _TURN_END,
                "turn.completed": _TURN_END,
                "turn.failed": _TURN_END,
                "turn.sealed": _TURN_END,
            }
        ),
    }
)
"""What ends prompts, by catalog and type. A copilot user message does not: it steers or queues."""


def call_kind(call: object) -> PromptKind:
    """Tell what a call of an everruns `tool.call_requested` asks for."""
    name = member(call, "name")
    if name == TOOL_APPROVAL:
        return "approval"
    if name != TOOL_QUESTION:
        return "tool"
    asked = member(call, "arguments.elicitation")
    return "elicitation" if isinstance(asked, Mapping) else "question"
