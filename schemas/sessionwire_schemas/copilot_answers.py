"""Answers to the other copilot prompts, one model per kind (protocol.md §8).

The members are those that the official clients send; conditions that the event's schema leaves to
prose (amounts, choices, what a form asks for) are checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import ConfigDict, Field

from sessionwire_schemas.answer_faults import AnswerError, AnswerModel, read, refuse, tagged
from sessionwire_schemas.fields import Boolean, Integer, Number
from sessionwire_schemas.prompts import Asked
from sessionwire_schemas.requested_schema import content_faults

__all__ = [
    "AUTO_MODE_WORDS",
    "AutoModeSwitchAnswer",
    "CommandAnswer",
    "ElicitationAnswer",
    "ExitPlanModeAnswer",
    "ExternalToolAnswer",
    "HeadersAnswer",
    "NoHeadersAnswer",
    "OAuthCancelledAnswer",
    "OAuthTokenAnswer",
    "QueuedCommandAnswer",
    "SamplingAnswer",
    "SessionLimitsAnswer",
    "ToolResult",
    "UserInputAnswer",
    "is_choice",
    "read_auto_mode_switch",
    "read_command",
    "read_elicitation",
    "read_exit_plan_mode",
    "read_external_tool",
    "read_headers",
    "read_oauth",
    "read_sampling",
    "read_session_limits",
    "read_user_input",
]

AutoModeSwitchAnswer: TypeAlias = Literal["yes", "yes_always", "no"]
"""The whole answer is one word."""

AUTO_MODE_WORDS: Final[tuple[AutoModeSwitchAnswer, ...]] = ("yes", "yes_always", "no")

_HEADER_NAME = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
_HEADER_VALUE = r"^[^\r\n\x00]*$"


class UserInputAnswer(AnswerModel):
    """What the user typed or chose."""

    answer: str
    wasFreeform: Boolean | None = None


class ElicitationAnswer(AnswerModel):
    """What became of a form or a link; `content` comes with `accept` only."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | Number | Boolean | list[str]] | None = None
    meta: dict[str, Any] | None = Field(default=None, alias="_meta")


class SamplingAnswer(AnswerModel):
    """The result of an MCP `sampling/createMessage`. Null in its place rejects the request."""

    model_config = ConfigDict(extra="allow")

    role: Literal["user", "assistant"]
    content: dict[str, Any] | list[dict[str, Any]]
    model: str


class ExitPlanModeAnswer(AnswerModel):
    """What the user thinks of a plan."""

    approved: Boolean
    selectedAction: Literal["exit_only", "interactive", "autopilot", "autopilot_fleet"] | None = (
        None
    )
    autoApproveEdits: Boolean | None = None
    feedback: str | None = None
    deferImplementation: Boolean | None = None


class SessionLimitsAnswer(AnswerModel):
    """What to do about credits that are used up."""

    action: Literal["add", "set", "unset", "cancel"]
    additionalAiCredits: Number | None = None
    maxAiCredits: Number | None = None


class OAuthTokenAnswer(AnswerModel):
    """A token that the client got. Secret."""

    kind: Literal["token"]
    accessToken: Annotated[str, Field(min_length=1)]
    tokenType: str | None = None
    expiresIn: Integer | None = None


class OAuthCancelledAnswer(AnswerModel):
    """No token."""

    kind: Literal["cancelled"]


class HeadersAnswer(AnswerModel):
    """Headers for the server. Secret."""

    kind: Literal["headers"]
    headers: dict[
        Annotated[str, Field(pattern=_HEADER_NAME)], Annotated[str, Field(pattern=_HEADER_VALUE)]
    ]
    ttlMs: Integer | None = None


class NoHeadersAnswer(AnswerModel):
    """No headers, and why."""

    kind: Literal["none"]
    message: str | None = None


class ToolResult(AnswerModel):
    """The long form of a tool's result; further members are the runtime's business."""

    model_config = ConfigDict(extra="allow")

    textResultForLlm: str
    resultType: str | None = None
    error: str | None = None


class ExternalToolAnswer(AnswerModel):
    """What a client's tool returned, or why it failed: one of the two."""

    result: str | ToolResult | None = None
    error: str | None = None


class CommandAnswer(AnswerModel):
    """A client's command was run; `error` if it failed."""

    error: str | None = None


class QueuedCommandAnswer(AnswerModel):
    """Whether the client ran a queued command."""

    handled: Boolean
    stopProcessingQueue: Boolean | None = None


