"""How many watch a session, over all hubs, also when a hub dies (protocol.md §4.4, §6.5)."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, new_session, note, publish
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
