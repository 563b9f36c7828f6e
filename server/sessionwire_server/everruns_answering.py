"""Answers as everruns' clients send them, several at once (protocol.md §4.8, §8).

Owns which prompts a body means and in what words it is refused; the prompt store decides. Every
body is taken whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sessionwire_schemas.catalog import EVERRUNS
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompt import Answerer
from sessionwire_schemas.prompts import asked
from sessionwire_server.errors import HubError
from sessionwire_server.everruns_bodies import QuestionAnswers, ToolApprovals, ToolResults
from sessionwire_server.prompt_kept import Kept, OpenPrompts, Said
from sessionwire_server.prompt_store import PromptStore

__all__ = ["Answering"]

WAITING: Final = "waitingfortoolresults"

_QUESTIONS: Final = frozenset({"question", "elicitation"})


class Answering:
    """One request's answers to prompts of one session."""

    def __init__(
        self, prompts: PromptStore, sid: str, status: str, by: Answerer, *, secrets: bool
    ) -> None:
        self._prompts = prompts
        self._sid = sid
        self._status = status
        self._by = by
        self._secrets = secrets

    async def tool_results(self, body: ToolResults) -> dict[str, Any]:
        """Take what a client's tools returned.

        Raises:
            HubError: 400 `invalid_answer`; 404 `prompt_not_found`; 409 `not_waiting`,
                `prompt_already_answered`, `prompt_claimed`, or as the prompt ended.
        """
        _check_once([result.tool_call_id for result in body.tool_results])
        said = [
            Said(
                result.tool_call_id,
                {"error": result.error} if result.error is not None else {"result": result.result},
            )
            for result in body.tool_results
        ]
        await self._answer(said)
        return {"accepted": len(said), "status": await self._status_after()}

    async def questions(self, body: QuestionAnswers) -> dict[str, Any]:
        """Take the answers to a set of questions: the one that is named, else the newest.

        Raises:
            HubError: as `tool_results`.
        """
        request_id = body.tool_call_id
        if request_id is None:
            state = await self._waiting()
            asking = [one for one in state.kept if one.prompt.opening.kind in _QUESTIONS]
            if not asking:
                raise HubError(404, "prompt_not_found", "no question waits for an answer")
            request_id = _batch_of(asking, asking[-1])[0].prompt.request_id
        answer = {"status": body.status, "answers": body.answers}
        await self._answer([Said(request_id, answer)])
        return {
            "status": body.status,
            "answered_by": "user",
            "session_status": await self._status_after(),
        }

    async def approvals(self, body: ToolApprovals) -> dict[str, Any]:
        """Take decisions; a gated call of the same batch that is left out is not approved.

        Raises:
            HubError: as `tool_results`.
        """
        decisions = {one.tool_call_id: str(one.decision) for one in body.decisions}
        _check_once([one.tool_call_id for one in body.decisions])
        state = await self._prompts.open(self._sid)
        gates = [one for one in state.kept if one.prompt.opening.kind == "approval"]
        pending = {one.prompt.request_id: one for one in gates}
        settled: dict[str, Kept] = {}
        for name in decisions:
            if name in pending:
                settled |= {one.prompt.request_id: one for one in _batch_of(gates, pending[name])}
        outcomes = {
            name: "expired"
            if name not in decisions and one.prompt.is_due(state.now_ms)
            else decisions.get(name, "not_approved")
            for name, one in settled.items()
        }
        named = {name: decisions[name] for name in decisions if name not in outcomes}
        said = [
            Said(name, {"decision": outcome})
            for name, outcome in (outcomes | named).items()
            if outcome != "expired"
        ]
        await self._answer(said)
        resolved = [
            {"tool_call_id": name, "tool": _gated_tool(settled[name]), "outcome": outcome}
            for name, outcome in outcomes.items()
        ]
        return {"resolved": resolved, "status": await self._status_after()}

    async def _waiting(self) -> OpenPrompts:
        """Read the open prompts; what clients of that server expect where there is none."""
        state = await self._prompts.open(self._sid)
        if not any(one.prompt.state == "pending" for one in state.kept):
            raise self._not_waiting()
        return state

    def _not_waiting(self) -> HubError:
        # The official client tries again while it reads this phrase: its answer may have
        # overtaken the event that says what is asked.
        detail = f"Session is not waiting for tool results (current status: {self._status})"
        return HubError(409, "not_waiting", detail)

    async def _answer(self, said: Sequence[Said]) -> None:
        try:
            await self._prompts.answer(self._sid, said, self._by, secrets=self._secrets)
        except HubError as error:
            if error.code == "prompt_not_found":
                await self._waiting()
            raise _as_everruns(error) from error

    async def _status_after(self) -> str:
        state = await self._prompts.open(self._sid)
        return WAITING if any(one.prompt.state == "pending" for one in state.kept) else "active"


def _check_once(names: Sequence[str]) -> None:
    twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
    if twice is not None:
        raise HubError(400, "invalid_body", f"tool call {twice[:80]!r} is answered twice")


def _batch_of(kept: Sequence[Kept], one: Kept) -> list[Kept]:
    """Give those that the same event opened."""
    return [other for other in kept if other.prompt.place == one.prompt.place]


def _gated_tool(kept: Kept) -> str:
    if kept.opener is not None:
        call = asked(EVERRUNS, msgspec.json.decode(kept.opener.body), kept.prompt.request_id)
        tool = None if call is None else member(call.data, "arguments.tool")
        if isinstance(tool, str):
            return tool
    return ""


def _as_everruns(error: HubError) -> HubError:
    """Give an error the status that this server's clients know; its code stays."""
    status = {410: 409, 422: 400}.get(error.status, error.status)
    if error.code == "session_deleted":
        return error
    return HubError(status, error.code, error.detail, headers=error.headers, **error.extra)
