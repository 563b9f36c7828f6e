"""Being the agent of a session: its commands, its questions, its lease (protocol.md §8 and §9).

Owns the task that reads the commands, so that the host stays attached while the program is busy,
and hands each to who waits for it. Answers to questions go to those who asked; they never stand
among the commands, where a program that does not know them might refuse them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import anyio

from sessionwire._api import insist
from sessionwire._asking import Answer, Asking, opened, with_request_id
from sessionwire._event_input import Outgoing, Publishable, outgoing
from sessionwire._host import Command, Host
from sessionwire._owned_tasks import OwnedTasks
from sessionwire._published import store
from sessionwire.errors import HubError, SessionDeleted, UnknownSession
from sessionwire_schemas.catalog import CatalogName, detect

if TYPE_CHECKING:
    from sessionwire._session import Session

__all__ = ["Commands", "SessionHost"]

logger = logging.getLogger(__name__)

MAX_HELD: Final = 1_000
"""Commands, and answers that nobody has asked for yet, that are held: as many as a hub lets wait.
With more commands no further ones are read; of the answers the oldest come again with the next
attach."""

ANSWER: Final = "prompt.answer"


class Commands:
    """An iterator over commands. A wait that is cancelled loses none."""

    def __init__(self, host: SessionHost, *, answers: bool) -> None:
        self._host = host
        self._answers = answers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Command:
        command = await self._host.take(answers=self._answers)
        if command is None:
            raise StopAsyncIteration
        return command

    async def aclose(self) -> None:
        """Do nothing: the host reads on."""


class SessionHost:
    """Made by `Session.host`; an asynchronous context manager.

    If another host takes the session over, the body is cancelled and `LeaseLost` comes out of it.
    """

    def __init__(self, session: Session, host_id: str, *, takeover: bool) -> None:
        self._session = session
        self._host_id = host_id
        self._takeover = takeover
        self._host: Host | None = None
        self._tasks = OwnedTasks()
        self._commands: deque[Command] = deque()
        self._unasked: dict[str, Command] = {}
        self._askings: dict[str, Asking] = {}
        self._changed = anyio.Event()
        self._ended = False

    @property
    def lease(self) -> int:
        """The fencing number: it grows each time that somebody becomes the host."""
        return 0 if self._host is None else self._host.lease

    async def __aenter__(self) -> Self:
        self._host = await self._attached()
        await self._tasks.open()
        self._tasks.start(self._read, self._host)
        return self

    async def _attached(self) -> Host:
        host = self._made()
        try:
            await host.attach()
        except UnknownSession:
            await self._session.create()
            host = self._made()
            await host.attach()
        return host

    def _made(self) -> Host:
        http = self._session.client.http
        return Host(http, self._session.id, self._host_id, takeover=self._takeover)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._host is not None, "entered"
        try:
            await self._tasks.close(exc)
        finally:
            await self._host.__aexit__(exc_type, exc, traceback)

    def commands(self, *, answers: bool = False) -> Commands:
        """Iterate over what is sent to the host, in order, until the session is deleted.

        Each is to be acknowledged, with `acknowledge`: until then it comes again to whoever becomes
        the host next.

        Args:
            answers: answers that no `ask` waits for, too: they have the type `prompt.answer`.
        """
        return Commands(self, answers=answers)

    async def take(self, *, answers: bool) -> Command | None:
        """Wait for the next command and take it; None when none will ever come."""
        while True:
            if answers and self._unasked:
                return self._unasked.pop(next(iter(self._unasked)))
            if self._commands:
                command = self._commands.popleft()
                self._tell()
                return command
            if self._ended:
                return None
            await self._changed.wait()

    async def acknowledge(
        self,
        command: Command,
        outcome: Literal["consumed", "rejected"] = "consumed",
        *,
        detail: str | None = None,
        event_id: str | None = None,
    ) -> None:
        """Say what became of a command; tried again while the hub is away.

        Args:
            outcome: whether it was obeyed.
            detail: why not, for people.
            event_id: the event that it led to.

        Raises:
            LeaseLost: another host has taken the session over.
            Conflict: it was acknowledged otherwise.
        """
        assert self._host is not None, "entered"
        await self._host.acknowledge(command, outcome, detail=detail, event_id=event_id)

    async def ask(self, event: Publishable, *, acknowledge: bool = True) -> Answer:
        """Publish a question and wait for its answer, over restarts of hub and program.

        With the same ids again, after a restart of the program, nothing is asked anew: the answer
        is found wherever it is by then.

        Args:
            event: an event that opens one prompt, `permission.requested` for one.
            acknowledge: tell the hub that the answer was taken. Without it the command comes again
                after a restart, until the program acknowledges `answer.command`.

        Raises:
            PromptEnded: it ended without an answer: expired, aborted … ; `state` says how.
            HubError: the event was refused.
            ValueError: it opens no prompt, or several.
        """
        ready, request_ids = await self._prepared(event)
        if len(request_ids) > 1:
            raise ValueError(f"{ready.members.get('type')!r} asks {len(request_ids)} questions")
        (answer,) = await self._asked(ready, request_ids, acknowledge=acknowledge)
        return answer

    async def ask_all(self, event: Publishable, *, acknowledge: bool = True) -> list[Answer]:
        """Do the same with an event that opens several prompts, as everruns' tool calls.

        Returns: the answers, in the order of the questions.
        """
        ready, request_ids = await self._prepared(event)
        return await self._asked(ready, request_ids, acknowledge=acknowledge)

    async def _prepared(self, event: Publishable) -> tuple[Outgoing, list[str]]:
        if isinstance(event, Mapping):
            event = with_request_id(event)
        ready = outgoing(event, self._session.catalog)
        return ready, opened(await self._catalog(ready.members), ready.members)

    async def _catalog(self, members: Mapping[str, Any]) -> CatalogName:
        found = detect(members) or self._session.catalog
        if not found:
            found = str((await insist(self._session.info, patience_s=60)).get("catalog"))
        return "everruns" if found == "everruns" else "copilot"

    async def _asked(
        self, ready: Outgoing, request_ids: Sequence[str], *, acknowledge: bool
    ) -> list[Answer]:
        session = self._session
        askings = [Asking(session.client.http, session.id, each) for each in request_ids]
        for asking in askings:
            self._askings[asking.request_id] = asking
        try:
            await store(session.client.api, session.id, [ready], patience_s=None)
            if self._ended:
                raise SessionDeleted(410, "session_deleted", "the session was deleted")
            for asking in askings:
                # It may have come before anybody asked: to a program that begins anew.
                if (command := self._unasked.pop(asking.request_id, None)) is not None:
                    asking.answer(Answer.of_command(command))
            answers = [await asking.outcome() for asking in askings]
        finally:
            for asking in askings:
                self._askings.pop(asking.request_id, None)
        if acknowledge:
            for answer in answers:
                await self._taken(answer)
        return answers

    async def _taken(self, answer: Answer) -> None:
        if answer.command is None:
            return
        try:
            await self.acknowledge(answer.command)
        except HubError as error:
            # The answer is here all the same; unacknowledged it comes once more, to no harm.
            logger.warning("the answer to %r was not acknowledged: %s", answer.request_id, error)

    async def _read(self, host: Host) -> None:
        async for command in host:
            if command.type == ANSWER:
                self._answered(command)
            else:
                while len(self._commands) >= MAX_HELD:
                    await self._changed.wait()
                self._commands.append(command)
            self._tell()
        self._ended = True
        for asking in list(self._askings.values()):
            asking.fail(SessionDeleted(410, "session_deleted", "the session was deleted"))
        self._tell()

    def _answered(self, command: Command) -> None:
        request_id = str(command.data.get("request_id"))
        asking = self._askings.get(request_id)
        if asking is not None:
            asking.answer(Answer.of_command(command))
            return
        self._unasked[request_id] = command
        if len(self._unasked) > MAX_HELD:
            del self._unasked[next(iter(self._unasked))]

    def _tell(self) -> None:
        """Wake everybody who waits for a change; each looks for itself."""
        self._changed.set()
        self._changed = anyio.Event()
