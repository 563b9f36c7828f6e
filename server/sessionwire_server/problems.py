"""Every error as one kind of answer: `application/problem+json` (protocol.md §12).

Owns how a `HubError`, an error of the framework and a fault of the hub's own become responses. The
last ones say nothing about the inside; they are logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sessionwire_server.errors import HubError

if TYPE_CHECKING:
    from sessionwire_server.hub import Hub

__all__ = ["ROUTE_KEY", "Problems", "problem"]

logger = logging.getLogger(__name__)

ROUTE_KEY: Final = "sessionwire.route"
"""Where a route notes its template in the scope: what its requests are counted under."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_CODES: Final = {404: "not_found", 405: "method_not_allowed", 413: "batch_too_large"}


def problem(error: HubError) -> Response:
    """Build the answer of an error."""
    return Response(
        msgspec.json.encode(error.body()),
        status_code=error.status,
        headers={"Cache-Control": "no-store", **error.headers},
        media_type="application/problem+json",
    )


def _refusal(error: Exception, method: str) -> HubError:
    """Tell what a client is answered; a fault of the hub's own is logged here."""
    if isinstance(error, HubError):
        return error
    if isinstance(error, HTTPException):
        return _of_framework(error, method)
    logger.error("%s failed", method, exc_info=error)
    return HubError(500, "internal_error", "the hub failed; the fault is logged")


def _of_framework(error: HTTPException, method: str) -> HubError:
    """Spell an error that the framework raised: no such route, wrong method."""
    code = _CODES.get(error.status_code, "bad_request")
    detail = {
        404: "there is nothing at this path",
        405: f"{method} is not a method of this path",
    }.get(error.status_code, error.detail)
    return HubError(error.status_code, code, detail, headers=error.headers)


class Problems:
    """Pure ASGI middleware that answers what is raised below it, and counts requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        metrics = cast("Hub", scope["app"].state.hub).metrics

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watching)
        except ClientDisconnect:
            # Nobody is left to answer.
            logger.debug("client went away while its body was read")
        except Exception as error:
            refusal = _refusal(error, scope["method"])
            metrics.refused[refusal.code] += 1
            if status:
                _cut_short(refusal.code)
            else:
                await problem(refusal)(scope, receive, watching)
        finally:
            # The route's own template: a label per session would be without bound.
            metrics.requests[scope.get(ROUTE_KEY, "none"), _method(scope), status] += 1


def _cut_short(code: str) -> None:
    # Too late for an answer. The server sees that it is not complete and ends the connection, so
    # that the client can see it, too.
    logger.warning("an answer was cut short: %s", code)


def _method(scope: Scope) -> str:
    method = scope["method"]
    return method if method in _METHODS else "other"
