"""`GET /v1/ws`: sessions over a WebSocket (protocol.md §7)."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from sessionwire_schemas.close_codes import CloseCode
from sessionwire_schemas.rpc import SUBPROTOCOL
from sessionwire_server.access import Access, Principal
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.problems import problem
from sessionwire_server.ws_connection import Connection
from sessionwire_server.ws_sender import CLOSE_S, AsgiOutlet, TransportOutlet, offered_outlet

__all__ = ["upgrade", "websocket"]

logger = logging.getLogger(__name__)


async def upgrade(_request: Request) -> Response:
    """Refuse a plain GET."""
    raise HubError(
        426, "upgrade_required", "this path speaks WebSocket", headers={"Upgrade": "websocket"}
    )


async def websocket(websocket: WebSocket) -> None:
    """Open a connection and serve it.

    A wrong Origin, a full hub and an absent Redis refuse the handshake. A bad token is accepted and
    closed with 4500, for a browser cannot read a refusal; one that is missing may still come.
    """
    desk = cast(Desk, websocket.app.state.desk)
    with ExitStack() as place:
        try:
            await websocket.receive()
            desk.hub.access.check_socket_origin(websocket)
            principal, is_refused = await _speaker(desk.hub.access, websocket)
            if principal is not None:
                place.enter_context(desk.hub.connected(principal.id))
        except HubError as error:
            await _refuse(desk, websocket, error)
            return
        try:
            await _serve(desk, websocket, principal, is_refused, place.pop_all())
        except (OSError, WebSocketDisconnect):
            logger.debug("a WebSocket was gone before it was open")


async def _serve(
    desk: Desk,
    websocket: WebSocket,
    principal: Principal | None,
    is_refused: bool,
    place: ExitStack,
) -> None:
    with place, desk.socket():
        offered = cast("list[str]", websocket.scope.get("subprotocols", []))
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        if is_refused:
            await websocket.close(CloseCode.BAD_TOKEN, "unauthorized")
        elif offered and SUBPROTOCOL not in offered:
            await websocket.close(CloseCode.PROTOCOL_ERROR, "unknown subprotocol")
        else:
            outlet = _outlet(desk, websocket)
            await Connection(desk, websocket, outlet, principal, place.pop_all()).run()


def _outlet(desk: Desk, websocket: WebSocket) -> TransportOutlet | AsgiOutlet:
    settings = desk.hub.settings
    if settings.send_mode == "auto":
        outlet = offered_outlet(websocket, settings.send_timeout_s)
        if outlet is not None:
            # The kernel is the last to give up: the close behind what is buffered has its time.
            outlet.limit_silence(settings.send_timeout_s + CLOSE_S)
            return outlet
    return AsgiOutlet(websocket, settings.send_timeout_s)


async def _speaker(access: Access, websocket: WebSocket) -> tuple[Principal | None, bool]:
    """Tell who opens it, None if that is not said, and whether what is said is wrong.

    A cookie that is no longer worth anything says nothing: the browser sends it unasked.
    """
    try:
        return await access.authenticate(websocket, tickets=True), False
    except HubError as error:
        if error.status != 401:
            raise
        is_said = "authorization" in websocket.headers or "ticket" in websocket.query_params
        return None, is_said


async def _refuse(desk: Desk, websocket: WebSocket, error: HubError) -> None:
    desk.hub.metrics.refused[error.code] += 1
    try:
        if "websocket.http.response" in websocket.scope.get("extensions", {}):
            await websocket.send_denial_response(problem(error))
        else:
            await websocket.close()
    except (OSError, WebSocketDisconnect):
        logger.debug("a WebSocket was gone before it was refused")
