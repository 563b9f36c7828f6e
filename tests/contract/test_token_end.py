"""A stream ends with the token that opened it (docs/protocol.md, access)."""

from __future__ import annotations

import time

import pytest

from sessionwire_server.access import Access
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.signing import Grant
from tests.contract._requirements import proves
from tests.contract.events import note, publish
from tests.contract.wire import open_stream, request
from tests.hub_process import KEY, HubProcess

pytestmark = pytest.mark.anyio

LASTS_S = 1.5


async def ticket_that_ends(redis_url: str, ends_at: float) -> str:
    """A ticket whose maker's own token ends then, signed as any hub on that Redis signs."""
    settings = Settings(redis_url=redis_url, key=KEY)
    async with RedisLink(settings) as link:
        access = Access(settings, link)
        maker = access.api_keys.find(KEY)
        assert maker is not None
        grant = Grant(maker.id, ("read",), ("*",), False, False, ends_at, ends_at)
        return await access.signer.sign("ticket", grant)


@pytest.mark.parametrize("stream", ["{session}/sse", "{session}/sse?control=1", "sse"])
@proves("tickets", "token-end")
async def test_stream_ends_with_its_token_and_says_so(
    hub: HubProcess, redis_url: str, session: str, stream: str
) -> None:
    await publish(hub, session, note())
    ends_at = time.time() + LASTS_S
    ticket = await ticket_that_ends(redis_url, ends_at)
    path = "/v1/sessions/" + stream.format(session=session)
    path += f"{'&' if '?' in path else '?'}ticket={ticket}"
    no_key = {"Authorization": ""}
    async with open_stream(hub, path, headers=no_key) as opened:
        frames = await opened.drain()
    assert frames[-1].event == "disconnecting"
    assert frames[-1].json()["reason"] == "token_expired"
    assert 0 <= time.time() - ends_at < 1
    assert (await request(hub, "GET", path, headers=no_key)).status == 401, "a browser stops"
