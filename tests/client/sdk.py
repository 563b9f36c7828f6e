"""What tests of the SDK share: a client of a real hub, and events to publish."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from sessionwire import Client, Session
from tests.hub_process import HubProcess


def message(number: int | str) -> dict[str, Any]:
    """A durable copilot event."""
    return {"type": "user.message", "data": {"content": str(number)}}


def permission(request_id: str = "", **members: Any) -> dict[str, Any]:
    """A question whether a file may be read."""
    asked = {"kind": "read", "path": "/etc/hosts", "intention": "look"}
    named = {"requestId": request_id} if request_id else {}
    return {
        "type": "permission.requested",
        "data": {**named, "permissionRequest": asked, **members},
    }


def external_tool(request_id: str) -> dict[str, Any]:
    """A call of a tool that some client has."""
    data = {"requestId": request_id, "sessionId": "s", "toolCallId": f"call-{request_id}"}
    return {"type": "external_tool.requested", "data": {**data, "toolName": "t", "arguments": {}}}


@asynccontextmanager
async def entered(hub: HubProcess, sid: str, *, create: bool = True) -> AsyncGenerator[Session]:
    """A session of a client of its own."""
    async with (
        Client(hub.url, hub.key) as client,
        client.session(sid, catalog="copilot") as session,
    ):
        if create:
            await session.create()
        yield session
