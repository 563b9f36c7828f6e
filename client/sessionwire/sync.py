"""The client for programs without an event loop: the same objects, whose calls block.

Thin: every call is made on the asynchronous object, in the event loop of one thread that a `Client`
has for as long as its `with` lasts. Nothing is done twice and nothing is decided here. Errors are
the same ones. What may block for long takes `timeout_s` and raises `TimeoutError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from sessionwire import _client, _event_stream, _follow, _prompt, _prompt_feed, _publisher
from sessionwire import _receipt as _receipts
from sessionwire import _session as _sessions
from sessionwire import _session_host as _hosts
from sessionwire._asking import Answer
from sessionwire._auth import Token
from sessionwire._choice import TransportChoice
from sessionwire._event import Event
from sessionwire._event_input import Publishable
from sessionwire._host import Command
from sessionwire._items import Gap, Item, Reset
from sessionwire._prompts import PromptRecord
from sessionwire._published import Published

__all__ = [
    "Client",
    "EventStream",
    "Prompt",
    "Publisher",
    "Receipt",
    "Sent",
    "Session",
    "SessionHost",
]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
F = TypeVar("F", bound="Callable[[Prompt], Any]")

_END: Final = object()


class _Face(Generic[A]):
    """An asynchronous object, and the thread whose event loop it lives in."""

    def __init__(self, portal: BlockingPortal, target: A) -> None:
        self._portal = portal
        self._target = target

    def _call(self, call: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        async def bounded() -> T:
            with anyio.fail_after(timeout_s):
                return await call()

        return self._portal.call(bounded)


class _Blocking(Generic[A, P, T]):
    """A method whose asynchronous original is called and waited for."""

    def __init__(self, method: Callable[Concatenate[A, P], Awaitable[T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, face: _Face[A], owner: object = None) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return face._call(  # pyright: ignore[reportPrivateUsage] - of this module
                partial(self._method, face._target, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]
            )

        return call


class _Items(_Face[A], Generic[A, T]):
    """An iterator over what an asynchronous one gives; a context manager that closes it."""

    def __init__(self, portal: BlockingPortal, target: A, items: AsyncIterator[T]) -> None:
        super().__init__(portal, target)
        self._items = items

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self.get()

    def get(self, timeout_s: float | None = None) -> T:
        """Wait for the next one; a wait that ends loses nothing.

        Raises:
            TimeoutError: none came in time.
            StopIteration: none will ever come.
        """
        found = self._call(self._step, timeout_s)
        if found is _END:
            raise StopIteration
        return cast("T", found)

    async def _step(self) -> T | object:
        try:
            return await anext(self._items)
        except StopAsyncIteration:
            return _END

    def close(self) -> None:
        """Close the connection and end the iteration."""
        target: Any = self._target
        self._call(target.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class EventStream(_Items["_event_stream.EventStream[T]", T]):
    """The events of a session; see `sessionwire.EventStream`."""

    @property
    def cursor(self) -> str:
        """The place just after what was handed over."""
        return self._target.cursor

    @property
    def transport(self) -> str:
        """What the connection, or the next attempt, goes over."""
        return self._target.transport

    switch = _Blocking(_event_stream.EventStream[Any].switch)


class _Managed(_Face[A]):
    """An asynchronous context manager as a plain one."""

    def __enter__(self) -> Self:
        target: Any = self._target
        self._manager: AbstractContextManager[Any] = self._portal.wrap_async_context_manager(target)
        self._manager.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._manager.__exit__(exc_type, exc, traceback)


class Sent(_Face[_publisher.Sent]):
    """One event that was given to a publisher; see `sessionwire.Sent`."""

    @property
    def id(self) -> str:
        """The event's id."""
        return self._target.id

    def stored(self, timeout_s: float | None = None) -> Published:
        """Wait until it is stored."""
        return self._call(self._target.stored, timeout_s)


class Publisher(_Managed[_publisher.Publisher]):
    """A stream of events; see `sessionwire.Publisher`."""

    @property
    def stored(self) -> int:
        """Events stored so far."""
        return self._target.stored

    @property
    def duplicates(self) -> int:
        """Events that were there before."""
        return self._target.duplicates

    @property
    def refused(self) -> int:
        """Events that the hub refused."""
        return self._target.refused

    def send(self, event: Publishable) -> Sent:
        """Give it an event; blocks while there is no room for it."""
        return Sent(self._portal, self._call(partial(self._target.send, event)))

    flush = _Blocking(_publisher.Publisher.flush)


