"""Bodies of the everruns verbs, as that server's clients send them (protocol.md §4.8).

Owns their shapes and bounds. Members that are not named are ignored, as that server does, and a
fault is 400 where the hub's own routes say 422. Whether an answer fits its prompt is no business of
these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request

from sessionwire_server.bodies import read_model_and_bytes
from sessionwire_server.errors import HubError

__all__ = [
    "CreateBudget",
    "CreateChannelSession",
    "QuestionAnswers",
    "SendMessage",
    "ToolApprovals",
    "ToolResults",
    "TopUpBudget",
    "UpdateBudget",
    "everruns_body",
]

MAX_PARTS: Final = 256
MAX_DECISIONS: Final = 64
MAX_RESULTS: Final = 256

Model = TypeVar("Model", bound=BaseModel)

CallId = Annotated[str, Field(min_length=1, max_length=256)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Part(_Body):
    """A part of a message. What goes with its type is kept as it was given."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: Literal["text", "image", "image_file", "file"]
    text: str | None = None

    @model_validator(mode="after")
    def _has_text(self) -> _Part:
        if self.type == "text" and self.text is None:
            raise ValueError("a part of type 'text' needs a text")
        return self


class _Message(_Body):
    role: Literal["user"]
    content: Annotated[list[_Part], Field(min_length=1, max_length=MAX_PARTS)]


class SendMessage(_Body):
    """The body of `POST …/messages`."""

    message: _Message
    controls: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    external_actor: dict[str, Any] | None = None
    addressed_participant_id: str | None = None


class _ToolResult(_Body):
    tool_call_id: CallId
    result: Any = None
    error: str | None = None


class ToolResults(_Body):
    """The body of `POST …/tool-results`."""

    tool_results: Annotated[list[_ToolResult], Field(min_length=1, max_length=MAX_RESULTS)]


class QuestionAnswers(_Body):
    """The body of `POST …/question-answers`; the answers are checked against the questions."""

    tool_call_id: CallId | None = None
    status: Literal["answered", "declined"] = "answered"
    answers: list[dict[str, Any]] = []


class _Decision(_Body):
    tool_call_id: CallId
    decision: Literal["allow", "allow_always", "reject", "reject_always"]


class ToolApprovals(_Body):
    """The body of `POST …/tool-approvals`."""

    decisions: Annotated[list[_Decision], Field(min_length=1, max_length=MAX_DECISIONS)]


class CreateChannelSession(_Body):
    """The body of `POST …/channels/{channel}/sessions`."""

    title: Annotated[str, Field(max_length=200)] | None = None
    metadata: dict[str, Any] | None = None


Amount = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e15)]


class CreateBudget(_Body):
    """The body of `POST /v1/budgets`."""

    subject_type: str
    subject_id: str
    currency: Annotated[str, Field(min_length=1, max_length=64)]
    limit: Amount
    soft_limit: Amount | None = None
    period: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class UpdateBudget(_Body):
    """The body of `PATCH /v1/budgets/{budget_id}`; what is left out stays."""

    limit: Amount | None = None
    soft_limit: Amount | None = None
    status: Literal["active", "paused", "exhausted", "disabled"] | None = None
    metadata: dict[str, Any] | None = None


class TopUpBudget(_Body):
    """The body of `POST …/top-up`."""

    amount: Annotated[float, Field(allow_inf_nan=False, gt=0, le=1e15)]
    description: Annotated[str, Field(max_length=1_000)] | None = None


async def everruns_body(request: Request, model: type[Model]) -> tuple[Model, bytes]:
    """Read a body, and give its bytes; no body at all is an empty object.

    Raises:
        HubError: 400 `invalid_body` with the `pointer` of the fault; 413, 415 and 400
            `malformed_json` as `bodies.read_json`.
    """
    try:
        return await read_model_and_bytes(request, model)
    except HubError as error:
        if error.code != "invalid_body":
            raise
        raise HubError(400, "invalid_body", error.detail, **error.extra) from error
