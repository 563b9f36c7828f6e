"""Answers to everruns calls: tools, questions, approvals, elicitations (protocol.md §8).

Each becomes a `tool.completed`. What was asked is read from the stored call, never from the answer;
a member of a question that the catalog does not pin (its options, whether several may be chosen)
binds the answer where it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

from pydantic import Field

from sessionwire_schemas.answer_faults import AnswerError, AnswerModel, Fault, pointer, read, refuse
from sessionwire_schemas.copilot_answers import ElicitationAnswer, read_elicitation
from sessionwire_schemas.outcomes import canonical
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompts import Asked

__all__ = [
    "ApprovalAnswer",
    "QuestionAnswer",
    "QuestionReply",
    "ToolAnswer",
    "read_call",
    "tool_completed",
]

_SEVERAL: Final = ("multi_select", "multiple", "allow_multiple")
_OTHER: Final = ("allow_other", "other")


class CallAnswer(AnswerModel):
    """An answer that may name its call, as in the batches that the official client sends."""

    tool_call_id: str | None = None


class ToolAnswer(CallAnswer):
    """What a client's tool returned, any JSON, or why it failed."""

    result: Any = None
    error: str | None = None


class QuestionReply(AnswerModel):
    """The reply to one question of a set: labels, a text of one's own, or the name of a secret."""

    id: str
    selected: list[str] = Field(default_factory=list[str])
    other_text: str | None = None
    secret_ref: str | None = None


class QuestionAnswer(CallAnswer):
    """The replies to a set of questions, or that the user would not answer."""

    status: Literal["answered", "declined"] = "answered"
    answers: list[QuestionReply] = Field(default_factory=list[QuestionReply])


class ApprovalAnswer(CallAnswer):
    """Whether the gated tool may run. `not_approved` is what a batch says of a call it left out."""

    decision: Literal["allow", "allow_always", "reject", "reject_always", "not_approved"]


def read_call(
    asked: Asked, answer: object
) -> ToolAnswer | QuestionAnswer | ApprovalAnswer | ElicitationAnswer:
    """Read an answer to a call and check it against what was asked.

    An elicitation is answered as MCP does (`action`, `content`) or like the question it came as.

    Raises:
        AnswerError: it does not fit.
    """
    found: CallAnswer
    if asked.kind == "elicitation" and member(answer, "action") is not None:
        return read_elicitation(_form(asked), answer)
    if asked.kind in ("elicitation", "question"):
        found = read(QuestionAnswer, answer)
        faults = list(_question_faults(asked, found))
        if faults:
            raise AnswerError(faults)
    elif asked.kind == "approval":
        found = read(ApprovalAnswer, answer)
    else:
        found = read(ToolAnswer, answer)
        if found.error is None and "result" not in found.model_fields_set:
            raise refuse("needs a `result` or an `error`")
    if found.tool_call_id is not None and found.tool_call_id != asked.request_id:
        raise refuse("is not the id of this call", "/tool_call_id")
    return found


def tool_completed(
    asked: Asked, answer: ToolAnswer | QuestionAnswer | ApprovalAnswer | ElicitationAnswer
) -> dict[str, Any]:
    """Return the data of the `tool.completed` that an answer becomes."""
    failed = isinstance(answer, ToolAnswer) and answer.error is not None
    data: dict[str, Any] = {
        "tool_call_id": asked.request_id,
        # Empty, as in every completion that does not come from the agent's own server.
        "tool_name": "",
        "success": not failed,
        "status": "error" if failed else "success",
    }
    match answer:
        case ToolAnswer():
            if answer.error is not None:
                data["error"] = answer.error
            if answer.result is not None:
                data["result"] = [_text(answer.result)]
        case ApprovalAnswer():
            data["result"] = [_text({"outcome": answer.decision})]
        case QuestionAnswer():
            replies = [reply.members() for reply in answer.answers]
            data["result"] = [_text({"status": answer.status, "answers": replies})]
        case ElicitationAnswer():
            said = {"action": answer.action, "content": answer.content}
            data["result"] = [_text({n: v for n, v in said.items() if v is not None})]
    return data


def _text(value: object) -> dict[str, str]:
    return {"type": "text", "text": value if isinstance(value, str) else canonical(value)}


def _form(asked: Asked) -> object:
    arguments = asked.data.get("arguments")
    for path in ("elicitation.requested_schema", "elicitation.requestedSchema"):
        schema = member(arguments, path)
        if schema is not None:
            return schema
    return None


def _question_faults(asked: Asked, answer: QuestionAnswer) -> Iterator[Fault]:
    if answer.status == "declined":
        if answer.answers:
            yield Fault("/answers", "a declined question has none")
        return
    listed = member(asked.data, "arguments.questions")
    questions = _by_id(cast("list[object]", listed) if isinstance(listed, list) else [])
    seen: set[str] = set()
    for index, reply in enumerate(answer.answers):
        question = questions.get(reply.id)
        if reply.id in seen:
            yield Fault(pointer("answers", index, "id"), "is answered twice")
        elif question is not None:
            yield from _reply_faults(question, reply, ("answers", index))
        elif questions:
            yield Fault(pointer("answers", index, "id"), "is not a question of this prompt")
        seen.add(reply.id)
    for name, question in questions.items():
        if name not in seen and question.get("required") is not False:
            yield Fault("/answers", f"the question {name!r} has no answer")


def _by_id(questions: list[object]) -> dict[str, Mapping[str, object]]:
    found: dict[str, Mapping[str, object]] = {}
    for question in questions:
        name = member(question, "id")
        if isinstance(name, str) and isinstance(question, Mapping):
            found[name] = cast("Mapping[str, object]", question)
    return found


def _reply_faults(
    question: Mapping[str, object], reply: QuestionReply, at: tuple[str | int, ...]
) -> Iterator[Fault]:
    if not reply.selected and reply.other_text is None and reply.secret_ref is None:
        yield Fault(pointer(*at), "says nothing")
    labels = _labels(question)
    for index, label in enumerate(reply.selected):
        if labels and label not in labels:
            yield Fault(pointer(*at, "selected", index), "is none of the options")
    if len(reply.selected) > 1 and any(question.get(name) is False for name in _SEVERAL):
        yield Fault(pointer(*at, "selected"), "only one may be chosen")
    if reply.other_text is not None and any(question.get(name) is False for name in _OTHER):
        yield Fault(pointer(*at, "other_text"), "must be one of the options")


def _labels(question: Mapping[str, object]) -> set[str]:
    """Return the labels of a question's options; empty where any text will do."""
    options = question.get("options")
    if not isinstance(options, list):
        return set()
    listed = cast("list[object]", options)
    found = [option if isinstance(option, str) else member(option, "label") for option in listed]
    return {label for label in found if isinstance(label, str)}