class Receipt(_Face[_receipts.Receipt]):
    """A command that the hub has taken; see `sessionwire.Receipt`."""

    @property
    def id(self) -> str:
        """The command's id."""
        return self._target.id

    @property
    def status(self) -> str:
        """Its status as last heard."""
        return self._target.status

    @property
    def raw(self) -> Mapping[str, Any]:
        """What the hub said of it last."""
        return self._target.raw

    @property
    def detail(self) -> str:
        """The host's words."""
        return self._target.detail

    @property
    def event_id(self) -> str:
        """The event that the command led to."""
        return self._target.event_id

    def refresh(self, *, wait_s: int = 0) -> Self:
        """Ask what has become of it."""
        self._call(partial(self._target.refresh, wait_s=wait_s))
        return self

    def delivered(self, timeout_s: float | None = None) -> Self:
        """Wait until a host has it."""
        self._call(self._target.delivered, timeout_s)
        return self

    def consumed(self, timeout_s: float | None = None) -> Self:
        """Wait until the host has obeyed it."""
        self._call(self._target.consumed, timeout_s)
        return self


class Prompt(_Face[_prompt.Prompt]):
    """A question that an agent waits on; see `sessionwire.Prompt`."""

    @property
    def record(self) -> PromptRecord:
        """It as the hub showed it last."""
        return self._target.record

    @property
    def request_id(self) -> str:
        """Names it within its session."""
        return self._target.request_id

    @property
    def kind(self) -> str:
        """What is asked."""
        return self._target.kind

    @property
    def claimable(self) -> bool:
        """Whether it is for a program."""
        return self._target.claimable

    @property
    def event(self) -> Event | None:
        """The event that opened it."""
        return self._target.event

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked, as raw members."""
        return self._target.asked

    answer = _Blocking(_prompt.Prompt.answer)
    say = _Blocking(_prompt.Prompt.say)
    approve = _Blocking(_prompt.Prompt.approve)
    reject = _Blocking(_prompt.Prompt.reject)
    refresh = _Blocking(_prompt.Prompt.refresh)

    def claim(self, *, lease_s: float = _prompt.LEASE_S) -> AbstractContextManager[None]:
        """Take it for as long as the block lasts."""
        return self._portal.wrap_async_context_manager(self._target.claim(lease_s=lease_s))

    def closed(self, timeout_s: float | None = None) -> PromptRecord:
        """Wait until it is answered and done with, or has ended."""
        return self._call(self._target.closed, timeout_s)


class _PromptFeed(_Items[_prompt_feed.PromptFeed, Prompt]):
    """Prompts one by one."""


class SessionHost(_Managed[_hosts.SessionHost]):
    """The agent of a session; see `sessionwire.SessionHost`."""

    @property
    def lease(self) -> int:
        """The fencing number."""
        return self._target.lease

    def commands(self, *, answers: bool = False) -> _Items[_hosts.Commands, Command]:
        """Iterate over what is sent to the host."""
        items = self._target.commands(answers=answers)
        return _Items(self._portal, items, items)

    acknowledge = _Blocking(_hosts.SessionHost.acknowledge)

    def ask(
        self, event: Publishable, *, acknowledge: bool = True, timeout_s: float | None = None
    ) -> Answer:
        """Publish a question and wait for its answer."""
        return self._call(partial(self._target.ask, event, acknowledge=acknowledge), timeout_s)

    def ask_all(
        self, event: Publishable, *, acknowledge: bool = True, timeout_s: float | None = None
    ) -> list[Answer]:
        """Do the same with an event that opens several prompts."""
        return self._call(partial(self._target.ask_all, event, acknowledge=acknowledge), timeout_s)


class _Registration(Protocol):
    """Takes a handler and gives it back."""

    def __call__(self, handler: F, /) -> F: ...


class _On:
    """The decorator for one kind of prompt."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, session: Session, owner: object = None) -> _Registration:
        return session.on_prompt(self._kind)


