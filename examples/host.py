"""Be the agent of a session: take what people send it, answer with events, acknowledge.

SESSIONWIRE_KEY=letmein python examples/host.py my-session
sessionwire send my-session "Say hello"; sessionwire abort my-session

Stop it and start it again meanwhile: what was sent to it waits, and is obeyed once it is back.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import httpx2

from sessionwire import Command, Host, host

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")
KEY = os.environ["SESSIONWIRE_KEY"]


async def publish(http: httpx2.AsyncClient, session: str, *events: dict[str, Any]) -> str:
    answer = await http.post(f"/v1/sessions/{session}/events", json=list(events))
    answer.raise_for_status()
    return str(answer.json()["data"][-1]["id"])


async def obey(http: httpx2.AsyncClient, session: str, commands: Host, command: Command) -> None:
    match command.type:
        case "message.send":
            # The command's id makes the events' ids: a command that comes again makes no new ones.
            asked = {"type": "user.message", "data": {"content": command.data["prompt"]}}
            said = {"messageId": command.id, "content": f"You said: {command.data['prompt']}"}
            answer = {"type": "assistant.message", "data": said, "parentId": None}
            events = ({**asked, "id": f"{command.id}-in"}, {**answer, "id": f"{command.id}-out"})
            event_id = await publish(http, session, *events)
            await commands.acknowledge(command, event_id=event_id)
        case "abort":
            event = {"type": "abort", "data": {"reason": "remote_command"}, "id": command.id}
            await commands.acknowledge(command, event_id=await publish(http, session, event))
        case _:
            await commands.acknowledge(command, "rejected", detail=f"no {command.type} here")
    print(f"{command.type} attempt {command.attempt}", flush=True)


async def main(session: str) -> None:
    async with httpx2.AsyncClient(base_url=HUB, headers={"Authorization": f"Bearer {KEY}"}) as http:
        made = await http.post("/v1/sessions", json={"id": session, "catalog": "copilot"})
        made.raise_for_status()
        async with host(http, session, host_id="example") as commands:
            async for command in commands:
                await obey(http, session, commands, command)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "my-session"))
