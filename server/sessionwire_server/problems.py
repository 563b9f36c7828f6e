"""Every error as one kind of answer: `application/problem+json` (protocol.md §12).

Owns how a `HubError`, an error of the framework and a fault of the hub's own become responses. The
last ones say nothing about the inside; they are logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sessionwire_server.errors import HubError

if TYPE_CHECKING:
    from sessionwire_server.hub import Hub

__all__ = ["Problems", "http_problem", "problem"]

logger = logging.getLogger(__name__)

_CODES: Final = {404: "not_found", 405: "method_not_allowed", 413: "batch_too_large"}


def problem(error: HubError) -> Response:
    """Build the answer of an error."""
    return Response(
        msgspec.json.encode(error.body()),
        status_code=error.status,
        headers={"Cache-Control": "no-store", **error.headers},
        media_type="application/problem+json",
    )


async def http_problem(request: Request, error: Exception) -> Response:
    """Build the answer of an error that the framework raised: no such route, wrong method."""
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "bad_request")
    detail = {
        404: "there is nothing at this path",
        405: f"{request.method} is not a method of this path",
    }.get(error.status_code, error.detail)
    raise HubError(error.status_code, code, detail, headers=error.headers)


class Problems:
    """Pure ASGI middleware that answers what is raised below it, and counts requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        note: dict[str, str] = {}
        metrics = cast("Hub", scope["app"].state.hub).metrics
        scope["sessionwire.note"] = note

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            try:
                await self._app(scope, receive, watching)
            except ClientDisconnect:
                # Nobody is left to answer.
                logger.debug("client went away while its body was read")
            except HubError as error:
                metrics.refused[error.code] += 1
                if status:
                    _cut_short(error.code)
                else:
                    await problem(error)(scope, receive, watching)
            except Exception:
                logger.exception("%s failed", scope["method"])
                metrics.refused["internal_error"] += 1
                if status:
                    _cut_short("internal_error")
                else:
                    fault = HubError(500, "internal_error", "the hub failed; the fault is logged")
                    await problem(fault)(scope, receive, watching)
        finally:
            # The route's own template: a label per session would be without bound.
            metrics.requests[note.get("route", "none"), _method(scope), status] += 1


def _cut_short(code: str) -> None:
    # Too late for an answer. The server sees that it is not complete and ends the connection, so
    # that the client can see it, too.
    logger.warning("an answer was cut short: %s", code)


def _method(scope: Scope) -> str:
    method = scope["method"]
    return method if method in {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} else "other"
