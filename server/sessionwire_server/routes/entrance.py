"""`/v1/tickets` and `/v1/sign-in`: keys traded for what a browser can carry (protocol.md §10)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_server import sign_in, tickets
from sessionwire_server.access import cookie_name
from sessionwire_server.answers import json_response
from sessionwire_server.bodies import read_model
from sessionwire_server.desk import Desk
from sessionwire_server.minting import rfc3339
from sessionwire_server.tickets import TicketRequest

__all__ = ["make_ticket", "sign_out", "sign_to_cookie"]


async def make_ticket(request: Request) -> Response:
    """POST `/v1/tickets`."""
    access = Desk.of(request).hub.access
    maker = await access.authenticate(request)
    grant = tickets.grant_for(maker, await read_model(request, TicketRequest))
    ticket = await access.signer.sign("ticket", grant)
    expires_at = rfc3339(int(grant.expires_at * 1000))
    return json_response({"ticket": ticket, "expires_at": expires_at}, 201)


async def sign_to_cookie(request: Request) -> Response:
    """POST `/v1/sign-in`."""
    access = Desk.of(request).hub.access
    grant = sign_in.grant_for(await access.authenticate(request))
    response = Response(status_code=204, headers={"Cache-Control": "no-store"})
    sign_in.set_cookie(request, response, await access.signer.sign("sign-in", grant), grant)
    return response


async def sign_out(request: Request) -> Response:
    """DELETE `/v1/sign-in`; also where the cookie is no longer worth anything."""
    if cookie_name(request) in request.cookies:
        Desk.of(request).hub.access.check_origin(request)
    response = Response(status_code=204, headers={"Cache-Control": "no-store"})
    sign_in.clear_cookie(request, response)
    return response
