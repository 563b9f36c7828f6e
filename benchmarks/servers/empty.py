"""A Starlette route that reads a body and answers: the least that publishing in Python costs."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["app"]


async def _publish(request: Request) -> Response:
    await request.body()
    return JSONResponse({})


async def _livez(_: Request) -> Response:
    return Response()


app = Starlette(
    routes=[
        Route("/v1/sessions/{session}/events", _publish, methods=["POST"]),
        Route("/livez", _livez),
    ]
)
