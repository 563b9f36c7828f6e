"""Talking HTTP to one hub: its address, the client, and its errors as ours.

Owns the mapping of httpx2's exceptions and of problem bodies to `sessionwire.errors`; retries
nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote

import httpx2

from sessionwire._reconnect import Outcome, classify_error, retry_after_s
from sessionwire.errors import (
    ConnectionFailed,
    Failure,
    ProtocolError,
    RequestRejected,
    rejection,
)

__all__ = [
    "HubAddress",
    "async_client",
    "client",
    "connection_failed",
    "json_object",
    "rejected",
    "rejected_async",
    "session_path",
]

CONNECT_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 30.0
MAX_PROBLEM_BYTES: Final = 64 * 1024
"""Of an error's body no more is read: it may come from anything between us and the hub."""


@dataclass(frozen=True, slots=True)
class HubAddress:
    """Where a hub is and how to get in. An empty key sends none."""

    url: str
    key: str = field(default="", repr=False)

    def headers(self) -> dict[str, str]:
        """Build the headers of every request."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def on_loopback(self) -> bool:
        """Whether the hub is on this machine, where a proxy of the environment cannot reach it."""
        host = httpx2.URL(self.url).host
        return host in ("localhost", "::1") or host.startswith("127.")


def _timeout() -> httpx2.Timeout:
    return httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)


def client(address: HubAddress) -> httpx2.Client:
    """Make a blocking client for the hub; the caller closes it."""
    return httpx2.Client(
        base_url=address.url,
        headers=address.headers(),
        timeout=_timeout(),
        trust_env=not address.on_loopback,
    )


def async_client(address: HubAddress) -> httpx2.AsyncClient:
    """Make an asynchronous client for the hub; the caller closes it."""
    return httpx2.AsyncClient(
        base_url=address.url,
        headers=address.headers(),
        timeout=_timeout(),
        # Reading the system's certificates takes longer than anything else here.
        verify=not address.on_loopback or address.url.startswith("https:"),
        # Streams and long polls hold one each; with a bound they would wait for each other.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        trust_env=not address.on_loopback,
    )


def session_path(session_id: str, *parts: str) -> str:
    """Build the path of a session's resource, the id percent-encoded."""
    return "/".join(("/v1/sessions", quote(session_id, safe=""), *parts))


def connection_failed(url: object, exc: Exception) -> ConnectionFailed:
    """Turn an exception of the HTTP client into ours; raise it `from exc`."""
    return ConnectionFailed(str(url), str(exc) or type(exc).__name__, _failure(exc))


def _failure(exc: Exception) -> Failure:
    if classify_error(exc) is Outcome.FATAL:
        return "misconfigured"
    if isinstance(exc, httpx2.ReadTimeout):
        return "idle"
    never = isinstance(exc, httpx2.ConnectError | httpx2.ConnectTimeout)
    return "unreachable" if never else "dropped"


def rejected(response: httpx2.Response) -> RequestRejected:
    """Build the error of an answer that was not wanted, reading its body if that is still to do."""
    body = b""
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MAX_PROBLEM_BYTES:
            break
    return _rejection(response, body)


async def rejected_async(response: httpx2.Response) -> RequestRejected:
    """Do the same for a streamed answer of an asynchronous client."""
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_PROBLEM_BYTES:
            break
    return _rejection(response, body)


def _rejection(response: httpx2.Response, body: bytes) -> RequestRejected:
    try:
        problem: Any = json.loads(body)
    except ValueError:
        problem = None
    members = cast("dict[str, Any]", problem) if isinstance(problem, dict) else {}
    wait_s = retry_after_s(response.headers.get("retry-after"))
    return rejection(response.status_code, members, retry_after_s=wait_s)


def json_object(response: httpx2.Response) -> dict[str, Any]:
    """Parse a good answer that was read whole.

    Raises:
        ProtocolError: it is not a JSON object.
    """
    try:
        value: Any = response.json()
    except ValueError as exc:
        raise ProtocolError(f"{response.request.url.path} did not answer with JSON") from exc
    if not isinstance(value, dict):
        raise ProtocolError(f"{response.request.url.path} did not answer with a JSON object")
    return cast("dict[str, Any]", value)
