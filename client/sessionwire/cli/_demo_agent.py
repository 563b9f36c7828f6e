"""The demo's agent: tells a story in time, waits for answers, and obeys as the session's host.

Publishes in batches as an agent's SDK would. Every command is acknowledged once it has been obeyed,
with the event that it led to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sessionwire._event_reader import ReadEvent
from sessionwire._host import Command, Host, host
from sessionwire._http import HubAddress, async_client, client
from sessionwire._publish import Publisher, batches

if TYPE_CHECKING:
    from sessionwire_server.workload import Paced, Question, Reply, SimulatedAgent, Telling

__all__ = ["Agent", "Heard"]

BATCH_S: Final = 0.03
"""What is due within this goes in one request."""

PATIENCE_S: Final = 5.0
"""The hub is in this very process: if it is away for longer, it does not come back."""

WAITING: Final = 16
"""Commands that have come and are not obeyed yet; more wait at the hub."""

Heard = Callable[[Command, str], None]
"""Is told of each command and of what became of it, in words."""


class _Aborted(Exception):
    """Somebody has the agent stop."""

    def __init__(self, command: Command) -> None:
        super().__init__(command.id)
        self.command = command


class Agent:
    """Publishes one session, and is its host.

    Attributes:
        published: how many events the hub has taken so far.
        ephemeral: how many of them are told once and not kept.
    """

    def __init__(
        self,
        address: HubAddress,
        session: str,
        story: SimulatedAgent,
        *,
        speed: float = 1.0,
        asks: Callable[[Question], None],
        heard: Heard,
    ) -> None:
        """Take what is published and who is told.

        Args:
            address: the hub.
            session: the session, which exists.
            story: what happens in it.
            speed: how many times as fast as its pauses say.
            asks: is told of each question that waits for an answer.
            heard: see `Heard`.
        """
        self.published = 0
        self.ephemeral = 0
        self._address = address
        self._session = session
        self._story = story
        self._speed = speed
        self._asks = asks
        self._heard = heard
        self._ended = False
        self._moved = anyio.Event()
        self._pending: list[Paced] = []
        self._start = self._due_s = 0.0
        self._unanswered: list[str] = []
        self._publisher: Publisher
        self._host: Host
        self._commands: MemoryObjectReceiveStream[Command]

    async def run(self, lingers_s: float = 0.0) -> None:
        """Tell the whole story.

        Args:
            lingers_s: how long it stays for messages when it is done.

        Raises:
            HubError: the hub does not take it.
        """
        sent, self._commands = anyio.create_memory_object_stream[Command](WAITING)
        async with async_client(self._address) as http:
            with client(self._address) as publishing, self._commands:
                self._publisher = Publisher(publishing, self._session, patience_s=PATIENCE_S)
                async with (
                    host(http, self._session, host_id="demo") as self._host,
                    anyio.create_task_group() as tasks,
                ):
                    tasks.start_soon(_listen, self._host, sent)
                    await self._work(lingers_s)
                    tasks.cancel_scope.cancel()
        self._ended = True
        self._tell_moved()

    async def reached(self, count: int) -> None:
        """Wait until so many events are published, or there are no more."""
        while self.published < count and not self._ended:
            await self._moved.wait()

    async def _work(self, lingers_s: float) -> None:
        self._restart_clock()
        telling = self._story.whole()
        try:
            await self._play(telling)
        except _Aborted as aborted:
            telling.close()
            await self._drop_everything(aborted.command)
        await self._linger(lingers_s)
        await self._publish([self._story.ends()])
        await self._flush()

    async def _play(self, telling: Telling) -> None:
        """Tell a story to its end, obeying between its steps.

        Raises:
            _Aborted: somebody stopped it.
        """
        from sessionwire_server.workload import Question

        reply: Reply | None = None
        while True:
            try:
                step = telling.send(reply)
            except StopIteration:
                return
            reply = None
            if isinstance(step, Question):
                await self._publish([step.opener])
                await self._flush()
                reply = await self._answered(step)
            else:
                await self._publish([step])
                await self._obey_waiting()
                if step.type == "assistant.turn_end" and "agentId" not in step.event:
                    await self._reply_to_messages()

    async def _answered(self, question: Question) -> Reply:
        """Wait for the answer, obeying what else comes."""
        from sessionwire_server.workload import Reply

        self._asks(question)
        since = anyio.current_time()
        while True:
            command = await self._commands.receive()
            data = command.data
            if command.type == "prompt.answer" and data.get("request_id") == question.request_id:
                await self._acknowledge(command, f"{_who(data)} answered it")
                waited_ms = int((anyio.current_time() - since) * 1000)
                self._restart_clock()
                return Reply(data.get("answer"), waited_ms)
            await self._obey(command)

    async def _obey_waiting(self) -> None:
        while True:
            try:
                command = self._commands.receive_nowait()
            except anyio.WouldBlock:
                return
            await self._obey(command)

    async def _obey(self, command: Command) -> None:
        match command.type:
            case "message.send":
                text = str(command.data.get("prompt"))
                steers = command.data.get("mode") == "immediate"
                event_id = await self._message(text, "steering" if steers else "queued")
                self._unanswered.append(text)
                await self._acknowledge(command, "the agent has it", event_id)
            case "abort":
                raise _Aborted(command)
            case "prompt.answer":
                await self._reject(command, "nothing waits for this answer")
            case other:
                await self._reject(command, f"this agent knows no {other}")

    async def _message(self, text: str, delivery: str) -> str:
        events = list(self._story.told(text, delivery))
        await self._publish(events)
        await self._flush()
        return next(str(one.event["id"]) for one in events if one.type == "user.message")

    async def _reply_to_messages(self) -> None:
        from sessionwire_server.workload import Question

        while self._unanswered:
            told = self._story.replies(self._unanswered.pop(0))
            await self._publish(step for step in told if not isinstance(step, Question))

    async def _drop_everything(self, command: Command) -> None:
        self._unanswered.clear()
        events = list(self._story.aborts())
        await self._publish(events)
        await self._flush()
        await self._acknowledge(command, "the agent has stopped", str(events[0].event["id"]))

    async def _linger(self, quiet_s: float) -> None:
        """Stay idle for messages until none has come for so long."""
        await self._flush()
        while quiet_s:
            command: Command | None = None
            with anyio.move_on_after(quiet_s):
                command = await self._commands.receive()
            if command is None:
                return
            self._restart_clock()
            try:
                await self._obey(command)
                await self._reply_to_messages()
                await self._publish(self._story.idle_again())
            except _Aborted as aborted:
                await self._acknowledge(aborted.command, "the agent was idle")
            await self._flush()

    def _restart_clock(self) -> None:
        self._start, self._due_s = anyio.current_time(), 0.0

    async def _publish(self, events: Iterable[Paced]) -> None:
        """Publish events when they are due, together with those of the same moment."""
        for paced in events:
            self._due_s += paced.pause_ms / 1000 / self._speed
            if self._start + self._due_s - anyio.current_time() > BATCH_S:
                await self._flush()
                await anyio.sleep_until(self._start + self._due_s)
            self._pending.append(paced)

    async def _flush(self) -> None:
        sent, self._pending = self._pending, []
        events = [ReadEvent(json.dumps(paced.event), paced.event, 0) for paced in sent]
        for batch in batches(events, "copilot"):
            await anyio.to_thread.run_sync(self._publisher.send, batch)
        self.published += len(sent)
        self.ephemeral += sum(paced.ephemeral for paced in sent)
        self._tell_moved()

    def _tell_moved(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def _acknowledge(self, command: Command, became: str, event_id: str = "") -> None:
        await self._host.acknowledge(command, event_id=event_id or None)
        self._heard(command, f"consumed, {became}")

    async def _reject(self, command: Command, why: str) -> None:
        await self._host.acknowledge(command, "rejected", detail=why)
        self._heard(command, f"rejected, {why}")


async def _listen(commands: Host, sent: MemoryObjectSendStream[Command]) -> None:
    """Hand on every command; the hub keeps those that there is no room for."""
    async with sent:
        async for command in commands:
            await sent.send(command)


def _who(data: Mapping[str, Any]) -> str:
    by = data.get("answered_by")
    name = cast("Mapping[str, Any]", by).get("name") if isinstance(by, Mapping) else None
    return str(name or "somebody")
