"""Be the agent of every everruns session: what that server's clients send is answered here.

SESSIONWIRE_KEY=letmein python examples/everruns_host.py
EVERRUNS_AGENT_URL=http://127.0.0.1:8787/v1/channels/demo EVERRUNS_AGENT_KEY=letmein python -c \
    "import asyncio, everruns_sdk as s; print(asyncio.run(s.AgentClient().run('hello')))"

"tool", "ask" and "approve" run a tool of the client's, ask a person, need leave; "wait" waits.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import httpx2

from sessionwire import Command, HubError, host

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")
KEY, PACE_S = os.environ["SESSIONWIRE_KEY"], float(os.environ.get("PACE_S", "0.05"))
DRINKS = [{"label": "tea"}, {"label": "coffee"}]
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tool": ("call_", "get_time", {"zone": "UTC"}),
    "ask": ("call_", "ask_user", {"questions": [{"id": "q", "question": "?", "options": DRINKS}]}),
    "approve": ("tool_approval_", "approve_tool_call", {"tool": "send_email", "arguments": {}}),
}


class Agent:
    def __init__(self, http: httpx2.AsyncClient, session: str) -> None:
        self.http, self.session = http, session
        self.turn: asyncio.Task[None] | None = None
        self.answers: dict[str, asyncio.Future[Any]] = {}

    async def say(self, turn: str, *events: tuple[str, dict[str, Any]]) -> None:
        body = [{"type": t, "data": d, "context": {"turn_id": turn}} for t, d in events]
        answer = await self.http.post(f"/v1/sessions/{self.session}/events", json=body)
        answer.raise_for_status()

    async def call(self, turn: str, word: str) -> Any:
        prefix, name, arguments = CALLS[word]
        call = {"id": prefix + turn, "name": name, "arguments": arguments}
        answer = self.answers[prefix + turn] = asyncio.get_running_loop().create_future()
        await self.say(turn, ("tool.call_requested", {"tool_calls": [call]}))
        return await answer

    async def work(self, turn: str, before: asyncio.Task[None] | None, data: Any) -> None:
        about, text = {"turn_id": turn, "message_id": f"message_{turn}"}, ""
        try:
            if before is not None:
                await asyncio.wait([before])
            asked = data["message"]["id"]
            await self.say(turn, ("turn.started", {"turn_id": turn, "input_message_id": asked}))
            words = data["prompt"].split() or ["nothing"]
            if words[0] in CALLS:
                words = ["answered:", str(await self.call(turn, words[0]))]
            await asyncio.sleep(3600 if words[0] == "wait" else 0)
            for word in words:
                text = f"{text} {word}".strip()
                delta = {**about, "delta": word, "accumulated": text}
                await self.say(turn, ("output.message.delta", delta))
                await asyncio.sleep(PACE_S)
            reply = {
                "id": about["message_id"],
                "role": "agent",
                "created_at": str(datetime.now(UTC)),
            }
            said = {"message": {**reply, "content": [{"type": "text", "text": text}]}}
            end = ("turn.completed", {"turn_id": turn, "iterations": 1})
            await self.say(turn, ("output.message.completed", said), end)
        except asyncio.CancelledError:
            # `AgentClient.run` waits for a turn that completes or fails, and knows no other end.
            await self.say(turn, ("turn.failed", {"turn_id": turn, "error": "cancelled"}))
        await self.say(turn, ("session.idled", {"turn_id": turn}))

    def obey(self, command: Command, tasks: asyncio.TaskGroup) -> bool:
        match command.type:
            case "message.send" if "message" in command.data:
                self.turn = tasks.create_task(self.work(command.id, self.turn, command.data))
            case "abort" if self.turn is not None:
                self.turn.cancel()
            case "prompt.answer" if command.data["request_id"] in self.answers:
                self.answers.pop(command.data["request_id"]).set_result(command.data["answer"])
            case _:
                return False
        return True

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks, host(self.http, self.session) as commands:
                async for command in commands:
                    done = self.obey(command, tasks)
                    await commands.acknowledge(command, "consumed" if done else "rejected")
        except* HubError as gone:
            print(f"{self.session}: {gone.exceptions[0]}", flush=True)


async def main() -> None:
    headers, known = {"Authorization": f"Bearer {KEY}"}, set[str]()
    limits = httpx2.Limits(max_connections=None)
    async with (
        httpx2.AsyncClient(base_url=HUB, headers=headers, limits=limits) as http,
        asyncio.TaskGroup() as agents,
    ):
        while True:
            answer = await http.get("/v1/sessions", params={"limit": 200})
            for session in answer.raise_for_status().json()["data"]:
                if session["id"] not in known and session["catalog"] != "copilot":
                    known.add(session["id"])
                    agents.create_task(Agent(http, session["id"]).run())
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main())
