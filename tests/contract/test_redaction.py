"""What the setting `redact` holds back from tokens that cannot publish (protocol.md §3)."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.events import copilot, events_of, new_session, publish
from tests.contract.rpc_client import open_socket
from tests.contract.wire import open_stream, request
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio

KEYS = [
    {"key": "writes-and-reads", "scopes": ["publish", "read"], "sessions": ["*"]},
    {"key": "only-reads", "scopes": ["read"], "sessions": ["*"]},
]


@pytest.fixture(scope="module")
def redacting(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[HubProcess]:
    file = Path(tmp_path_factory.mktemp("keys"), "keys.json")
    file.write_text(json.dumps(KEYS))
    file.chmod(0o600)
    env = {"redact": "true"}
    with running_hub(redis_url, key="", args=["--keys", str(file)], env=env) as hub:
        hub.key = "writes-and-reads"
        yield hub


@pytest.mark.parametrize(("key", "private"), [("writes-and-reads", True), ("only-reads", False)])
async def test_private_members_and_internal_events_need_publish(
    redacting: HubProcess, key: str, private: bool
) -> None:
    session = new_session()
    data = {"messageId": "m", "content": "c", "reasoningOpaque": "AAAA"}
    await publish(
        redacting,
        session,
        [copilot("model.call_start", {"turnId": "1"}), copilot("assistant.message", data)],
    )
    bearer: dict[str, str | bytes] = {"Authorization": f"Bearer {key}"}
    path = f"/v1/sessions/{session}"
    async with open_stream(redacting, f"{path}/sse?control=1", headers=bearer) as stream:
        streamed = events_of(await stream.until("caught_up"))
    listed = (await request(redacting, "GET", f"{path}/events", headers=bearer)).json()["data"]
    exported = await request(redacting, "GET", f"{path}/export", headers=bearer)
    async with open_socket(redacting, headers={"Authorization": f"Bearer {key}"}) as client:
        await client.call("session.subscribe", session_id=session)
        told = [each["event"] for each in (await client.until("session.caught_up"))[:-1]]
    types = ["model.call_start", "assistant.message"] if private else ["assistant.message"]
    assert [event["type"] for event in streamed] == types
    assert told == streamed
    for event in (streamed[-1], listed[0], json.loads(exported.body)):
        assert ("reasoningOpaque" in event["data"]) == private
        assert event["data"]["content"] == "c"


async def test_a_socket_that_changes_to_a_token_which_sees_less_is_closed(
    redacting: HubProcess,
) -> None:
    session = new_session()
    usage = {"tokenLimit": 9, "currentTokens": 1, "messagesLength": 1, "reasoningOpaque": "AAAA"}
    await publish(redacting, session, copilot("session.usage_info", usage, ephemeral=True))
    async with open_socket(redacting) as client:
        result = await client.call("session.subscribe", session_id=session, from_="now")
        assert [event["data"] for event in result["last"]] == [usage]
        await client.call("authenticate", token="only-reads")
        assert (await client.closed())[0] == 4501
    headers = {"Authorization": "Bearer only-reads"}
    async with open_socket(redacting, headers=headers) as client:
        result = await client.call("session.subscribe", session_id=session, from_="now")
        assert ["reasoningOpaque" in event["data"] for event in result["last"]] == [False]
        await client.call("authenticate", token="writes-and-reads")
        assert await client.call("ping") == {}
