"""Keys, scopes, patterns, tickets, origins (protocol.md §10)."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, note, publish
from tests.contract.test_publish import check_problem
from tests.contract.wire import open_stream, request
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio

ORIGIN = "https://app.example.test"

KEYS: list[dict[str, Any]] = [
    {"key": "reader-of-all", "scopes": ["read"], "sessions": ["*"]},
    {"key": "writer-of-all", "scopes": ["publish"], "sessions": ["*"]},
    {"key": "team-reader", "scopes": ["read"], "sessions": ["team-a-*"]},
    {"key": "root-of-all", "scopes": ["admin", "read", "publish"], "sessions": ["*"]},
]


@pytest.fixture(scope="module")
def guarded(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[HubProcess]:
    """A hub with several keys and one listed origin."""
    file = Path(tmp_path_factory.mktemp("keys"), "keys.json")
    file.write_text(json.dumps(KEYS))
    file.chmod(0o600)
    args = ["--keys", str(file), "--allow-origin", ORIGIN]
    with running_hub(redis_url, key="", args=args) as hub:
        hub.key = "root-of-all"
        yield hub


def bearer(key: str) -> dict[str, str | bytes]:
    return {"Authorization": f"Bearer {key}"}


@proves("key-forms")
async def test_key_is_taken_with_and_without_bearer(guarded: HubProcess, session: str) -> None:
    await publish(guarded, session, note())
    path = f"/v1/sessions/{session}"
    for spelled in ("Bearer reader-of-all", "bearer reader-of-all", "reader-of-all"):
        answer = await request(guarded, "GET", path, headers={"Authorization": spelled})
        assert answer.status == 200, spelled


@pytest.mark.parametrize("wrong", ["", "Bearer wrong", "wrong", "Basic abc", "Bearer ", "Bearer é"])
@proves("key-forms", "problem-body")
async def test_wrong_key_is_401(guarded: HubProcess, session: str, wrong: str) -> None:
    await publish(guarded, session, note())
    headers: dict[str, str | bytes] = {"Authorization": wrong}
    for path in (f"/v1/sessions/{session}", f"/v1/sessions/{session}/sse", "/v1/sessions"):
        check_problem(await request(guarded, "GET", path, headers=headers), 401, "unauthorized")
    body = json.dumps(note()).encode()
    path = f"/v1/sessions/{session}/events"
    answer = await request(guarded, "POST", path, headers=headers, body=body)
    check_problem(answer, 401, "unauthorized")
    assert len((await call(guarded, "GET", path))["data"]) == 1


@proves("scopes", "publish-atomic")
async def test_missing_scope_is_403(guarded: HubProcess, session: str) -> None:
    await publish(guarded, session, note())
    path = f"/v1/sessions/{session}"
    body = json.dumps(note()).encode()
    refused = [
        ("POST", f"{path}/events", "reader-of-all", body),
        ("DELETE", path, "reader-of-all", None),
        ("GET", f"{path}/sse", "writer-of-all", None),
        ("GET", f"{path}/events", "writer-of-all", None),
        ("GET", f"{path}/export", "writer-of-all", None),
        ("GET", "/metrics", "reader-of-all", None),
    ]
    for method, where, key, content in refused:
        answer = await request(guarded, method, where, headers=bearer(key), body=content)
        check_problem(answer, 403, "forbidden")
    assert len((await call(guarded, "GET", f"{path}/events"))["data"]) == 1


@proves("patterns")
async def test_session_outside_the_patterns_is_404(guarded: HubProcess, session: str) -> None:
    inside = f"team-a-{session}"
    for name in (inside, session):
        await publish(guarded, name, note())
    key = bearer("team-reader")
    await call(guarded, "GET", f"/v1/sessions/{inside}", headers=key)
    for path in ("", "/events", "/sse", "/export", "/events/summary"):
        answer = await request(guarded, "GET", f"/v1/sessions/{session}{path}", headers=key)
        check_problem(answer, 404, "session_not_found")
    page = await call(guarded, "GET", f"/v1/sessions?q={session}", headers=key)
    assert [item["id"] for item in page["data"]] in ([inside], [])


@proves("tickets", "query-secrets")
async def test_ticket_opens_a_stream_and_nothing_more(guarded: HubProcess, session: str) -> None:
    inside = f"team-a-{session}"
    for name in (inside, session):
        await publish(guarded, name, note())
    body = json.dumps({"scopes": ["read"], "ttl_s": 60}).encode()
    made = await call(
        guarded, "POST", "/v1/tickets", status=201, headers=bearer("team-reader"), body=body
    )
    ticket = made["ticket"]
    nobody: dict[str, str | bytes] = {"Authorization": ""}
    query = f"?ticket={ticket}&token=never-log-this"
    async with open_stream(guarded, f"/v1/sessions/{inside}/sse{query}", headers=nobody) as stream:
        assert (await stream.take(2))[0].event == "connected"
    answer = await request(guarded, "GET", f"/v1/sessions/{session}/sse{query}", headers=nobody)
    check_problem(answer, 404, "session_not_found")
    content = json.dumps(note()).encode()
    path = f"/v1/sessions/{inside}/events?ticket={ticket}"
    answer = await request(guarded, "POST", path, headers=nobody, body=content)
    assert answer.status in (401, 403), answer
    answer = await request(guarded, "GET", f"/v1/sessions/{inside}/sse?ticket=x", headers=nobody)
    check_problem(answer, 401)
    more = json.dumps({"scopes": ["publish"], "ttl_s": 60}).encode()
    answer = await request(guarded, "POST", "/v1/tickets", headers=bearer("team-reader"), body=more)
    assert answer.status in (400, 403, 422), answer
    log = guarded.log_text()
    for secret in (ticket, "never-log-this", "team-reader"):
        assert secret not in log


@proves("cors")
async def test_listed_origins_are_allowed_on_errors_too(guarded: HubProcess, session: str) -> None:
    await publish(guarded, session, note())
    path = f"/v1/sessions/{session}"
    for where, status in ((path, 200), ("/v1/sessions/nothing", 404)):
        listed = await request(guarded, "GET", where, headers={"Origin": ORIGIN})
        assert listed.status == status
        assert listed.headers["access-control-allow-origin"] == ORIGIN
        assert "origin" in listed.headers["vary"].lower()
        exposed = listed.headers["access-control-expose-headers"].lower()
        assert all(name in exposed for name in ("x-total-count", "retry-after", "location"))
        other = await request(guarded, "GET", where, headers={"Origin": "https://evil.test"})
        assert "access-control-allow-origin" not in other.headers
    wrong: dict[str, str | bytes] = {"Origin": ORIGIN, "Authorization": "wrong"}
    answer = await request(guarded, "GET", path, headers=wrong)
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    async with open_stream(guarded, f"{path}/sse", headers={"Origin": ORIGIN}) as stream:
        assert stream.headers["access-control-allow-origin"] == ORIGIN


@proves("cors")
async def test_preflight_needs_no_key(guarded: HubProcess, session: str) -> None:
    asked: dict[str, str | bytes] = {
        "Authorization": "",
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, last-event-id",
    }
    answer = await request(guarded, "OPTIONS", f"/v1/sessions/{session}/events", headers=asked)
    assert answer.status in (200, 204)
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    allowed = answer.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type", "last-event-id"))
    asked["Origin"] = "https://evil.test"
    answer = await request(guarded, "OPTIONS", f"/v1/sessions/{session}/events", headers=asked)
    assert "access-control-allow-origin" not in answer.headers


@proves("sign-in")
async def test_cookie_writes_only_with_an_own_or_listed_origin(
    guarded: HubProcess, session: str
) -> None:
    await publish(guarded, session, note())
    headers: dict[str, str | bytes] = {**bearer("root-of-all"), "Origin": guarded.url}
    answer = await request(guarded, "POST", "/v1/sign-in", headers=headers, body=b"{}")
    assert 200 <= answer.status < 300, answer
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"sessionwire_{guarded.port}=")
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    carried: dict[str, str | bytes] = {"Authorization": "", "Cookie": cookie.split(";")[0]}
    path = f"/v1/sessions/{session}/events"
    assert (await request(guarded, "GET", path, headers=carried)).status == 200
    body = json.dumps(note()).encode()
    for origin in ("", "https://evil.test", "null"):
        given = {**carried, **({"Origin": origin} if origin else {})}
        answer = await request(guarded, "POST", path, headers=given, body=body)
        check_problem(answer, 403, "bad_origin")
    for origin in (guarded.url, ORIGIN):
        given = {**carried, "Origin": origin}
        answer = await request(
            guarded, "POST", path, headers=given, body=json.dumps(note()).encode()
        )
        assert answer.status == 200, (origin, answer)
    async with open_stream(guarded, f"/v1/sessions/{session}/sse", headers=carried) as stream:
        assert (await stream.next()).event == "connected"


@proves("ready", "metrics-open")
async def test_only_health_and_the_document_are_open(guarded: HubProcess) -> None:
    nobody: dict[str, str | bytes] = {"Authorization": ""}
    for path in ("/livez", "/readyz", "/openapi.json", "/"):
        assert (await request(guarded, "GET", path, headers=nobody)).status == 200, path
    check_problem(await request(guarded, "GET", "/metrics", headers=nobody), 401)
    assert (await request(guarded, "GET", "/metrics")).status == 200
