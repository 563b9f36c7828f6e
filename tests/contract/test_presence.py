"""How many watch a session, over all hubs, also when a hub dies (protocol.md §4.4, §6.5)."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, new_session, note, publish
from tests.contract.prompting import answered, ask, look
from tests.contract.wire import eventually, open_stream
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio


async def counts(hub: HubProcess, session: str, viewers: int, what: str) -> None:
    """Wait until a hub tells so many viewers."""

    async def is_so() -> bool:
        seen = await call(hub, "GET", f"/v1/sessions/{session}")
        return bool(seen["viewers"] == viewers)

    await eventually(is_so, what)


@proves("presence-true")
async def test_the_viewers_of_a_killed_hub_are_not_counted_for_ever(redis_url: str) -> None:
    session = new_session()
    settings = {"presence_s": 2}
    with running_hub(redis_url, env=settings) as hub, running_hub(redis_url, env=settings) as dying:
        await publish(hub, session, note())
        async with AsyncExitStack() as stack:
            path = f"/v1/sessions/{session}/sse"
            for n in range(53):
                await stack.enter_async_context(open_stream(hub if n < 3 else dying, path))
            await counts(hub, session, 53, "both hubs count")
            await counts(dying, session, 53, "both hubs count")
            dying.kill()
            await counts(hub, session, 3, "the killed hub's share lapses")
        await counts(hub, session, 0, "everybody has left")


@proves("prompt-unattended")
async def test_a_prompt_that_nobody_can_answer_says_so(
    redis_url: str, hub: HubProcess, other_hub: HubProcess, tmp_path: Path
) -> None:
    session = new_session("00-first-of-all")
    keys = tmp_path / "keys.json"
    scopes = {"watcher": ["read"], "person": ["read", "answer"]}
    entries = [{"key": key, "scopes": given, "sessions": ["*"]} for key, given in scopes.items()]
    keys.write_text(json.dumps(entries))
    await publish(hub, session, [ask("u1"), ask("u2")])

    async def is_(unattended: bool, what: str) -> None:
        async def is_so() -> bool:
            found = [await look(each, session, "u1") for each in (hub, other_hub)]
            return {each["unattended"] for each in found} == {unattended}

        await eventually(is_so, what)

    await is_(True, "nobody is there")
    with running_hub(redis_url, args=["--keys", str(keys)]) as strict:
        path = f"/v1/sessions/{session}/sse"
        watcher = {"Authorization": "Bearer watcher"}
        person = {"Authorization": "Bearer person"}
        async with open_stream(strict, path, headers=watcher):
            await counts(hub, session, 1, "somebody watches")
            await is_(True, "who watches cannot answer")
            async with open_stream(strict, path, headers=person):
                await is_(False, "somebody is there")
                page = await call(hub, "GET", "/v1/prompts?limit=1")
                (first,) = page["data"]
                assert (first["session_id"], first["unattended"]) == (session, False)
            await is_(True, "and has left")
    await answered(hub, session, "u1", {"answer": "x"})
    assert (await look(hub, session, "u1"))["unattended"] is None
