"""Be an agent: publish what it does, ask before it acts, obey what it is sent.

SESSIONWIRE_KEY=letmein python examples/sdk_agent.py my-session
SESSIONWIRE_KEY=letmein python examples/sdk_people.py my-session

Stop the hub, or this program, while a question waits: it is answered all the same.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from sessionwire import Client, Command, PromptEnded, Session, SessionHost


def may_read(path: str) -> dict[str, Any]:
    """Build the question whether a file may be read."""
    asked = {"kind": "read", "path": path, "intention": f"read {path}"}
    return {"type": "permission.requested", "data": {"permissionRequest": asked}}


async def turn(session: Session, host: SessionHost, command: Command) -> None:
    await session.publish({"type": "user.message", "data": {"content": command.data["prompt"]}})
    try:
        answer = await host.ask(may_read("notes.txt"))
        said = "I have read it." if answer.value["kind"] != "reject" else "Then I do not."
    except PromptEnded as end:
        said = f"Nobody answers: {end.state}."
    async with session.publisher() as publisher:
        for word in said.split(" "):
            data = {"messageId": command.id, "deltaContent": f"{word} "}
            await publisher.send({"type": "assistant.message_delta", "data": data})
        data = {"messageId": command.id, "content": said}
        whole = await publisher.send({"type": "assistant.message", "data": data})
    await host.acknowledge(command, event_id=whole.id)


async def main(session_id: str) -> None:
    async with (
        Client.from_env() as client,
        client.session(session_id, catalog="copilot") as session,
        session.host(host_id="example") as host,
    ):
        async for command in host.commands():
            if command.type == "message.send":
                await turn(session, host, command)
            else:
                await host.acknowledge(command, "rejected", detail=f"no {command.type} here")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "my-session"))
