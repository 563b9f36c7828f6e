"""The pairs of the everruns catalog, written by hand: its pinned file has none.

Paths and roles as in `sessionwire_schemas.pairs`. One `tool.call_requested` opens a prompt for each
of its calls; what is asked follows from the call's name and id (`TOOL_QUESTION`,
`TOOL_APPROVAL`, `APPROVAL_ID_PREFIX`), anything else being a tool that the client runs.
"""

from __future__ import annotations

from typing import Final

from sessionwire_schemas.pairs import Kind, Pair

__all__ = ["APPROVAL_ID_PREFIX", "EVERRUNS_PAIRS", "TOOL_APPROVAL", "TOOL_QUESTION"]

TOOL_QUESTION: Final = "ask_user"
"""A call of this name is a question; with an `elicitation` argument, an elicitation."""

TOOL_APPROVAL: Final = "approve_tool_call"
"""A call of this name is an approval."""

APPROVAL_ID_PREFIX: Final = "tool_approval_"
"""What the id of an approval begins with."""

_TURN_ENDS: Final = ("turn.completed", "turn.failed", "turn.sealed", "turn.cancelled")

_TURN_AND_EXECUTION: Final = ("context.turn_id", "context.exec_id")

EVERRUNS_PAIRS: Final[tuple[Pair, ...]] = (
    Pair(
        id="tool_call",
        role="prompt",
        opens=("tool.call_requested",),
        closes=("tool.completed",),
        open_key=("data.tool_calls[].id",),
        close_key=("data.tool_call_id",),
        kinds=(
            Kind("tool", required=("id", "name", "arguments")),
            Kind("question", required=("id", "name", "arguments")),
            Kind("approval", required=("id", "name", "arguments")),
            Kind("elicitation", required=("id", "name", "arguments")),
        ),
        outcomes=("success", "error", "timeout", "cancelled"),
    ),
    Pair(
        id="input",
        role="span",
        opens=("input.message",),
        closes=("turn.started",),
        open_key=("data.message.id",),
        close_key=("data.input_message_id",),
    ),
    Pair(
        id="turn",
        role="span",
        opens=("turn.started",),
        closes=_TURN_ENDS,
        open_key=("data.turn_id",),
        close_key=("data.turn_id",),
    ),
    Pair(
        id="activity",
        role="span",
        opens=("session.activated",),
        closes=("session.idled",),
        open_key=("data.turn_id",),
        close_key=("data.turn_id",),
    ),
    Pair(
        id="reason",
        role="span",
        opens=("reason.started",),
        closes=("reason.completed",),
        open_key=("context.span_id",),
        close_key=("context.span_id",),
        secondary_keys=("context.exec_id", "context.turn_id"),
    ),
    Pair(
        id="thinking",
        role="span",
        opens=("reason.thinking.started",),
        closes=("reason.thinking.completed",),
        progress=("reason.thinking.delta",),
        open_key=("data.turn_id", "context.exec_id"),
        close_key=("data.turn_id", "context.exec_id"),
        secondary_keys=_TURN_AND_EXECUTION,
        also_closed_by=("reason.completed",),
    ),
    Pair(
        id="output_message",
        role="span",
        opens=("output.message.started",),
        closes=("output.message.completed",),
        progress=("output.message.delta", "output.message.replaced"),
        open_key=("data.message_id",),
        close_key=("data.message.id",),
    ),
    Pair(
        id="act",
        role="span",
        opens=("act.started",),
        closes=("act.completed",),
        open_key=("context.span_id",),
        close_key=("context.span_id",),
        secondary_keys=("context.exec_id",),
    ),
    Pair(
        id="tool",
        role="span",
        opens=("tool.started",),
        closes=("tool.completed",),
        progress=("tool.progress", "tool.output.delta"),
        open_key=("data.tool_call.id",),
        close_key=("data.tool_call_id",),
    ),
    Pair(
        id="hosted_call",
        role="span",
        opens=("tool.hosted_call",),
        closes=("tool.hosted_call",),
        open_key=("data.call_id",),
        close_key=("data.call_id",),
        open_when=("data.status", ("in_progress",)),
        close_when=("data.status", ("completed", "failed")),
    ),
    Pair(
        id="task",
        role="span",
        opens=("task.created",),
        closes=("task.updated",),
        progress=("task.updated", "task.message.sent", "task.message.received"),
        open_key=("data.task.id",),
        close_key=("data.task.id",),
        close_when=("data.task.state", ("succeeded", "failed", "canceled")),
    ),
    Pair(
        id="task_input",
        role="span",
        opens=("task.updated",),
        closes=("task.message.sent",),
        open_key=("data.task.input_request.id",),
        close_key=("data.message.in_reply_to",),
    ),
    Pair(
        id="compaction",
        role="span",
        opens=("context.compacting",),
        closes=("context.compacted", "context.compaction.failed"),
        secondary_keys=_TURN_AND_EXECUTION,
    ),
    Pair(
        id="budget",
        role="state",
        opens=("budget.paused",),
        closes=("budget.resumed",),
        open_key=("data.budget_id",),
        close_key=("data.budget_id",),
    ),
    Pair(
        id="voice_session",
        role="span",
        opens=("voice.session.started",),
        closes=("voice.session.ended", "voice.session.failed"),
        progress=("voice.output.interrupted",),
        open_key=("data.voice_connection_id",),
        close_key=("data.voice_connection_id",),
    ),
    Pair(
        id="voice_input",
        role="span",
        opens=("voice.input_transcript.delta",),
        closes=("voice.input_transcript.completed",),
        open_key=("data.voice_connection_id", "data.item_id"),
        close_key=("data.voice_connection_id", "data.item_id"),
        open_ephemeral=True,
    ),
    Pair(
        id="voice_output",
        role="span",
        opens=("voice.output_transcript.delta",),
        closes=("voice.output_transcript.completed",),
        open_key=("data.voice_connection_id", "data.response_id"),
        close_key=("data.voice_connection_id", "data.response_id"),
        open_ephemeral=True,
    ),
    Pair(
        id="sandbox",
        role="span",
        opens=("sandbox.instance_lost", "environment.instance_lost"),
        closes=("sandbox.recovered", "environment.recovered"),
        open_key=("data.sandbox_id",),
        close_key=("data.sandbox_id",),
        secondary_keys=("data.previous_instance_id",),
    ),
    Pair(
        id="timer",
        role="state",
        opens=("timer.set",),
        closes=("timer.cancelled",),
        progress=("timer.fired",),
        open_key=("data.timer_id",),
        close_key=("data.timer_id",),
        secondary_keys=("data.timer_id",),
        # Only a firing that names no next one.
        also_closed_by=("timer.fired",),
    ),
)
"""The pairs, the prompt first."""
