"""Who may open a WebSocket, how much it may do, and how it ends (protocol.md §7, §10, §11)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Generator
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from sessionwire_server.api_keys import ApiKeys
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.signing import Grant, Signer
from tests.contract._requirements import proves
from tests.contract.events import call, new_session, note, publish
from tests.contract.rpc_client import Refused, open_socket
from tests.contract.wire import request
from tests.hub_process import KEY, HubProcess, running_hub

pytestmark = pytest.mark.anyio

NOBODY = {"Authorization": ""}
PAGE = "https://page.test"
KEYS: list[dict[str, Any]] = [
    {"key": KEY, "scopes": ["read", "publish", "admin"], "sessions": ["*"]},
    {"key": "team-reader", "scopes": ["read"], "sessions": ["team-*"]},
    {"key": "publisher", "scopes": ["publish"], "sessions": ["*"]},
]


@pytest.fixture(scope="module", params=["auto", "portable"])
def hub(
    request: pytest.FixtureRequest, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[HubProcess]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps(KEYS))
    env = {
        "send_mode": request.param,
        "keys": keys,
        "allow_origin": PAGE,
        "authenticate_s": 0.5,
        "max_sessions_per_connection": 3,
        "max_calls_per_s": 20,
        "max_message_bytes": 100_000,
    }
    with running_hub(redis_url, key="", env=env) as hub:
        hub.key = KEY
        yield hub


async def ticket(hub: HubProcess, **members: Any) -> str:
    made = await call(hub, "POST", "/v1/tickets", status=201, body=json.dumps(members).encode())
    return str(made["ticket"])


@proves("ws-access")
async def test_key_ticket_and_bare_key_open_a_connection(hub: HubProcess) -> None:
    async with open_socket(hub) as client:
        assert await client.call("ping") == {}
    async with open_socket(hub, headers={"Authorization": KEY}) as client:
        assert await client.call("ping") == {}
    path = f"/v1/ws?ticket={await ticket(hub, scopes=['read'])}"
    async with open_socket(hub, path=path, headers=NOBODY) as client:
        assert await client.call("ping") == {}
        with pytest.raises(Refused) as refused:
            await client.call("session.publish", session_id=new_session(), events=note())
        assert (refused.value.word, refused.value.data["scope"]) == ("forbidden", "publish")
    log = hub.log_text()
    assert "ticket=" not in log
    assert KEY not in log


@proves("ws-access")
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/v1/ws", {"Authorization": "Bearer wrong"}, id="header"),
        pytest.param("/v1/ws?ticket=wr.ong", NOBODY, id="ticket"),
    ],
)
async def test_a_bad_token_is_accepted_and_closed_with_4500(
    hub: HubProcess, path: str, headers: dict[str, str]
) -> None:
    async with open_socket(hub, path=path, headers=headers) as client:
        assert await client.closed() == (4500, [])


@proves("ws-access")
async def test_authenticate_opens_what_has_no_token(hub: HubProcess) -> None:
    for token in (KEY, await ticket(hub)):
        async with open_socket(hub, headers=NOBODY) as client:
            assert await client.call("authenticate", token=token) == {"expires_at": None}
            await asyncio.sleep(0.8)  # beyond the time that it had
            assert await client.call("sessions.subscribe") == {}


@proves("ws-access")
async def test_no_token_in_time_a_bad_one_and_another_call_first_close_with_4500(
    hub: HubProcess,
) -> None:
    async with open_socket(hub, headers=NOBODY) as client:
        started = time.monotonic()
        assert await client.closed() == (4500, [])
        assert 0.4 <= time.monotonic() - started < 5
    for method, params in (("authenticate", {"token": "wrong"}), ("ping", {}), ("nope", {})):
        async with open_socket(hub, headers=NOBODY) as client:
            with pytest.raises(Refused) as refused:
                await client.call(method, **params)
            assert (refused.value.word, refused.value.data["status"]) == ("unauthorized", 401)
            assert await client.closed() == (4500, [])
    async with open_socket(hub, headers=NOBODY) as client:
        await client.send("x" * 70_000)
        assert (await client.closed())[0] == 1009


async def test_a_token_sees_its_own_sessions_and_does_what_its_scopes_say(hub: HubProcess) -> None:
    ours, theirs = new_session("team"), new_session("other")
    for session in (ours, theirs):
        await publish(hub, session, note())
    async with open_socket(hub, headers={"Authorization": "team-reader"}) as client:
        await client.call("session.subscribe", session_id=ours)
        with pytest.raises(Refused) as refused:
            await client.call("session.subscribe", session_id=theirs)
        assert (refused.value.word, refused.value.data["status"]) == ("session_not_found", 404)
        with pytest.raises(Refused) as refused:
            await client.call("session.publish", session_id=ours, events=note())
        assert refused.value.word == "forbidden"
        await client.until("session.caught_up")
        assert await client.call("sessions.subscribe") == {}
        snapshot = (await client.note())[1]["data"]
        assert ours in {each["id"] for each in snapshot}
        assert all(each["id"].startswith("team-") for each in snapshot)
    async with open_socket(hub, headers={"Authorization": "publisher"}) as client:
        with pytest.raises(Refused) as refused:
            await client.call("session.subscribe", session_id=ours)
        assert refused.value.word == "forbidden"
        with pytest.raises(Refused) as refused:
            await client.call("sessions.subscribe")
        assert refused.value.word == "forbidden"


@proves("ws-access")
async def test_a_new_token_that_may_not_see_what_is_followed_closes_with_4501(
    hub: HubProcess,
) -> None:
    session = new_session("other")
    await publish(hub, session, note())
    async with open_socket(hub) as client:
        await client.call("session.subscribe", session_id=session)
        await client.until("session.caught_up")
        with pytest.raises(Refused) as refused:
            await client.call("authenticate", token="wrong")
        assert refused.value.word == "unauthorized"
        assert await client.call("authenticate", token=KEY) == {"expires_at": None}
        assert await client.call("authenticate", token="team-reader") == {"expires_at": None}
        assert await client.closed() == (4501, [])


@proves("ws-origin")
async def test_pages_must_be_listed_whatever_their_token(hub: HubProcess) -> None:
    own = f"http://{hub.host}:{hub.port}"
    for origin in (PAGE, own, PAGE.upper()):
        async with open_socket(hub, headers={"Origin": origin}) as client:
            assert await client.call("ping") == {}
    for origin in ("https://evil.test", "null", f"{own}0", "http://"):
        with pytest.raises(InvalidStatus) as refused:
            async with open_socket(hub, headers={"Origin": origin}):
                raise AssertionError(f"{origin} opened it")
        answer = refused.value.response
        assert (answer.status_code, json.loads(answer.body)["code"]) == (403, "bad_origin")


@proves("ws-origin")
async def test_the_cookie_opens_a_connection_for_the_hubs_own_page_only(hub: HubProcess) -> None:
    own = f"http://{hub.host}:{hub.port}"
    signed = await request(hub, "POST", "/v1/sign-in", headers={"Origin": own})
    cookie = {"Cookie": signed.headers["set-cookie"].partition(";")[0], **NOBODY}
    async with open_socket(hub, headers={**cookie, "Origin": own}) as client:
        assert await client.call("ping") == {}
    with pytest.raises(InvalidStatus) as refused:
        async with open_socket(hub, headers=cookie):
            raise AssertionError("a cookie without an Origin opened it")
    assert refused.value.response.status_code == 403
    # A cookie that is worth nothing is as good as none: authenticate may still come.
    stale = {"Cookie": cookie["Cookie"][:-4] + "AAAA", "Origin": own, **NOBODY}
    async with open_socket(hub, headers=stale) as client:
        assert await client.call("authenticate", token=KEY) == {"expires_at": None}


async def test_a_subprotocol_that_is_not_ours_closes_with_4502(hub: HubProcess) -> None:
    async with open_socket(hub, subprotocols=[Subprotocol("graphql-ws")]) as client:
        assert (await client.closed())[0] == 4502


async def test_a_plain_get_is_answered_426(hub: HubProcess) -> None:
    answer = await request(hub, "GET", "/v1/ws")
    assert (answer.status, answer.code) == (426, "upgrade_required")
    assert answer.headers["upgrade"] == "websocket"


@proves("ws-limits")
async def test_sessions_and_calls_of_a_connection_are_limited(hub: HubProcess) -> None:
    async with open_socket(hub) as client:
        sessions = [new_session() for _ in range(4)]
        for session in sessions:
            await publish(hub, session, note())
        for session in sessions[:3]:
            await client.call("session.subscribe", session_id=session)
        with pytest.raises(Refused) as refused:
            await client.call("session.subscribe", session_id=sessions[3])
        assert (refused.value.word, refused.value.data["status"]) == ("too_many_sessions", 429)
        await client.call("session.unsubscribe", session_id=sessions[0])
        await client.call("session.subscribe", session_id=sessions[3])
    async with open_socket(hub) as client:
        batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(60)]
        await client.send(batch)
        answers = [await client.receive() for _ in batch]
        refusals = [each for each in answers if "error" in each]
        assert [each["id"] for each in answers] == list(range(60))
        assert 30 <= len(refusals) <= 40
        assert refusals[0]["error"]["data"] == {
            "code": "rate_limited",
            "status": 429,
            "retry_after": 1,
        }
        await asyncio.sleep(0.2)
        assert await client.call("ping") == {}


@proves("ws-limits")
async def test_connections_of_a_token_and_viewers_of_a_session_are_limited(redis_url: str) -> None:
    session = new_session()
    env = {"max_connections_per_token": 2, "max_viewers_per_session": 1}
    with running_hub(redis_url, env=env) as hub:
        await publish(hub, session, note())
        async with open_socket(hub) as first, open_socket(hub) as second:
            await first.call("session.subscribe", session_id=session)
            with pytest.raises(Refused) as full:
                await second.call("session.subscribe", session_id=session)
            assert (full.value.word, full.value.data["status"]) == ("too_many_viewers", 429)
            assert full.value.data["retry_after"] >= 1
            with pytest.raises(InvalidStatus) as refused:
                async with open_socket(hub):
                    raise AssertionError("a third connection was opened")
            assert refused.value.response.status_code == 429
            assert "retry-after" in refused.value.response.headers
            async with open_socket(hub, headers=NOBODY) as third:
                with pytest.raises(Refused) as full:
                    await third.call("authenticate", token=hub.key)
                assert full.value.word == "too_many_connections"
                assert await third.closed() == (1013, [])
            await first.call("session.unsubscribe", session_id=session)
            await second.call("session.subscribe", session_id=session)
        async with open_socket(hub) as client:
            assert await client.call("ping") == {}


@proves("ws-ends")
@pytest.mark.parametrize("mode", ["auto", "portable"])
async def test_old_connections_are_cycled(redis_url: str, session: str, mode: str) -> None:
    with running_hub(redis_url, env={"max_connection_s": 1, "send_mode": mode}) as hub:
        await publish(hub, session, note())
        async with open_socket(hub) as client:
            await client.call("session.subscribe", session_id=session)
            await client.until("session.caught_up")
            code, before = await client.closed()
    assert code == 4002
    (told,) = before
    assert told["method"] == "disconnecting"
    assert told["params"]["reason"] == "connection_cycle"
    assert 100 <= told["params"]["retry_ms"] <= 500


@proves("ws-ends")
@pytest.mark.parametrize("mode", ["auto", "portable"])
async def test_draining_tells_everybody_and_closes_with_4000(
    redis_url: str, session: str, mode: str
) -> None:
    with running_hub(redis_url, env={"send_mode": mode}) as hub:
        await publish(hub, session, note())
        async with open_socket(hub) as watching, open_socket(hub) as idle:
            await watching.call("session.subscribe", session_id=session)
            await watching.until("session.caught_up")
            await idle.call("ping")
            async with open_socket(hub, headers=NOBODY) as stranger:
                hub.terminate()
                for client in (watching, idle, stranger):
                    code, before = await client.closed()
                    assert code == 4000
                    (told,) = before
                    assert told["params"]["reason"] == "shutdown"
                    assert 1_000 <= told["params"]["retry_ms"] <= 3_000
        hub.wait(10)


async def ending_ticket(hub: HubProcess, link: RedisLink, ends_at: float) -> str:
    """A ticket that stands on a token which ends; keys do not."""
    keys = ApiKeys.load(Settings(key=hub.key))
    (key_id,) = keys.by_id
    grant = Grant(key_id, ("read",), ("*",), False, False, time.time() + 60, ends_at)
    return await Signer(link, keys).sign("ticket", grant)


@proves("ws-ends")
async def test_an_expired_token_closes_with_4503_unless_another_has_its_place(
    hub: HubProcess, redis_link: RedisLink
) -> None:
    ends_at = time.time() + 2
    token = await ending_ticket(hub, redis_link, ends_at)
    path = f"/v1/ws?ticket={token}"
    async with (
        open_socket(hub, path=path, headers=NOBODY) as ending,
        open_socket(hub, headers=NOBODY) as told,
        open_socket(hub, path=path, headers=NOBODY) as renewed,
    ):
        assert (await told.call("authenticate", token=token))["expires_at"].endswith("Z")
        assert await renewed.call("authenticate", token=KEY) == {"expires_at": None}
        for client in (ending, told):
            code, before = await client.closed()
            assert code == 4503
            assert [each["params"] for each in before] == [{"reason": "token_expired"}]
        assert ends_at <= time.time() <= ends_at + 3
        assert await renewed.call("ping") == {}
    async with open_socket(hub, path=path, headers=NOBODY) as client:
        assert (await client.closed())[0] in (4500, 4503)
