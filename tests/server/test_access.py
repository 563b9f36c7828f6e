"""Keys, scopes, patterns, tickets, the sign-in cookie and its Origin check (protocol.md §10)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sessionwire_server.access import Access
from sessionwire_server.api_keys import ApiKeys, KeysError, Principal, covers, must_make_key
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from sessionwire_server.signing import Grant
from sessionwire_server.tickets import TicketRequest, grant_for
from tests.server.conftest import KEY, KEYS, OpenHub, bearer, check_problem, error_of

pytestmark = pytest.mark.anyio

EVENT = {"type": "session.info", "data": {"infoType": "note", "message": "x"}}
OWN = "http://hub.test:8787"


def _keys(tmp_path: Path, content: Any) -> Settings:
    path = tmp_path / "keys.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return Settings(keys_file=path)


ENTRY = {"key": "k", "scopes": ["read"], "sessions": ["*"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ({}, "list"),
        ([ENTRY, 7], "entry 1: "),
        ([{**ENTRY, "key": ""}], "entry 0: key: "),
        ([{**ENTRY, "key": "two words"}], "entry 0: key: "),
        ([{**ENTRY, "key": 7}], "entry 0: key: "),
        ([ENTRY, {**ENTRY, "key": "l", "scopes": ["reed"]}], "entry 1: scopes.0: "),
        ([{**ENTRY, "scopes": []}], "entry 0: scopes: "),
        ([{**ENTRY, "sessions": ["*-x"]}], "entry 0: sessions: '\\*-x'"),
        ([{**ENTRY, "sessions": []}], "entry 0: sessions: "),
        ([{"key": "k", "scopes": ["read"]}], "entry 0: sessions: "),
        ([{**ENTRY, "human": "yes"}], "entry 0: human: "),
        ([{**ENTRY, "extra": 1}], "entry 0: extra: "),
        ([ENTRY, ENTRY], "entry 1: key: the same"),
    ],
    ids=str,
)
def test_a_wrong_keys_file_names_entry_and_member(tmp_path: Path, content: Any, words: str) -> None:
    settings = _keys(tmp_path, content)
    with pytest.raises(KeysError, match=words):
        ApiKeys.load(settings)


def test_a_wrong_keys_file_never_shows_a_key(tmp_path: Path) -> None:
    settings = _keys(tmp_path, [{**ENTRY, "key": "two secret-words"}])
    with pytest.raises(KeysError) as caught:
        ApiKeys.load(settings)
    assert "secret-words" not in str(caught.value)
    with pytest.raises(KeysError, match="cannot read the keys file"):
        ApiKeys.load(Settings(keys_file=tmp_path / "nothing.json"))


def test_keys_are_kept_only_as_hashes(tmp_path: Path) -> None:
    keys = ApiKeys.load(_keys(tmp_path, [{**ENTRY, "key": "the-secret-key"}]))
    assert "the-secret-key" not in repr((keys, keys.principals, keys.by_id))
    assert keys.find("the-secret-key") is not None
    assert keys.find("the-secret-ke") is None
    assert keys.find("") is None
    assert keys.find("\udcff") is None


@pytest.mark.parametrize(
    ("pattern", "wanted", "covered"),
    [
        ("*", "anything", True),
        ("*", "team-*", True),
        ("team-a-*", "team-a-1", True),
        ("team-a-*", "team-a-", True),
        ("team-a-*", "team-a-b-*", True),
        ("team-a-*", "team-a", False),
        ("team-a-*", "team-*", False),
        ("one", "one", True),
        ("one", "one-more", False),
        ("one", "o*", False),
    ],
)
def test_a_pattern_covers_what_begins_like_it(pattern: str, wanted: str, covered: bool) -> None:
    assert covers(pattern, wanted) is covered


def test_admin_may_do_everything_and_read_secrets(tmp_path: Path) -> None:
    keys = ApiKeys.load(_keys(tmp_path, [{**ENTRY, "scopes": ["admin"]}]))
    principal = keys.find("k")
    assert principal is not None
    assert principal.may("publish", "x")
    assert principal.secrets
    assert not principal.human


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8", "[::1]"])
def test_a_hub_without_keys_makes_one_on_loopback(host: str) -> None:
    assert must_make_key(Settings(host=host))
    assert not must_make_key(Settings(host=host, key="k"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "hub.test"])
def test_a_hub_without_keys_refuses_any_other_address(host: str, tmp_path: Path) -> None:
    with pytest.raises(KeysError, match="--keys FILE or --key KEY"):
        must_make_key(Settings(host=host))
    assert not must_make_key(Settings(host=host, keys_file=tmp_path / "k.json"))


async def test_every_spelling_of_a_known_key_is_taken(open_hub: OpenHub, keys_file: Path) -> None:
    async with open_hub(keys_file=keys_file, key="") as client:
        for spelled in ("Bearer reader", "bearer reader", "reader", " Bearer  reader "):
            answer = await client.get("/v1/sessions", headers={"Authorization": spelled})
            assert answer.status_code == 200, spelled
        for wrong in ("", "Bearer", "Bearer wrong", "Basic cmVhZGVy", "reader x", KEY):
            answer = await client.get("/v1/sessions", headers={"Authorization": wrong})
            check_problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_scopes_and_patterns_bound_what_a_key_may_do(
    open_hub: OpenHub, keys_file: Path, sid: str
) -> None:
    inside = f"team-a-{sid}"
    async with open_hub(keys_file=keys_file) as client:
        for name in (sid, inside):
            await client.post(f"/v1/sessions/{name}/events", json=EVENT)
        requests: list[tuple[str, str, str, int]] = [
            ("GET", "", "reader", 200),
            ("GET", "", "publisher", 403),
            ("GET", "/events", "publisher", 403),
            ("POST", "/events", "reader", 403),
            ("POST", "/events", "publisher", 200),
            ("GET", "/events", "admin", 200),
            ("DELETE", "", "publisher", 403),
            ("GET", "/export", "team", 404),
            ("GET", "/events/summary", "team", 404),
            ("POST", "/events", "team", 404),
        ]
        for method, path, key, status in requests:
            answer = await client.request(
                method,
                f"/v1/sessions/{sid}{path}",
                headers=bearer(key),
                json=EVENT if method == "POST" else None,
            )
            assert answer.status_code == status, (method, path, key, answer.text)
            if status >= 400:
                check_problem(answer, status, "forbidden" if status == 403 else "session_not_found")
        stored = await client.get(f"/v1/sessions/{sid}/events")
        assert len(stored.json()["data"]) == 2
        answer = await client.get(f"/v1/sessions/{inside}", headers=bearer("team"))
        assert answer.status_code == 200
        listed = await client.get(f"/v1/sessions?q={sid}", headers=bearer("team"))
        assert [item["id"] for item in listed.json()["data"]] == [inside]
        assert listed.json()["total"] == 1
        for body, code in (({"id": sid}, "session_not_found"), ({}, "forbidden")):
            answer = await client.post("/v1/sessions", json=body, headers=bearer("team"))
            check_problem(answer, 404 if code == "session_not_found" else 403, code)


async def test_a_ticket_opens_streams_on_any_hub_of_the_redis_and_nothing_else(
    open_hub: OpenHub, keys_file: Path, sid: str
) -> None:
    inside = f"team-a-{sid}"
    async with open_hub(keys_file=keys_file) as first, open_hub(keys_file=keys_file) as second:
        made = await first.post("/v1/tickets", headers=bearer("team"))
        assert made.status_code == 201
        ticket = made.json()["ticket"]
        second.headers.pop("authorization")
        # 404 is the answer to whoever may look: the session is not there.
        answer = await second.get(f"/v1/sessions/{inside}/sse?ticket={ticket}")
        check_problem(answer, 404, "session_not_found")
        for path in ("", "/events", "/export"):
            answer = await second.get(f"/v1/sessions/{inside}{path}?ticket={ticket}")
            check_problem(answer, 401, "unauthorized")
        for wrong in (ticket[:-2], f"{ticket}x", "x", "x.y", ".", "é.é", ticket.swapcase()):
            answer = await second.get(f"/v1/sessions/{inside}/sse", params={"ticket": wrong})
            check_problem(answer, 401, "unauthorized")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"scopes": ["publish", "read"]}, 201, ""),
        ({"scopes": ["read"], "ttl_s": 86_400}, 201, ""),
        ({"ttl_s": 86_400}, 201, ""),
        ({"sessions": ["team-a-1", "team-a-b-*"]}, 201, ""),
        ({"scopes": ["publish"], "ttl_s": 61}, 422, "invalid_body"),
        ({"ttl_s": 86_401}, 422, "invalid_body"),
        ({"ttl_s": 0}, 422, "invalid_body"),
        ({"scopes": ["answer"]}, 403, "forbidden"),
        ({"sessions": ["*"]}, 403, "forbidden"),
        ({"sessions": ["team-*"]}, 403, "forbidden"),
        ({"sessions": ["a*b"]}, 422, "invalid_body"),
        ({"scopes": ["all"]}, 422, "invalid_body"),
        ({"scopes": []}, 422, "invalid_body"),
        ({"more": 1}, 422, "invalid_body"),
        ([], 422, "invalid_body"),
        ("{", 400, "malformed_json"),
    ],
    ids=str,
)
async def test_a_ticket_is_never_more_than_its_maker(
    open_hub: OpenHub, keys_file: Path, body: Any, status: int, code: str
) -> None:
    content = body if isinstance(body, str) else json.dumps(body)
    async with open_hub(keys_file=keys_file) as client:
        answer = await client.post("/v1/tickets", content=content, headers=bearer("team"))
    if code:
        check_problem(answer, status, code)
    else:
        assert answer.status_code == status


def test_a_ticket_never_lasts_longer_than_its_maker() -> None:
    soon = time.time() + 5
    maker = Principal("id", frozenset({"read"}), ("*",), expires_at=soon)
    grant = grant_for(maker, TicketRequest(ttl_s=3_600))
    assert grant.expires_at == grant.ends_at == soon


async def test_a_token_ends_with_its_time_and_with_its_key(
    redis_link: RedisLink, keys_file: Path, tmp_path: Path
) -> None:
    access = Access(Settings(keys_file=keys_file), redis_link)
    maker = access.api_keys.find("team")
    assert maker is not None

    def grant(ends_s: float) -> Grant:
        return Grant(maker.id, ("read",), ("team-a-1",), True, False, time.time() + ends_s, None)

    good = await access.signer.sign("ticket", grant(60))
    read = await access.signer.read("ticket", good)
    assert read is not None
    assert (set(read.scopes), read.sessions) == ({"read"}, ("team-a-1",))
    assert read.human
    assert await access.signer.read("sign-in", good) is None
    assert await access.signer.read("ticket", await access.signer.sign("ticket", grant(-1))) is None
    without = Access(_keys(tmp_path, [e for e in KEYS if e["key"] != "team"]), redis_link)
    assert await without.signer.read("ticket", good) is None


async def test_a_token_loses_what_its_key_lost(redis_link: RedisLink, tmp_path: Path) -> None:
    wide = _keys(tmp_path, [{**ENTRY, "scopes": ["read", "publish"], "human": True}])
    access = Access(wide, redis_link)
    maker = access.api_keys.find("k")
    assert maker is not None
    until = time.time() + 60
    grant = Grant(maker.id, ("publish", "read"), ("a-1", "b-1"), True, True, until, None)
    token = await access.signer.sign("sign-in", grant)
    narrow = Access(_keys(tmp_path, [{**ENTRY, "sessions": ["a-*"]}]), redis_link)
    read = await narrow.signer.read("sign-in", token)
    assert read is not None
    assert (set(read.scopes), read.sessions) == ({"read"}, ("a-1",))
    assert not read.human
    assert not read.secrets


async def test_a_secret_lost_with_redis_is_made_anew(
    redis_link: RedisLink, keys_file: Path
) -> None:
    old = Access(Settings(keys_file=keys_file), redis_link)
    maker = old.api_keys.find("team")
    assert maker is not None
    grant = Grant(maker.id, ("read",), ("*",), False, False, time.time() + 60, None)
    await old.signer.sign("ticket", grant)
    await redis_link.command("DEL", "sw:signing-secret")
    new = Access(Settings(keys_file=keys_file), redis_link)
    token = await new.signer.sign("ticket", grant)
    assert await new.signer.read("ticket", token) is not None
    assert await new.signer.read("ticket", await old.signer.sign("ticket", grant)) is not None


async def _signed_in(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/v1/sign-in")
    assert answer.status_code == 204
    client.headers.pop("authorization")
    return answer.headers["set-cookie"]


async def test_the_cookie_is_for_the_browser_alone(open_hub: OpenHub) -> None:
    async with open_hub() as client:
        cookie = await _signed_in(client)
    name, _, rest = cookie.partition("=")
    assert name == "sessionwire_8787"
    attributes = {part.strip().lower() for part in rest.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert "secure" not in attributes
    assert KEY not in cookie
    async with open_hub() as client:
        client.base_url = httpx2.URL("https://hub.test")
        cookie = await _signed_in(client)
    assert cookie.startswith("sessionwire_443=")
    assert "secure" in cookie.lower()


async def test_the_cookie_works_on_every_hub_of_the_redis(open_hub: OpenHub, sid: str) -> None:
    async with open_hub() as first, open_hub() as second:
        cookie = (await _signed_in(first)).split(";")[0]
        second.headers.pop("authorization")
        headers = {"Cookie": cookie, "Origin": OWN}
        answer = await second.post(f"/v1/sessions/{sid}/events", json=EVENT, headers=headers)
        assert answer.status_code == 200
        answer = await second.get("/metrics", headers={"Cookie": cookie})
        assert answer.status_code == 200
        answer = await second.get("/metrics", headers={"Cookie": f"{cookie}x"})
        check_problem(answer, 401, "unauthorized")


async def test_the_cookie_writes_only_from_pages_that_may(open_hub: OpenHub, sid: str) -> None:
    listed = "https://app.example.test"
    path = f"/v1/sessions/{sid}/events"
    async with open_hub(allow_origins=(listed, "*")) as client:
        await _signed_in(client)
        for origin in ("", "https://other.test", "null", "http://hub.test", f"{OWN}.evil.test"):
            headers = {"Origin": origin} if origin else {}
            answer = await client.post(path, json=EVENT, headers=headers)
            check_problem(answer, 403, "bad_origin")
            answer = await client.delete("/v1/sign-in", headers=headers)
            check_problem(answer, 403, "bad_origin")
            assert (await client.get("/v1/sessions", headers=headers)).status_code == 200
            assert (await client.head("/v1/sessions", headers=headers)).status_code == 200
        for origin in (OWN, OWN.upper(), listed):
            answer = await client.post(path, json=EVENT, headers={"Origin": origin})
            assert answer.status_code == 200, origin
        # A key says who asks by itself; where the page comes from is no matter then.
        headers = {"Origin": "https://other.test", "Authorization": f"Bearer {KEY}"}
        assert (await client.post(path, json=EVENT, headers=headers)).status_code == 200


async def test_signing_out_drops_the_cookie(open_hub: OpenHub) -> None:
    async with open_hub() as client:
        await _signed_in(client)
        answer = await client.delete("/v1/sign-in", headers={"Origin": OWN})
        assert answer.status_code == 204
        assert "max-age=0" in answer.headers["set-cookie"].lower()
        check_problem(await client.get("/v1/sessions"), 401, "unauthorized")
        assert (await client.delete("/v1/sign-in")).status_code == 204


@pytest.mark.parametrize("host", ["", "hub.test:x", "[::1", "a b", "hub.test:99999999"])
async def test_a_strange_host_header_is_no_fault(open_hub: OpenHub, host: str) -> None:
    async with open_hub() as client:
        client.headers.pop("authorization")
        headers = {"Host": host, "Cookie": "sessionwire_80=x; sessionwire_8787=x"}
        check_problem(await client.get("/v1/sessions", headers=headers), 401, "unauthorized")


def test_a_principal_outside_its_patterns_is_told_of_no_session() -> None:
    principal = Principal("id", frozenset({"read"}), ("a-*",))
    error = error_of(lambda: principal.require("read", "b-1"))
    assert error is not None
    assert (error.status, error.code) == (404, "session_not_found")
    error = error_of(lambda: principal.require("publish", "b-1"))
    assert error is not None
    assert (error.status, error.code) == (403, "forbidden")
