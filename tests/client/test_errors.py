"""Every end of a connection has one meaning, and no library's exception comes through."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import anyio.from_thread
import pytest

from sessionwire import Client, errors
from sessionwire._reconnect import Outcome, error_of_close, judge
from sessionwire.errors import (
    ConnectionFailed,
    EventTooLarge,
    Forbidden,
    HubError,
    ProtocolError,
    RateLimited,
    ReplayGap,
    SessionDeleted,
    Unauthorized,
    WebSocketRefused,
    rejection,
)
from sessionwire_schemas.close_codes import CloseCode
from tests.client.faulty_hub import SESSION, faulty_hub


@pytest.mark.parametrize("code", list(CloseCode), ids=lambda code: code.name.lower())
def test_a_close_code_means_what_the_protocol_says(code: CloseCode) -> None:
    outcome = judge(error_of_close(code, "why", "ws://h"))
    assert (outcome is Outcome.RETRY) is code.reconnect
    assert (outcome is Outcome.END) is (code is CloseCode.DELETED)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (4000, Outcome.RETRY),
        (4499, Outcome.RETRY),
        (4510, Outcome.FATAL),
        (4999, Outcome.FATAL),
        (1000, Outcome.RETRY),
        (1001, Outcome.RETRY),
        (1006, Outcome.RETRY),
        (1007, Outcome.FATAL),
        (1011, Outcome.RETRY),
        (1012, Outcome.RETRY),
    ],
)
def test_codes_that_nobody_listed_follow_the_rule(code: int, outcome: Outcome) -> None:
    assert judge(error_of_close(code, "", "ws://h")) is outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConnectionFailed("u", "r"), Outcome.RETRY),
        (ConnectionFailed("u", "r", "idle"), Outcome.RETRY),
        (ConnectionFailed("u", "r", "misconfigured"), Outcome.FATAL),
        (WebSocketRefused("u", 404, "r"), Outcome.FATAL),
        (ProtocolError("p"), Outcome.FATAL),
        (EventTooLarge(1), Outcome.FATAL),
        (SessionDeleted(410, "session_deleted", "d"), Outcome.END),
        (RateLimited(429, "", ""), Outcome.RETRY),
        (rejection(503, {}), Outcome.RETRY),
        (rejection(408, {}), Outcome.RETRY),
        (rejection(400, {}), Outcome.FATAL),
        (rejection(401, {}), Outcome.FATAL),
        (rejection(404, {}), Outcome.FATAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, HubError) else value.name,
)
def test_one_function_judges_every_error(error: HubError, outcome: Outcome) -> None:
    assert judge(error) is outcome


def _classes() -> list[type[HubError]]:
    found = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    return [each for each in found if issubclass(each, HubError)]


def test_the_tree_in_the_modules_docstring_has_every_error() -> None:
    drawn = inspect.getdoc(errors) or ""
    assert [each.__name__ for each in _classes() if each.__name__ not in drawn] == []


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "session_not_found", "UnknownSession"),
        (404, "prompt_not_found", "NotFound"),
        (409, "host_conflict", "HostConflict"),
        (409, "lease_lost", "LeaseLost"),
        (409, "prompt_already_answered", "PromptAlreadyAnswered"),
        (409, "prompt_claimed", "PromptClaimed"),
        (409, "catalog_mismatch", "Conflict"),
        (410, "session_deleted", "SessionDeleted"),
        (410, "expired", "Gone"),
        (422, "invalid_answer", "InvalidAnswer"),
        (422, "invalid_event", "InvalidRequest"),
        (500, "prompt_claimed", "Unavailable"),
    ],
)
def test_a_code_says_more_than_its_status(status: int, code: str, kind: str) -> None:
    error = rejection(status, {"code": code, "detail": "why", "since": "now"})
    assert type(error).__name__ == kind
    assert (error.status, error.code, error.detail) == (status, code, "why")
    assert error.extra == {"since": "now"}
    assert str(error) == f"why ({status} {code})"


def test_errors_say_what_they_know() -> None:
    assert str(ConnectionFailed("http://h", "refused")) == "cannot reach http://h: refused"
    assert str(ReplayGap("trimmed", 1, 3, cursor="c")) == "events are missing: trimmed"
    assert str(WebSocketRefused("ws://h", 404, "answered with 404")).startswith("no WebSocket")
    with pytest.raises(Forbidden):
        raise error_of_close(4501, "", "ws://h")
    with pytest.raises(Unauthorized):
        raise error_of_close(4503, "", "ws://h")


@pytest.mark.parametrize("url", ["", "hub", "ftp://h", "http://", "http://h:port"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        Client(url)


# The HTTP library leaves a generator of its own to the collector, which trio says aloud.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_program_on_trio_follows_over_sse() -> None:
    """The faulty hub needs asyncio, so it runs in a thread of its own."""

    async def follow(url: str) -> list[Any]:
        async with Client(url, "k") as client, client.session(SESSION) as session:
            events = session.follow()
            with anyio.fail_after(10):
                found: list[Any] = [(await anext(events)).id for _ in range(3)]
            return [*found, events.transport]

    with (
        anyio.from_thread.start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(faulty_hub(3, [])) as hub,
    ):
        found = anyio.run(follow, hub.url, backend="trio")
    assert found == ["event-1", "event-2", "event-3", "sse"]
