"""Publish two events and follow the session that they make.

SESSIONWIRE_KEY=letmein python examples/quickstart.py
"""

import asyncio
import os

import httpx2

from sessionwire import Event, follow

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")
KEY = os.environ["SESSIONWIRE_KEY"]


async def main() -> None:
    async with httpx2.AsyncClient(base_url=HUB, headers={"Authorization": f"Bearer {KEY}"}) as http:
        turn = {"turn_id": "turn_1", "input_message_id": "message_1"}
        started = {"type": "turn.started", "context": {}, "data": turn}
        ended = {"type": "turn.completed", "context": {}, "data": {**turn, "iterations": 1}}
        answer = await http.post("/v1/sessions/hello/events", json=[started, ended])
        answer.raise_for_status()

        async with follow(http, "hello") as items:
            async for item in items:
                if isinstance(item, Event):
                    print(item.cursor, item.type)
                    if item.type == "turn.completed":
                        break


if __name__ == "__main__":
    asyncio.run(main())