class Session(_Managed[_sessions.Session]):
    """One session of a hub; see `sessionwire.Session`."""

    @property
    def id(self) -> str:
        """Its id."""
        return self._target.id

    info = _Blocking(_sessions.Session.info)
    events = _Blocking(_sessions.Session.events)
    create = _Blocking(_sessions.Session.create)
    delete = _Blocking(_sessions.Session.delete)

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
        idle_timeout_s: float = _follow.IDLE_TIMEOUT_S,
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
        idle_timeout_s: float = _follow.IDLE_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> EventStream[Event | Gap | Reset]: ...

    def follow(self, **given: Any) -> EventStream[Any]:
        """Iterate over the events; see `sessionwire.Session.follow`."""
        stream: _event_stream.EventStream[Any] = self._in_loop(self._target.follow, given)
        return EventStream(self._portal, stream, stream)

    def watch(self, **given: Any) -> _Items[_follow.Follow, Item]:
        """Iterate over everything that the hub tells; see `sessionwire.Session.watch`."""
        items: _follow.Follow = self._in_loop(self._target.watch, given)
        return _Items(self._portal, items, items)

    def _in_loop(self, make: Callable[..., T], given: Mapping[str, Any]) -> T:
        """Make something where the event loop runs."""

        async def made() -> T:
            return make(**given)

        return self._call(made)

    @overload
    # Text is one event and no list of characters.
    def publish(self, events: Publishable, /) -> Published: ...  # type: ignore[overload-overlap]

    @overload
    def publish(self, events: Sequence[Publishable], /) -> list[Published]: ...

    def publish(
        self, events: Publishable | Sequence[Publishable], /
    ) -> Published | list[Published]:
        """Store an event, or a list of them in order."""
        if isinstance(events, Sequence) and not isinstance(events, str | bytes):
            return self._call(partial(self._target.publish, events))
        return self._call(partial(self._target.publish, events))

    def publisher(self, **given: Any) -> Publisher:
        """Publish a stream of events; see `sessionwire.Session.publisher`."""
        return Publisher(self._portal, self._in_loop(self._target.publisher, given))

    def host(self, *, host_id: str = "", takeover: bool = False) -> SessionHost:
        """Be the agent of the session."""
        given = {"host_id": host_id, "takeover": takeover}
        return SessionHost(self._portal, self._in_loop(self._target.host, given))

    def prompts(self, *kinds: str) -> _PromptFeed:
        """Iterate over prompts that wait for an answer."""

        async def made() -> _prompt_feed.PromptFeed:
            return self._target.prompts(*kinds)

        feed = self._call(made)
        return _PromptFeed(self._portal, feed, self._wrapped(feed))

    async def _wrapped(self, feed: _prompt_feed.PromptFeed) -> AsyncIterator[Prompt]:
        async for prompt in feed:
            yield Prompt(self._portal, prompt)

    def prompt(self, request_id: str) -> Prompt:
        """Look at one prompt, open or closed."""
        return Prompt(self._portal, self._call(partial(self._target.prompt, request_id)))

    def on_prompt(self, kind: str) -> Callable[[F], F]:
        """Have a function answer the prompts of a kind, in a thread, while the session is entered.

        See `sessionwire.Session.on_prompt`.
        """

        def register(handler: F) -> F:
            def answer(prompt: _prompt.Prompt) -> Any:
                return handler(Prompt(self._portal, prompt))

            async def registered() -> None:
                self._target.on_prompt(kind)(answer)

            self._call(registered)
            return handler

        return register

    on_permission = _On("permission")
    on_user_input = _On("user_input")
    on_elicitation = _On("elicitation")
    on_sampling = _On("sampling")
    on_exit_plan_mode = _On("exit_plan_mode")
    on_auto_mode_switch = _On("auto_mode_switch")
    on_session_limits_exhausted = _On("session_limits_exhausted")
    on_mcp_oauth = _On("mcp_oauth")
    on_mcp_headers = _On("mcp_headers")
    on_external_tool = _On("external_tool")
    on_command = _On("command")
    on_tool = _On("tool")
    on_question = _On("question")
    on_approval = _On("approval")

    def command(
        self,
        command_type: str,
        data: Mapping[str, Any] | None = None,
        *,
        command_id: str = "",
        expires_in_s: float | None = None,
    ) -> Receipt:
        """Send a command to the session's host."""
        call = partial(
            self._target.command,
            command_type,
            data,
            command_id=command_id,
            expires_in_s=expires_in_s,
        )
        return Receipt(self._portal, self._call(call))

    def send(self, text: str, *, now: bool = False, **given: Any) -> Receipt:
        """Say something to the agent; see `sessionwire.Session.send`."""
        return Receipt(self._portal, self._call(partial(self._target.send, text, now=now, **given)))

    def abort(self, reason: str = "") -> Receipt:
        """Have the agent stop what it is doing."""
        return Receipt(self._portal, self._call(partial(self._target.abort, reason)))

    def set_mode(self, mode: str, **members: Any) -> Receipt:
        """Have the agent change its mode."""
        return Receipt(self._portal, self._call(partial(self._target.set_mode, mode, **members)))

    def set_model(self, model: str, **members: Any) -> Receipt:
        """Have the agent change its model."""
        return Receipt(self._portal, self._call(partial(self._target.set_model, model, **members)))

    def clear_queue(self) -> Receipt:
        """Have the agent forget the messages that wait for it."""
        return Receipt(self._portal, self._call(self._target.clear_queue))


class Client(_Face[_client.Client]):
    """A hub, and a way in; see `sessionwire.Client`.

    ```
    with Client("http://127.0.0.1:8787", "letmein") as client:
        with client.session("my-session") as session:
            for event in session.follow():
                print(event.type)
    ```
    """

    def __init__(self, url: str, token: Token = "") -> None:
        """Make a client; its thread runs within `with`."""
        self._client = _client.Client(url, token)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            super().__init__(portal, self._client)
            stack.enter_context(portal.wrap_async_context_manager(self._client))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    @property
    def url(self) -> str:
        """The hub's base URL."""
        return self._client.url

    def session(self, session_id: str, *, catalog: str = "") -> Session:
        """Name a session, for `with`; it need not exist yet."""
        return Session(self._portal, self._target.session(session_id, catalog=catalog))

    create_session = _Blocking(_client.Client.create_session)
    sessions = _Blocking(_client.Client.sessions)
    delete_session = _Blocking(_client.Client.delete_session)
    ticket = _Blocking(_client.Client.ticket)
