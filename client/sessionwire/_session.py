"""One session of a hub: followed, published to, hosted, answered and steered from one object.

Owns the tasks of prompt handlers and the streams that were opened here; both end with its `async
with`. What each of them does stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from sessionwire._choice import TransportChoice
from sessionwire._event import Event
from sessionwire._event_input import Publishable, outgoing
from sessionwire._event_stream import EventStream, OnGap
from sessionwire._follow import IDLE_TIMEOUT_S, Follow
from sessionwire._handlers import Handler, Handlers
from sessionwire._http import session_path
from sessionwire._items import Gap, Reset
from sessionwire._owned_tasks import OwnedTasks
from sessionwire._prompt import Prompt
from sessionwire._prompt_feed import PromptFeed
from sessionwire._prompts import PromptRecord
from sessionwire._prompts import prompt as look_at_prompt
from sessionwire._published import Published, in_batches, store
from sessionwire._publisher import MAX_HELD, MAX_HELD_BYTES, PATIENCE_S, Publisher
from sessionwire._receipt import Receipt, send_command
from sessionwire._session_host import SessionHost
from sessionwire._sse import MAX_EVENT_BYTES
from sessionwire._sse_transport import SSETransport
from sessionwire._transport import Start, Transport, TransportName, Wanted
from sessionwire._ws_transport import WebSocketTransport, websocket_url

if TYPE_CHECKING:
    from sessionwire._client import Client

__all__ = ["Session"]

H = TypeVar("H", bound=Handler)


class Session:
    """Made by `Client.session`; an asynchronous context manager.

    Attributes:
        client: whose it is.
        id: its id.
        catalog: `copilot` or `everruns`; empty where that was not said.
    """

    def __init__(self, client: Client, session_id: str, catalog: str) -> None:
        self.client = client
        self.id = session_id
        self.catalog = catalog
        self._handlers = Handlers(self)
        self._streams: list[Follow | PromptFeed] = []
        self._tasks: OwnedTasks | None = None

    async def __aenter__(self) -> Self:
        self.client.hold()
        tasks = OwnedTasks()
        await tasks.open()
        self._tasks = tasks
        if self._handlers:
            tasks.start(self._handlers.run)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None, "entered"
        try:
            await tasks.close(exc)
        finally:
            while self._streams:
                await self._streams.pop().aclose()
            await self.client.let_go()

    # Reading.

    @overload
    def follow(
        self,
        *,
        since: str = "",
        after_sequence: int | None = None,
        from_: str = "",
        types: Sequence[str] = (),
        exclude: Sequence[str] = (),
        agents: Sequence[str] = (),
        transport: TransportChoice = "auto",
        on_gap: Literal["raise"] = "raise",
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> EventStream[Event]: ...

    @overload
    def follow(
        self,
        *,
        since: str = "",
        after_sequence: int | None = None,
        from_: str = "",
        types: Sequence[str] = (),
        exclude: Sequence[str] = (),
        agents: Sequence[str] = (),
        transport: TransportChoice = "auto",
        on_gap: Literal["item"],
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> EventStream[Event | Gap | Reset]: ...

    def follow(
        self,
        *,
        since: str = "",
        after_sequence: int | None = None,
        from_: str = "",
        types: Sequence[str] = (),
        exclude: Sequence[str] = (),
        agents: Sequence[str] = (),
        transport: TransportChoice = "auto",
        on_gap: OnGap = "raise",
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> EventStream[Event] | EventStream[Event | Gap | Reset]:
        """Iterate over the events: every durable one after the start once and in order, for ever.

        Ends when the session is deleted. It reconnects by itself; `event.cursor` is what to give as
        `since` to go on in another process. Close it, by `async with` or by leaving the session.

        Args:
            since: a cursor, or the id of an event: begin just after it.
            after_sequence: begin just after that durable event; 0 is the whole session.
            from_: `start`, `now`, or `-N`: the last N durable events and then live. Without any of
                the three it is the hub's default, the oldest event.
            types: only these types; empty for all.
            exclude: all but these.
            agents: copilot: `primary`, or ids of agents; empty for all.
            transport: `auto` is a WebSocket, and SSE where none can be opened.
            on_gap: events that are not coming are told by `ReplayGap` or `SessionReset`, raised (to
                iterate on goes on), or by items `Gap` and `Reset`.
            idle_timeout_s: silence after which a connection is taken for dead; above the hub's
                heartbeat.
            max_retries: failures in a row that are borne; None for any number.

        Raises (while iterating):
            RequestRejected: refused for good.
            ConnectionFailed: out of reach, once too often.
            ReplayGap: see `on_gap`.
        """
        items = self.watch(
            since=since,
            after_sequence=after_sequence,
            from_=from_,
            types=types,
            exclude=exclude,
            agents=agents,
            transport=transport,
            idle_timeout_s=idle_timeout_s,
            max_retries=max_retries,
        )
        return EventStream(items, on_gap)

    def watch(
        self,
        *,
        since: str = "",
        after_sequence: int | None = None,
        from_: str = "",
        types: Sequence[str] = (),
        exclude: Sequence[str] = (),
        agents: Sequence[str] = (),
        transport: TransportChoice = "auto",
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> Follow:
        """Iterate over everything that the hub tells: events, and what happens around them.

        The items are `Event`, `Connected`, `Disconnected`, `CaughtUp`, `Gap`, `Reset`, `Snapshot`,
        `Prompts` and `Presence`. Arguments and errors are those of `follow`; gaps are items.
        """
        items = Follow(
            self._transports(idle_timeout_s),
            transport,
            start=Start(since_id=since, after_sequence=after_sequence, from_=from_),
            wanted=Wanted(types=types, exclude=exclude, agents=agents),
            max_retries=max_retries,
            connect_retries=None,
        )
        self._keep(items)
        return items

    def _transports(self, idle_timeout_s: float) -> Mapping[TransportName, Transport]:
        client = self.client
        return {
            "sse": SSETransport(
                client.http, self.id, idle_timeout_s=idle_timeout_s, max_event_bytes=MAX_EVENT_BYTES
            ),
            "websocket": WebSocketTransport(
                websocket_url(client.url),
                client.tokens,
                self.id,
                idle_timeout_s=idle_timeout_s,
                max_event_bytes=MAX_EVENT_BYTES,
                use_proxy=client.uses_proxy,
            ),
        }

    def _keep(self, stream: Follow | PromptFeed) -> None:
        """Remember what is to be closed; what was closed already is forgotten."""
        self._streams = [each for each in self._streams if not each.closed]
        self._streams.append(stream)

    async def info(self) -> dict[str, Any]:
        """Return the session as the hub shows it: status, cursor, open prompts, viewers, host … .

        Raises:
            UnknownSession: there is none.
        """
        return await self.client.api.call("GET", session_path(self.id))

    async def events(self, /, **params: str | int | Sequence[str]) -> dict[str, Any]:
        """List durable events: `{data, first_sequence, last_sequence, cursor}`.

        Args:
            params: those of protocol.md §5: `limit`, `types`, `q`, `before_sequence` … .
        """
        given = {
            name: [str(each) for each in value]
            if isinstance(value, Sequence) and not isinstance(value, str)
            else str(value)
            for name, value in params.items()
        }
        return await self.client.api.call("GET", session_path(self.id, "events"), params=given)

    async def create(self, /, **members: Any) -> dict[str, Any]:
        """Create the session if it is not there; see `Client.create_session`."""
        return await self.client.create_session(self.id, catalog=self.catalog, **members)

    async def delete(self) -> None:
        """Delete the session and all that is in it."""
        await self.client.delete_session(self.id)

    # Writing.

    @overload
    # Text is one event and no list of characters.
    async def publish(self, events: Publishable, /) -> Published: ...  # type: ignore[overload-overlap]

    @overload
    async def publish(self, events: Sequence[Publishable], /) -> list[Published]: ...

    async def publish(
        self, events: Publishable | Sequence[Publishable], /
    ) -> Published | list[Published]:
        """Store an event, or a list of them in order; tried again while the hub is away.

        Up to 256 events are stored all or none. Ids are made where there are none, so that nothing
        is stored twice.

        Returns: what became of it, or of each.

        Raises:
            RequestRejected: refused; `extra["index"]` names the event where the hub does.
            ConnectionFailed: the hub was away for five minutes.
        """
        if isinstance(events, Sequence) and not isinstance(events, str | bytes):
            return await self._publish(events)
        (stored,) = await self._publish([events])
        return stored

    async def _publish(self, events: Sequence[Publishable]) -> list[Published]:
        api, stored = self.client.api, list[Published]()
        for batch in in_batches([outgoing(each, self.catalog) for each in events]):
            stored += await store(api, self.id, batch, patience_s=PATIENCE_S)
        return stored

    def publisher(
        self,
        *,
        max_held: int = MAX_HELD,
        max_held_bytes: int = MAX_HELD_BYTES,
        patience_s: float | None = PATIENCE_S,
    ) -> Publisher:
        """Publish a stream of events: `async with session.publisher() as p: await p.send(event)`.

        What is sent meanwhile goes together. Sends again over restarts of the hub, and flushes at
        the end.

        Args:
            max_held, max_held_bytes: what may wait; `send` waits for room.
            patience_s: how long the hub may be away; None for any time.
        """
        return Publisher(
            self.client.api,
            self.id,
            self.catalog,
            max_held=max_held,
            max_held_bytes=max_held_bytes,
            patience_s=patience_s,
        )

    def host(self, *, host_id: str = "", takeover: bool = False) -> SessionHost:
        """Be the agent of the session: `async with session.host(host_id=…) as host`.

        Creates the session if it is not there.

        Args:
            host_id: the program's own name, under which it takes its lease back; empty: the key's.
            takeover: replace another host.

        Raises (on entering):
            HostConflict: there is another host.
            ConnectionFailed: the hub cannot be reached.
        """
        return SessionHost(self, host_id, takeover=takeover)

    # Answering.

    def prompts(self, *kinds: str) -> PromptFeed:
        """Iterate over prompts that wait for an answer, each once: those open now, then new ones.

        Args:
            kinds: only prompts of these kinds; none for all.
        """
        feed = PromptFeed(self, kinds)
        self._keep(feed)
        return feed

    async def prompt(self, request_id: str) -> Prompt:
        """Look at one prompt, open or closed.

        Raises:
            NotFound: there is none.
        """
        record: PromptRecord = await look_at_prompt(self.client.http, self.id, request_id)
        return Prompt(self.client.http, record)

    def on_prompt(self, kind: str) -> Callable[[H], H]:
        """Have a function answer the prompts of a kind, while the session is entered.

        It takes the `Prompt` and returns the answer, `PASS` to leave it to others. Prompts for
        programs are claimed while it runs. One that raises answers nothing, one whose prompt is
        over meanwhile is cancelled. A plain function runs in a thread.

        Raises:
            ValueError: the kind has a handler.
        """

        def register(handler: H) -> H:
            first = not self._handlers
            self._handlers.register(kind, handler)
            if first and self._tasks is not None:
                self._tasks.start(self._handlers.run)
            return handler

        return register

    def on_permission(self, handler: H) -> H:
        """Answer whether a tool may run; see `on_prompt`."""
        return self.on_prompt("permission")(handler)

    def on_user_input(self, handler: H) -> H:
        """Answer a question of the agent's; see `on_prompt`."""
        return self.on_prompt("user_input")(handler)

    def on_elicitation(self, handler: H) -> H:
        """Fill in a form; see `on_prompt`."""
        return self.on_prompt("elicitation")(handler)

    def on_sampling(self, handler: H) -> H:
        """Run a model for an MCP server; see `on_prompt`. None refuses."""
        return self.on_prompt("sampling")(handler)

    def on_exit_plan_mode(self, handler: H) -> H:
        """Answer to a plan; see `on_prompt`."""
        return self.on_prompt("exit_plan_mode")(handler)

    def on_auto_mode_switch(self, handler: H) -> H:
        """Answer whether the mode is switched; see `on_prompt`."""
        return self.on_prompt("auto_mode_switch")(handler)

    def on_session_limits_exhausted(self, handler: H) -> H:
        """Answer whether limits are raised; see `on_prompt`."""
        return self.on_prompt("session_limits_exhausted")(handler)

    def on_mcp_oauth(self, handler: H) -> H:
        """Give a token to an MCP server; see `on_prompt`."""
        return self.on_prompt("mcp_oauth")(handler)

    def on_mcp_headers(self, handler: H) -> H:
        """Give headers to an MCP server; see `on_prompt`."""
        return self.on_prompt("mcp_headers")(handler)

    def on_external_tool(self, handler: H) -> H:
        """Run a tool of a client's; see `on_prompt`."""
        return self.on_prompt("external_tool")(handler)

    def on_command(self, handler: H) -> H:
        """Run a slash command of a client's; see `on_prompt`. None says that it is done."""
        return self.on_prompt("command")(handler)

    def on_tool(self, handler: H) -> H:
        """Run a client-side tool of everruns; see `on_prompt`."""
        return self.on_prompt("tool")(handler)

    def on_question(self, handler: H) -> H:
        """Answer everruns' `ask_user`; see `on_prompt`."""
        return self.on_prompt("question")(handler)

    def on_approval(self, handler: H) -> H:
        """Answer whether an everruns tool may run; see `on_prompt`."""
        return self.on_prompt("approval")(handler)

    # Steering.

    async def command(
        self,
        command_type: str,
        data: Mapping[str, Any] | None = None,
        *,
        command_id: str = "",
        expires_in_s: float | None = None,
    ) -> Receipt:
        """Send a command to the session's host, which gets it even if it is away now.

        Args:
            command_type: as in protocol.md §9.1, or `x.…` for one of your own.
            command_id: an id of your own; the same id twice is one command.
            expires_in_s: ends it if no host has read it until then.

        Returns: its receipt, for `await receipt.delivered()` and `await receipt.consumed()`.

        Raises:
            Conflict: the session takes no commands.
        """
        return await send_command(
            self.client.api,
            self.id,
            command_type,
            data or {},
            command_id=command_id,
            expires_in_s=expires_in_s,
        )

    async def send(
        self,
        text: str,
        *,
        now: bool = False,
        attachments: Sequence[Mapping[str, Any]] = (),
        display_prompt: str = "",
        expires_in_s: float | None = None,
    ) -> Receipt:
        """Say something to the agent.

        Args:
            now: into the turn that is running, rather than after it.
            attachments: what goes with it.
            display_prompt: what people are shown in its place.
        """
        data: dict[str, Any] = {"prompt": text, "mode": "immediate" if now else "enqueue"}
        if attachments:
            data["attachments"] = [dict(each) for each in attachments]
        if display_prompt:
            data["display_prompt"] = display_prompt
        return await self.command("message.send", data, expires_in_s=expires_in_s)

    async def abort(self, reason: str = "") -> Receipt:
        """Have the agent stop what it is doing."""
        return await self.command("abort", {"reason": reason} if reason else {})

    async def set_mode(self, mode: str, **members: Any) -> Receipt:
        """Have the agent change its mode."""
        return await self.command("mode.set", {"mode": mode, **members})

    async def set_model(self, model: str, **members: Any) -> Receipt:
        """Have the agent change its model."""
        return await self.command("model.set", {"model": model, **members})

    async def clear_queue(self) -> Receipt:
        """Have the agent forget the messages that wait for it."""
        return await self.command("queue.clear")
