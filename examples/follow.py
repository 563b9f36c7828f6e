"""Follow a session and print its text as it is written, across any interruption.

SESSIONWIRE_KEY=letmein python examples/follow.py my-session

Stop the hub and start it again meanwhile: `follow` comes back with its cursor, and nothing is lost
or shown twice.
"""

from __future__ import annotations

import asyncio
import os
import sys

import httpx2

from sessionwire import CaughtUp, Disconnected, Event, Gap, follow

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")
KEY = os.environ["SESSIONWIRE_KEY"]


async def main(session_id: str) -> None:
    async with (
        httpx2.AsyncClient(base_url=HUB, headers={"Authorization": f"Bearer {KEY}"}) as http,
        follow(http, session_id) as items,
    ):
        async for item in items:
            match item:
                case Event(type="output.message.delta"):
                    print(item.json()["data"]["delta"], end="", flush=True)
                case Event():
                    print(f"\n[{item.type}]", flush=True)
                case CaughtUp():
                    print("-- live --", flush=True)
                case Gap():
                    print(f"-- events are missing: {item.reason} --", flush=True)
                case Disconnected():
                    print(f"-- {item.reason}, next try in {item.wait_s:.1f} s --", flush=True)
                case _:
                    pass  # what else there is to know: presence, open prompts, snapshots


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "my-session"))
