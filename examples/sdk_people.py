"""Be who watches an agent: answer its questions, say something to it, hear what becomes of it.

SESSIONWIRE_KEY=letmein python examples/sdk_people.py my-session "Read the notes"

See sdk_agent.py for the agent. A prompt is answered once, however many of these run.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from sessionwire import PASS, Client, Prompt
from sessionwire.errors import CommandRejected


async def main(session_id: str, text: str) -> None:
    async with (
        Client.from_env() as client,
        client.session(session_id, catalog="copilot") as session,
    ):
        await session.create()

        @session.on_permission
        async def decide(prompt: Prompt) -> Any:
            asked = prompt.asked["permissionRequest"]
            if asked["kind"] != "read":
                return PASS  # somebody else may know
            print(f"allowed: {asked['intention']}", flush=True)
            return {"kind": "approve-once"}

        receipt = await session.send(text, now=True)
        await receipt.delivered()
        print("delivered", flush=True)
        try:
            await receipt.consumed()
            print("consumed", flush=True)
        except CommandRejected as refusal:
            print(f"refused: {refusal.detail}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "Read the notes"))
