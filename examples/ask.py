"""Ask before doing: an agent that waits for an answer, wherever somebody gives it.

SESSIONWIRE_KEY=letmein python examples/ask.py my-session deploy-1
sessionwire answer my-session deploy-1 approve

Stop it while it waits, answer, and start it again: the answer has waited for it.
"""

from __future__ import annotations

import asyncio
import os
import sys

import httpx2

from sessionwire import host

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")
KEY = os.environ["SESSIONWIRE_KEY"]


def question(request: str) -> dict[str, object]:
    wanted = {"kind": "shell", "fullCommandText": "./deploy.sh", "intention": "Ship the release"}
    lists: dict[str, list[str]] = {"commands": [], "possiblePaths": [], "possibleUrls": []}
    flags = {"hasWriteFileRedirection": False, "canOfferSessionApproval": True}
    data = {"requestId": request, "permissionRequest": {**wanted, **lists, **flags}}
    # An id of its own, so that a second run asks the same question and no new one.
    return {"id": f"{request}-asked", "type": "permission.requested", "data": data}


async def main(session: str, request: str) -> None:
    async with httpx2.AsyncClient(base_url=HUB, headers={"Authorization": f"Bearer {KEY}"}) as http:
        made = await http.post("/v1/sessions", json={"id": session, "catalog": "copilot"})
        made.raise_for_status()
        asked = await http.post(f"/v1/sessions/{session}/events", json=question(request))
        asked.raise_for_status()
        print(f"waiting for: sessionwire answer {session} {request}", flush=True)
        async with host(http, session, host_id="example") as commands:
            async for command in commands:
                if command.type == "prompt.answer" and command.data["request_id"] == request:
                    await commands.acknowledge(command)
                    by = command.data["answered_by"]["name"]
                    print(f"{command.data['answer']['kind']} by {by}")
                    return
                await commands.acknowledge(command, "rejected", detail="it waits for an answer")


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["my-session", "deploy-1"])))
