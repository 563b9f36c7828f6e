"""Answers: checked against their prompt and turned into the completed event (protocol.md §8).

Clients answer in the vocabulary of the official clients; the event that closes a prompt has its
own. One function does both, so that no answer is taken whose event could not be made. The host gets
the answer itself, as it was given. Pure: it decides nothing about who is first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sessionwire_schemas.answer_faults import AnswerError, Fault
from sessionwire_schemas.catalog import CATALOGS
from sessionwire_schemas.closers import Closer, closer_type
from sessionwire_schemas.copilot_answers import (
    is_choice,
    read_auto_mode_switch,
    read_command,
    read_elicitation,
    read_exit_plan_mode,
    read_external_tool,
    read_headers,
    read_oauth,
    read_sampling,
    read_session_limits,
    read_user_input,
)
from sessionwire_schemas.everruns_answers import read_call, tool_completed
from sessionwire_schemas.outcomes import outcome_of
from sessionwire_schemas.permission_answers import permission_result, read_permission
from sessionwire_schemas.prompts import Asked

__all__ = ["Answer", "AnswerError", "Fault", "check_answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that fits its prompt.

    Attributes:
        value: the answer as it was given.
        closer: the completed event that it becomes.
        outcome: that event's outcome; see `outcomes.outcome_of`.
    """

    value: Any
    closer: Closer
    outcome: str


def check_answer(asked: Asked, answer: object) -> Answer:
    """Check an answer against what was asked, and make its completed event.

    Args:
        asked: what the prompt asks; see `prompts.asked`.
        answer: the answer, as decoded JSON; None where it is left out.

    Raises:
        AnswerError: it does not fit; `faults` say where and why, never quoting it.
    """
    data = tool_completed(asked, read_call(asked, answer)) if asked.catalog == "everruns" else None
    if data is None:
        data = {"requestId": asked.request_id, **_copilot_members(asked, answer)}
    closer = Closer(closer_type(asked.catalog, asked.kind), data)
    return Answer(answer, closer, outcome_of(CATALOGS[asked.catalog], asked.kind, data))


def _copilot_members(asked: Asked, answer: object) -> dict[str, Any]:
    """Return what the completed event says beside the request id."""
    match asked.kind:
        case "permission":
            return _permission(asked, answer)
        case "user_input":
            said = read_user_input(asked, answer)
            free = said.wasFreeform
            typed = not is_choice(asked, said.answer) if free is None else free
            return {"answer": said.answer, "wasFreeform": typed}
        case "elicitation":
            schema = asked.data.get("requestedSchema")
            form = schema if asked.data.get("mode", "form") == "form" else None
            filled = read_elicitation(form, answer)
            content = {} if filled.content is None else {"content": filled.content}
            return {"action": filled.action, **content}
        case "exit_plan_mode":
            members = read_exit_plan_mode(asked, answer).members()
            # For the host alone: the event has no such member.
            members.pop("deferImplementation", None)
            return members
        case "auto_mode_switch":
            return {"response": read_auto_mode_switch(answer)}
        case "session_limits_exhausted":
            return {"response": read_session_limits(answer).members()}
        case "mcp_oauth":
            return {"outcome": read_oauth(answer).kind}
        case "mcp_headers":
            return {"outcome": read_headers(answer).kind}
        case _:
            _read_silent(asked, answer)
            return {}


def _permission(asked: Asked, answer: object) -> dict[str, Any]:
    decision = read_permission(asked, answer)
    call = asked.tool_call_id
    named = {"toolCallId": call} if call else {}
    return {**named, "result": permission_result(asked, decision)}


def _read_silent(asked: Asked, answer: object) -> None:
    """Check an answer that its completed event does not repeat."""
    match asked.kind:
        case "sampling":
            read_sampling(answer)
        case "external_tool":
            read_external_tool(answer)
        case "command":
            read_command(asked, answer)
        case _:
            raise AssertionError(asked.kind)
