"""An agent's question on its way: what it opens, and how it comes to an answer (protocol.md §8).

The answer arrives as a command, which is kept for the host until it is acknowledged; how the prompt
ended otherwise stands in its record, which is asked for meanwhile.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio
import httpx2

from sessionwire import _prompts
from sessionwire._api import insist
from sessionwire._host import Command
from sessionwire._prompts import PromptRecord
from sessionwire.errors import Forbidden, HubError, PromptEnded
from sessionwire_schemas.catalog import CATALOGS, CatalogName
from sessionwire_schemas.prompts import effects

__all__ = ["Answer", "Asking", "opened", "with_request_id"]

WAIT_S: Final = 20
"""One long poll of the record."""

GRACE_S: Final = 5.0
"""How long the command is waited for once the record has the answer."""

PAUSE_S: Final = 1.0
"""The least between two looks at a record that has not changed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to an agent's question.

    Attributes:
        request_id: the prompt's id.
        kind: what was asked.
        value: the answer, in the vocabulary of its kind (protocol.md §8.1).
        comment: a remark of the answerer's.
        answered_by: `name` and `human` of who answered.
        answered_at: when, RFC 3339.
        command: what brought it; None where it was found in the prompt's record, because it had
            been acknowledged before.
    """

    request_id: str
    kind: str
    value: Any
    comment: str = ""
    answered_by: Mapping[str, Any] | None = None
    answered_at: str = ""
    command: Command | None = None

    @classmethod
    def of_command(cls, command: Command) -> Answer:
        """Read a command of the type `prompt.answer`."""
        data = command.data
        by = data.get("answered_by")
        return cls(
            request_id=str(data.get("request_id")),
            kind=str(data.get("kind") or ""),
            value=data.get("answer"),
            comment=str(data.get("comment") or ""),
            answered_by=cast("Mapping[str, Any]", by) if isinstance(by, Mapping) else None,
            answered_at=str(data.get("answered_at") or ""),
            command=command,
        )

    @classmethod
    def of_record(cls, record: PromptRecord) -> Answer:
        """Read the record of a prompt that was answered."""
        return cls(
            request_id=record.request_id,
            kind=record.kind,
            value=record.answer,
            comment=str(record.members.get("comment") or ""),
            answered_by=record.answered_by,
            answered_at=record.answered_at or "",
        )


def with_request_id(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a copilot opener a request id where it has none; anything else stays as it is."""
    data = event.get("data")
    if not isinstance(data, Mapping) or "requestId" in data or "tool_calls" in data:
        return event
    known = cast("Mapping[str, Any]", data)
    return {**event, "data": {"requestId": str(uuid.uuid4()), **known}}


def opened(catalog: CatalogName, event: Mapping[str, Any]) -> list[str]:
    """Return the request ids of the prompts that an event opens.

    Raises:
        ValueError: it opens none, or one that is decided already.
    """
    found = effects(CATALOGS[catalog], event).opens
    if not found or any(opening.settled for opening in found):
        raise ValueError(f"{event.get('type')!r} asks nothing that could be answered")
    return [opening.request_id for opening in found]


class Asking:
    """One prompt that is waited for."""

    def __init__(self, http: httpx2.AsyncClient, session_id: str, request_id: str) -> None:
        self.request_id = request_id
        self._http = http
        self._session_id = session_id
        self._settled = anyio.Event()
        self._answer: Answer | None = None
        self._error: HubError | None = None

    def answer(self, answer: Answer) -> None:
        """Settle it with an answer; the first outcome stands."""
        if not self._settled.is_set():
            self._answer = answer
            self._settled.set()

    def fail(self, error: HubError) -> None:
        """Settle it without one; the first outcome stands."""
        if not self._settled.is_set():
            self._error = error
            self._settled.set()

    async def outcome(self) -> Answer:
        """Wait for the answer, over restarts of the hub.

        Raises:
            PromptEnded: it ended without one.
            HubError: the session is gone, or refuses.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look)
            await self._settled.wait()
            tasks.cancel_scope.cancel()
        if self._error is not None:
            raise self._error
        assert self._answer is not None, "settled without an error"
        return self._answer

    async def _look(self) -> None:
        """Watch the record until it is closed."""
        try:
            record = await self._closed()
        except Forbidden:
            return  # a key that may not read: the answer comes as a command all the same
        except HubError as error:
            self.fail(error)
            return
        by = record.answered_by or {}
        if record.status != "completed" or not by or by.get("host") is True:
            self.fail(PromptEnded(self.request_id, record.status, record.members))
            return
        await anyio.sleep(GRACE_S)
        if record.members.get("secret") is True:
            # The record does not have it, and the command that had it is acknowledged.
            self.fail(PromptEnded(self.request_id, record.status, record.members))
        else:
            self.answer(Answer.of_record(record))

    async def _closed(self) -> PromptRecord:
        async def attempt() -> PromptRecord:
            return await _prompts.prompt(
                self._http, self._session_id, self.request_id, wait_s=WAIT_S
            )

        while True:
            asked_at = anyio.current_time()
            record = await insist(attempt, patience_s=None)
            if not record.is_open:
                return record
            await anyio.sleep(max(0.0, asked_at + PAUSE_S - anyio.current_time()))
