"""Prompts as producers open them, and what clients do with them over HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.contract.events import call, copilot, everruns
from tests.contract.wire import Answer, Connection, Server, request

__all__ = [
    "ALLOW",
    "REJECT",
    "answer",
    "answered",
    "ask",
    "ask_calls",
    "claim",
    "look",
    "open_ids",
    "open_prompts",
    "permit",
    "prompts",
    "reply",
    "status_of",
    "tool",
]

Event = dict[str, Any]

ALLOW = {"kind": "approve-once"}
REJECT = {"kind": "reject"}


def prompts(session: str, *parts: str) -> str:
    """The path of a session's prompts, or of one and what is done with it."""
    return "/".join((f"/v1/sessions/{session}/prompts", *(quote(part, safe="") for part in parts)))


def ask(request_id: str, **data: Any) -> Event:
    """An ephemeral question."""
    asked = {"requestId": request_id, "question": "Which?", **data}
    return copilot("user_input.requested", asked, ephemeral=True)


def reply(request_id: str, text: str | None = "yes") -> Event:
    """The host's own answer to it; without a text none at all."""
    said = {} if text is None else {"answer": text, "wasFreeform": True}
    return copilot("user_input.completed", {"requestId": request_id, **said}, ephemeral=True)


def permit(request_id: str, *, call_id: str = "", **more: Any) -> Event:
    """A durable question whether a command may be run."""
    shell = {
        "kind": "shell",
        "fullCommandText": "ls -la",
        "intention": "List files",
        "commands": [{"identifier": "ls", "readOnly": True}],
        "possiblePaths": [],
        "possibleUrls": [],
        "hasWriteFileRedirection": False,
        "canOfferSessionApproval": True,
        **({"toolCallId": call_id} if call_id else {}),
        **more.pop("shell", {}),
    }
    return copilot(
        "permission.requested", {"requestId": request_id, "permissionRequest": shell, **more}
    )


def tool(request_id: str, call_id: str = "call_1") -> Event:
    """A call of a tool that a client has registered."""
    data = {"requestId": request_id, "sessionId": "s", "toolCallId": call_id, "toolName": "look"}
    return copilot("external_tool.requested", data)


def ask_calls(*ids: str, name: str = "lookup", turn: str = "", **arguments: Any) -> Event:
    """The everruns event that asks for these calls."""
    calls = [{"id": each, "name": name, "arguments": arguments} for each in ids]
    context = {"turn_id": turn} if turn else {}
    return everruns("tool.call_requested", {"tool_calls": calls}, context=context)


async def open_prompts(server: Server | Connection, session: str, query: str = "") -> list[Any]:
    page = await call(server, "GET", prompts(session) + query)
    assert page["next_page_token"] is None
    found: list[Any] = page["data"]
    return found


async def open_ids(server: Server | Connection, session: str) -> list[str]:
    return [str(each["request_id"]) for each in await open_prompts(server, session)]


async def look(
    server: Server | Connection, session: str, request_id: str, query: str = "", **more: Any
) -> Any:
    return await call(server, "GET", prompts(session, request_id) + query, **more)


async def status_of(server: Server | Connection, session: str, request_id: str) -> str:
    return str((await look(server, session, request_id))["status"])


async def _post(
    server: Server | Connection, method: str, path: str, body: Any, **more: Any
) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    if isinstance(server, Connection):
        return await server.request(method, path, body=content, **more)
    return await request(server, method, path, body=content, **more)


async def answer(
    server: Server | Connection,
    session: str,
    request_id: str,
    value: Any,
    *,
    key: str = "",
    token: str = "",
    agent: str = "",
    **members: Any,
) -> Answer:
    """Answer a prompt.

    Args:
        value: the answer.
        key: the idempotency key.
        token: another key than the server's.
        agent: what the client calls itself.
        members: of the body, beside the answer.
    """
    headers: dict[str, str | bytes] = {}
    if key:
        headers["Idempotency-Key"] = key
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if agent:
        headers["User-Agent"] = agent
    path = prompts(session, request_id, "answer")
    return await _post(server, "POST", path, {"answer": value, **members}, headers=headers)


async def answered(
    server: Server | Connection, session: str, request_id: str, value: Any, **more: Any
) -> Any:
    """Give an answer that is taken; the prompt."""
    given = await answer(server, session, request_id, value, **more)
    assert given.status == 200, given
    return given.json()


async def claim(
    server: Server | Connection, session: str, request_id: str, *, token: str = "", **body: Any
) -> Answer:
    headers: dict[str, str | bytes] = {"Authorization": f"Bearer {token}"} if token else {}
    path = prompts(session, request_id, "claim")
    return await _post(server, "POST", path, body, headers=headers)
