"""Follow a session with the SDK: typed events, once and in order, over WebSocket or SSE.

SESSIONWIRE_KEY=letmein python examples/sdk_follow.py my-session

Stop the hub and start it again meanwhile. The cursor is kept in a file, so stopping this program
costs nothing either.
"""

from __future__ import annotations

import asyncio
import os
import sys

import anyio

from sessionwire import Client, ReplayGap
from sessionwire.copilot import AssistantMessageDeltaEvent, AssistantMessageEvent


async def main(session_id: str) -> None:
    place = anyio.Path(f"{session_id}.cursor")
    since = await place.read_text() if await place.exists() else ""
    async with Client.from_env() as client, client.session(session_id) as session:
        events = session.follow(since=since, exclude=["session.usage_info"])
        while not events.closed:
            try:
                async for event in events:
                    match event.model:
                        case AssistantMessageDeltaEvent(data=data):
                            print(data.delta_content, end="", flush=True)
                        case AssistantMessageEvent():
                            print()
                        case _:
                            print(f"[{event.type}]", flush=True)
                    await place.write_text(event.cursor)
                    if event.type == os.environ.get("UNTIL"):
                        return
            except ReplayGap as gap:
                print(f"-- {gap} --", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "my-session"))