def read_user_input(asked: Asked, answer: object) -> UserInputAnswer:
    """Read an answer to a question; it must be one of the choices where free text is not allowed.

    Raises:
        AnswerError: it does not fit.
    """
    found = read(UserInputAnswer, answer)
    if asked.data.get("allowFreeform") is False and not is_choice(asked, found.answer):
        raise refuse("must be one of the choices", "/answer")
    return found


def is_choice(asked: Asked, answer: str) -> bool:
    """Tell whether an answer is one of the choices that were offered."""
    choices = asked.data.get("choices")
    return isinstance(choices, list) and answer in cast("list[object]", choices)


def read_elicitation(schema: object, answer: object) -> ElicitationAnswer:
    """Read an answer to an elicitation; accepted content must fit the form's schema.

    Args:
        schema: the `requestedSchema`, None where there is no form.
        answer: the answer.

    Raises:
        AnswerError: it does not fit.
    """
    found = read(ElicitationAnswer, answer)
    if found.action != "accept":
        if found.content is not None:
            raise refuse("comes with `accept` only", "/content")
        return found
    faults = list(content_faults(schema, found.content or {}, at=("content",)))
    if faults:
        raise AnswerError(faults)
    return found


def read_sampling(answer: object) -> SamplingAnswer | None:
    """Read an MCP result; None for null, which rejects the request.

    Raises:
        AnswerError: it does not fit.
    """
    return None if answer is None else read(SamplingAnswer, answer)


def read_exit_plan_mode(asked: Asked, answer: object) -> ExitPlanModeAnswer:
    """Read an answer to a plan; its action must be one that the plan offers.

    Raises:
        AnswerError: it does not fit.
    """
    found = read(ExitPlanModeAnswer, answer)
    listed = asked.data.get("actions")
    actions = cast("list[object]", listed) if isinstance(listed, list) else None
    chosen = found.selectedAction
    if chosen is not None and actions is not None and chosen not in actions:
        raise refuse("is none of the plan's actions", "/selectedAction")
    return found


def read_auto_mode_switch(answer: object) -> AutoModeSwitchAnswer:
    """Read the word that answers an offer to switch models.

    Raises:
        AnswerError: it is another one.
    """
    for word in AUTO_MODE_WORDS:
        if answer == word:
            return word
    raise refuse(f"must be one of {', '.join(AUTO_MODE_WORDS)}")


def read_session_limits(answer: object) -> SessionLimitsAnswer:
    """Read what to do about used up credits: `add` and `set` need their amount, and no other.

    Raises:
        AnswerError: it does not fit.
    """
    found = read(SessionLimitsAnswer, answer)
    for action, name in (("add", "additionalAiCredits"), ("set", "maxAiCredits")):
        amount = cast("float | None", getattr(found, name))
        if found.action != action:
            if amount is not None:
                raise refuse(f"comes with `{action}` only", f"/{name}")
        elif amount is None:
            raise refuse(f"`{action}` needs it", f"/{name}")
        elif not amount > 0:
            raise refuse("must be above 0", f"/{name}")
    return found


def read_oauth(answer: object) -> OAuthTokenAnswer | OAuthCancelledAnswer:
    """Read an OAuth token, or that there is none.

    Raises:
        AnswerError: it does not fit.
    """
    models: Mapping[str, type[OAuthTokenAnswer | OAuthCancelledAnswer]] = {
        "token": OAuthTokenAnswer,
        "cancelled": OAuthCancelledAnswer,
    }
    return tagged(models, answer, "kind")


def read_headers(answer: object) -> HeadersAnswer | NoHeadersAnswer:
    """Read headers, or that there are none.

    Raises:
        AnswerError: it does not fit.
    """
    models: Mapping[str, type[HeadersAnswer | NoHeadersAnswer]] = {
        "headers": HeadersAnswer,
        "none": NoHeadersAnswer,
    }
    return tagged(models, answer, "kind")


def read_external_tool(answer: object) -> ExternalToolAnswer:
    """Read a tool's result, or its error.

    Raises:
        AnswerError: it is neither or both, or does not fit.
    """
    found = read(ExternalToolAnswer, answer)
    if (found.result is None) == (found.error is None):
        raise refuse("needs one of `result` and `error`")
    return found


def read_command(asked: Asked, answer: object) -> CommandAnswer | QueuedCommandAnswer:
    """Read what became of a command; null says that a client's own was run.

    Raises:
        AnswerError: it does not fit.
    """
    if asked.event_type == "command.queued":
        found = read(QueuedCommandAnswer, answer)
        if found.stopProcessingQueue is not None and not found.handled:
            raise refuse("comes with `handled: true` only", "/stopProcessingQueue")
        return found
    return CommandAnswer() if answer is None else read(CommandAnswer, answer)
