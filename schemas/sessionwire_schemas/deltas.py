"""Which events stream a message in parts, and which event replaces those parts (protocol.md §3.5).

Owns one table per catalog for both directions. A message is named by its key, `<family>|<id>`. The
late joiner's catch-up, the merging of deltas and dropping what is replaced all stand on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sessionwire_schemas.paths import key_part, member, members

__all__ = [
    "CLOSERS",
    "DELTAS",
    "EVERY_MESSAGE",
    "CloseRule",
    "DeltaRule",
]

EVERY_MESSAGE: Final = "*"
"""In place of a key: every message of the session that is still open."""

_STREAMS: Final = ("stdout", "stderr")
"""The output streams of a tool. Another name cannot be closed by `tool.completed`, which names
none, so its deltas belong to no message and pass as they are."""


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """How a delta type carries a part of a message.

    Attributes:
        family: first part of the message's key.
        id_members: paths below `data` whose values, joined with `|`, identify the message. The
            first is required; another that is absent counts as empty.
        text_member: member of `data` with this part of the text.
        accumulated_member: member of `data` with the whole text so far, None where there is none.
        among: values that the last of several id members may have; empty for any.
    """

    family: str
    id_members: tuple[str, ...]
    text_member: str
    accumulated_member: str | None = None
    among: tuple[str, ...] = ()

    def key(self, data: object) -> str:
        """Return the key of the message that `data` is a part of, "" if it does not say."""
        return _key(self.family, self.id_members, data, self.among)


@dataclass(frozen=True, slots=True)
class CloseRule:
    """Which messages an event replaces.

    Attributes:
        family: first part of their keys, `EVERY_MESSAGE` for all messages of the session.
        id_members: paths below `data`, as in `DeltaRule`; a single one may go through an array.
        context_member: path below the envelope's `context`, for an event whose data has no id.
        endings: last parts of their keys, where the event itself does not name them.
        unless: path of a member of `data` that, being true, keeps the rule from holding.
    """

    family: str
    id_members: tuple[str, ...] = ()
    context_member: str = ""
    endings: tuple[str, ...] = ()
    unless: str = ""

    def keys(self, data: object, context: object) -> Iterator[str]:
        """Yield the keys of the messages that are replaced."""
        if self.unless and member(data, self.unless) is True:
            return
        if self.family == EVERY_MESSAGE:
            yield EVERY_MESSAGE
            return
        for key in self._named(data, context):
            if self.endings:
                for ending in self.endings:
                    yield f"{key}|{ending}"
            else:
                yield key

    def _named(self, data: object, context: object) -> Iterator[str]:
        if len(self.id_members) > 1:
            found = [_key(self.family, self.id_members, data)]
        else:
            values = [value for path in self.id_members for value in members(data, path)]
            found = [_joined(self.family, key_part(value)) for value in values]
            if self.context_member and not any(found):
                value = member(context, self.context_member)
                found = [_joined(self.family, key_part(value))]
        for key in found:
            if key:
                yield key


def _joined(family: str, part: str) -> str:
    return f"{family}|{part}" if part else ""


def _key(family: str, paths: tuple[str, ...], data: object, among: tuple[str, ...] = ()) -> str:
    if len(paths) == 1:  # nearly every delta
        return _joined(family, key_part(member(data, paths[0])))
    values = [member(data, path) for path in paths]
    first = key_part(values[0])
    if not first or (among and values[-1] not in among):
        return ""
    return "|".join((family, first, *(key_part(value) for value in values[1:])))


DELTAS: Final[Mapping[str, Mapping[str, DeltaRule]]] = {
    "copilot": {
        "assistant.message_delta": DeltaRule("assistant.message", ("messageId",), "deltaContent"),
        "assistant.reasoning_delta": DeltaRule(
            "assistant.reasoning", ("reasoningId",), "deltaContent"
        ),
        "assistant.tool_call_delta": DeltaRule(
            "assistant.tool_call", ("toolCallId",), "inputDelta"
        ),
        "tool.execution_partial_result": DeltaRule(
            "tool.execution", ("toolCallId",), "partialOutput"
        ),
    },
    "everruns": {
        "output.message.delta": DeltaRule(
            "output.message", ("message_id",), "delta", accumulated_member="accumulated"
        ),
        "reason.thinking.delta": DeltaRule(
            "reason.thinking", ("turn_id",), "delta", accumulated_member="accumulated"
        ),
        "tool.output.delta": DeltaRule(
            "tool.output", ("tool_call_id", "stream"), "delta", among=_STREAMS
        ),
        "voice.input_transcript.delta": DeltaRule(
            "voice.input_transcript",
            ("voice_connection_id", "item_id"),
            "delta",
            accumulated_member="accumulated",
        ),
        "voice.output_transcript.delta": DeltaRule(
            "voice.output_transcript",
            ("voice_connection_id", "response_id"),
            "delta",
            accumulated_member="accumulated",
        ),
    },
}
"""Delta types by catalog."""

_ALL: Final = (CloseRule(EVERY_MESSAGE),)

CLOSERS: Final[Mapping[str, Mapping[str, tuple[CloseRule, ...]]]] = {
    "copilot": {
        "assistant.message": (
            CloseRule("assistant.message", ("messageId",)),
            CloseRule("assistant.tool_call", ("toolRequests[].toolCallId",)),
        ),
        "assistant.reasoning": (CloseRule("assistant.reasoning", ("reasoningId",)),),
        "tool.execution_start": (CloseRule("assistant.tool_call", ("toolCallId",)),),
        "tool.execution_complete": (
            CloseRule("tool.execution", ("toolCallId",)),
            # A start that was lost must not leave the call's text open.
            CloseRule("assistant.tool_call", ("toolCallId",)),
        ),
        "abort": _ALL,
        "session.idle": _ALL,
        "session.shutdown": _ALL,
        # What was streaming before the rewind is rewound with the rest.
        "session.snapshot_rewind": _ALL,
        # The process that was streaming is gone, unless somebody merely joined it.
        "session.resume": (CloseRule(EVERY_MESSAGE, unless="sessionWasActive"),),
    },
    "everruns": {
        "output.message.completed": (CloseRule("output.message", ("message.id",)),),
        "output.message.replaced": (CloseRule("output.message", ("message_id",)),),
        "reason.thinking.completed": (
            CloseRule("reason.thinking", ("turn_id",), context_member="turn_id"),
        ),
        "reason.completed": (CloseRule("reason.thinking", ("turn_id",), context_member="turn_id"),),
        "tool.completed": (CloseRule("tool.output", ("tool_call_id",), endings=_STREAMS),),
        "voice.input_transcript.completed": (
            CloseRule("voice.input_transcript", ("voice_connection_id", "item_id")),
        ),
        "voice.output_transcript.completed": (
            CloseRule("voice.output_transcript", ("voice_connection_id", "response_id")),
        ),
        "session.idled": _ALL,
        "turn.cancelled": _ALL,
        "turn.completed": _ALL,
        "turn.failed": _ALL,
        "turn.sealed": _ALL,
    },
}
"""Closing types by catalog."""
