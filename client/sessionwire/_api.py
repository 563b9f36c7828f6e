"""One hub's HTTP API as the SDK calls it: errors as ours, and insisting while it is away.

Owns the mapping of answers; what is asked stands with those who ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio
import httpx2

from sessionwire._http import connection_failed, json_object, rejected_async
from sessionwire._reconnect import Outcome, Reconnection, judge
from sessionwire.errors import HubError, RequestRejected

__all__ = ["Api", "insist"]

T = TypeVar("T")

STORAGE_FULL = 507
"""Storage that is full stays full: it is for the operator, not for a retry."""


class Api:
    """Calls one hub.

    Attributes:
        http: with the hub as its base URL, and the key.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        content: bytes | None = None,
        params: Mapping[str, str | list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask once. Returns: the JSON object of the answer, empty where it has no body.

        Raises:
            ConnectionFailed: no answer.
            RequestRejected: an answer that is not 2xx.
            ProtocolError: one that is no JSON object.
        """
        given: dict[str, Any] = {"json": json} if json is not None else {}
        if content is not None:
            given = {"content": content, "headers": {"Content-Type": "application/json"}}
        if headers:
            given["headers"] = {**given.get("headers", {}), **headers}
        try:
            response = await self.http.request(method, path, params=params, **given)
        except httpx2.HTTPError as exc:
            raise connection_failed(self.http.base_url, exc) from exc
        if not response.is_success:
            raise await rejected_async(response)
        return json_object(response) if response.content else {}


async def insist(attempt: Callable[[], Awaitable[T]], *, patience_s: float | None) -> T:
    """Do something that may safely be done twice until the hub has answered.

    Args:
        attempt: what is to be done.
        patience_s: how long it is tried while the hub is away or says later; None for ever.

    Raises:
        HubError: the last failure, or a refusal for good.
    """
    reconnection, since = Reconnection(), anyio.current_time()
    while True:
        try:
            return await attempt()
        except HubError as error:
            wait_s = _wait_s(error, reconnection)
            late = patience_s is not None and anyio.current_time() + wait_s - since > patience_s
            if late:
                raise
        await anyio.sleep(wait_s)


def _wait_s(error: HubError, reconnection: Reconnection) -> float:
    """Decide how long to wait before the next attempt; raise what will not change."""
    if judge(error) is not Outcome.RETRY:
        raise error
    if not isinstance(error, RequestRejected):
        return reconnection.delay_s()
    if error.status == STORAGE_FULL:
        raise error
    return reconnection.delay_s(error.retry_after_s)
