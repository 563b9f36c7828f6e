"""Who may see, answer and claim prompts, and what is refused how (protocol.md §8, §10, §12)."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import Event, call, copilot, new_session, publish
from tests.contract.prompting import (
    ALLOW,
    answer,
    answered,
    ask,
    claim,
    look,
    open_ids,
    permit,
    prompts,
    status_of,
    tool,
)
from tests.contract.test_commands import acknowledge, hosting, read
from tests.contract.test_publish import check_problem
from tests.contract.wire import Answer, open_stream, request
from tests.hub_process import HubProcess, running_hub

pytestmark = pytest.mark.anyio

TOKEN = {"kind": "token", "accessToken": "s3cret-token"}

KEYS: list[dict[str, Any]] = [
    {"key": "root-of-all", "scopes": ["admin"], "sessions": ["*"], "name": "root"},
    {"key": "agent", "scopes": ["publish"], "sessions": ["*"]},
    {"key": "reader", "scopes": ["read"], "sessions": ["*"]},
    {
        "key": "person",
        "scopes": ["read", "answer"],
        "sessions": ["*"],
        "human": True,
        "name": "Ann",
    },
    {"key": "robot", "scopes": ["read", "answer"], "sessions": ["*"], "name": "bot"},
    {"key": "keeper", "scopes": ["read", "answer"], "sessions": ["*"], "secrets": True},
    {"key": "answers-only", "scopes": ["answer"], "sessions": ["*"], "human": True},
    {"key": "steerer", "scopes": ["steer"], "sessions": ["*"]},
    {"key": "team", "scopes": ["read", "answer"], "sessions": ["team-a-*"], "human": True},
]


@pytest.fixture(scope="module")
def guarded(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[HubProcess]:
    """A hub with a key for each role."""
    file = Path(tmp_path_factory.mktemp("keys"), "keys.json")
    file.write_text(json.dumps(KEYS))
    file.chmod(0o600)
    with running_hub(redis_url, key="", args=["--keys", str(file)]) as hub:
        hub.key = "root-of-all"
        yield hub


def as_(token: str) -> dict[str, str | bytes]:
    return {"Authorization": f"Bearer {token}"}


async def ask_for(hub: HubProcess, token: str, method: str, path: str, body: Any = None) -> Answer:
    content = None if body is None else json.dumps(body).encode()
    return await request(hub, method, path, headers=as_(token), body=content)


def calls(session: str, rid: str) -> list[tuple[str, str, Any, str]]:
    """Every operation on prompts: method, path, body, scope."""
    one = prompts(session, rid)
    return [
        ("GET", prompts(session), None, "read"),
        ("GET", one, None, "read"),
        ("POST", f"{one}/claim", {}, "answer"),
        ("DELETE", f"{one}/claim?claim_id=x", None, "answer"),
        ("POST", f"{one}/answer", {"answer": {"result": "1"}}, "answer"),
    ]


@proves("prompt-scopes")
async def test_reading_needs_read_and_answering_answer(guarded: HubProcess, session: str) -> None:
    await publish(guarded, session, tool("x1"))
    refused = {"agent", "steerer", "", "unknown"}
    for method, path, body, scope in calls(session, "x1"):
        for token in (*refused, "reader", "answers-only"):
            lacks = token in refused or (token == "reader") != (scope == "read")
            if not lacks:
                continue
            answered_with = await ask_for(guarded, token, method, path, body)
            known = token not in ("", "unknown")
            check_problem(
                answered_with, 403 if known else 401, "forbidden" if known else "unauthorized"
            )
    assert await status_of(guarded, session, "x1") == "pending"
    assert (await ask_for(guarded, "agent", "GET", "/v1/prompts")).status == 403
    for method, path, body, scope in calls(session, "x1"):
        token = "reader" if scope == "read" else "answers-only"
        found = await ask_for(guarded, token, method, path, body)
        assert found.status < 300 or found.code == "prompt_claimed", (method, path, found)


@proves("prompt-scopes")
async def test_a_session_of_others_is_not_there(guarded: HubProcess, session: str) -> None:
    mine = new_session("team-a")
    await publish(guarded, session, tool("x1"))
    await publish(guarded, mine, tool("x1"))
    for method, path, body, _ in calls(session, "x1"):
        refused = await ask_for(guarded, "team", method, path, body)
        check_problem(refused, 404, "session_not_found")
    assert await status_of(guarded, session, "x1") == "pending"
    page = (await ask_for(guarded, "team", "GET", "/v1/prompts?limit=200")).json()
    assert {each["session_id"][:7] for each in page["data"]} <= {"team-a-"}
    won = await answer(guarded, mine, "x1", {"result": "1"}, token="team")
    assert won.status == 200


@proves("prompt-refused")
async def test_what_is_not_there_is_a_404_of_its_own(guarded: HubProcess, session: str) -> None:
    other = new_session()
    await publish(guarded, session, tool("x1"))
    for method, path, body, _ in calls(other, "x1"):
        check_problem(
            await ask_for(guarded, "person", method, path, body), 404, "session_not_found"
        )
    await publish(guarded, other, tool("x2"))
    for method, path, body, _ in calls(other, "x1")[1:]:
        # It is asked in another session, which makes no difference here.
        check_problem(await ask_for(guarded, "person", method, path, body), 404, "prompt_not_found")
    for path in ("a.b", "%C3%A9", "x" * 129):
        refused = await ask_for(guarded, "person", "GET", f"/v1/sessions/{path}/prompts/x1")
        check_problem(refused, 400, "invalid_session_id")
    for method in ("PUT", "PATCH"):
        refused = await ask_for(guarded, "person", method, prompts(session, "x1", "answer"), {})
        check_problem(refused, 405, "method_not_allowed")
    assert await open_ids(guarded, session) == ["x1"]


@proves("prompt-refused", "prompt-human")
async def test_a_managed_prompt_is_for_a_person(guarded: HubProcess, session: str) -> None:
    managed = permit("p1", shell={"managedApprovalRequired": True})
    shown = permit("p2", promptRequest={"kind": "commands", "managedApprovalRequired": True})
    await publish(guarded, session, [managed, shown])
    for rid in ("p1", "p2"):
        assert (await look(guarded, session, rid))["human"] is True
        for token in ("robot", "keeper", "root-of-all"):
            refused = await answer(guarded, session, rid, ALLOW, token=token)
            check_problem(refused, 403, "human_required")
        assert await status_of(guarded, session, rid) == "pending"
        won = await answered(guarded, session, rid, ALLOW, token="person")
        assert won["answered_by"]["name"] == "Ann"
        assert won["answered_by"]["human"] is True
        late = await answer(guarded, session, rid, ALLOW, token="robot")
        told = check_problem(late, 409, "prompt_already_answered")
        assert told["answered_by"]["name"] == "Ann"


def oauth(rid: str) -> Event:
    client = {"clientId": "c", "clientSecret": "s3cret-client", "publicClient": False}
    data = {
        "requestId": rid,
        "serverName": "srv",
        "serverUrl": "https://mcp.example.test/mcp",
        "reason": "initial",
        "staticClientConfig": client,
        "httpResponse": {"status": 401, "body": "s3cret-body"},
    }
    return copilot("mcp.oauth_required", data, ephemeral=True)


@proves("prompt-secrets")
async def test_credentials_are_cut_out_of_the_question_and_read_with_the_mark_alone(
    guarded: HubProcess, session: str
) -> None:
    path = f"/v1/sessions/{session}/sse?control=1"
    await publish(guarded, session, oauth("o1"))
    async with open_stream(guarded, path) as stream:
        await stream.until("caught_up")
        assert b"s3cret" not in b"".join(frame.raw for frame in stream.frames)
    prompt = await look(guarded, session, "o1")
    assert prompt["secret"] is True
    assert prompt["event"]["data"]["staticClientConfig"] == {
        "clientId": "c",
        "publicClient": False,
    }
    for found in (
        await call(guarded, "GET", prompts(session)),
        await call(guarded, "GET", "/v1/prompts?limit=200"),
        await call(guarded, "GET", f"/v1/sessions/{session}"),
        prompt,
    ):
        assert "s3cret" not in json.dumps(found)
    one = prompts(session, "o1")
    for token in ("reader", "person", "robot"):
        check_problem(
            await ask_for(guarded, token, "GET", f"{one}?secrets=1"), 403, "secrets_required"
        )
    for token in ("keeper", "root-of-all"):
        found = (await ask_for(guarded, token, "GET", f"{one}?secrets=1")).json()
        assert found["secrets"]["staticClientConfig"]["clientSecret"] == "s3cret-client"
        assert found["secrets"]["httpResponse"]["body"] == "s3cret-body"
    await publish(guarded, session, copilot("mcp.oauth_completed", {"requestId": "o1"}))
    closed = (await ask_for(guarded, "keeper", "GET", f"{one}?secrets=1")).json()
    assert "s3cret" not in json.dumps(closed), "they stand in the record until it closes"


@proves("prompt-secrets")
async def test_credentials_of_an_answer_stand_in_its_command_alone(
    guarded: HubProcess, session: str
) -> None:
    await publish(guarded, session, [oauth("o1"), tool("x")])
    for token in ("person", "robot", "answers-only"):
        refused = await answer(guarded, session, "o1", TOKEN, token=token)
        check_problem(refused, 403, "secrets_required")
    path = f"/v1/sessions/{session}/sse?control=1"
    async with open_stream(guarded, path) as stream:
        await stream.until("caught_up")
        won = await answered(guarded, session, "o1", TOKEN, token="keeper", key="k")
        assert won["answer"] == {"redacted": True}
        assert await answered(guarded, session, "o1", TOKEN, token="keeper", key="k") == won
        await stream.until("mcp.oauth_completed")
        assert b"s3cret" not in b"".join(frame.raw for frame in stream.frames)
    told = check_problem(
        await answer(guarded, session, "o1", TOKEN), 409, "prompt_already_answered"
    )
    assert "s3cret" not in json.dumps(told)
    listed = await call(guarded, "GET", f"{prompts(session)}?status=completed")
    assert "s3cret" not in json.dumps(listed)
    async with hosting(guarded, session) as (host, told_host):
        (command,) = read(await host.take(1))
        assert command["data"]["answer"] == TOKEN
        done = await acknowledge(guarded, session, command["id"], lease=told_host["lease"])
        assert "s3cret" not in done.body.decode()
    receipt = await call(guarded, "GET", f"/v1/sessions/{session}/commands/{command['id']}")
    assert "s3cret" not in json.dumps(receipt)
    assert "s3cret" not in guarded.log_text()


@proves("prompt-claims", "prompt-refused")
async def test_only_what_a_program_answers_can_be_claimed(
    guarded: HubProcess, session: str
) -> None:
    await publish(guarded, session, [permit("p1"), ask("u2"), tool("x3")])
    for rid in ("p1", "u2"):
        check_problem(await claim(guarded, session, rid, token="robot"), 409, "not_claimable")
        gone = await ask_for(
            guarded, "robot", "DELETE", f"{prompts(session, rid, 'claim')}?claim_id=x"
        )
        check_problem(gone, 409, "not_claimable")
    assert (await claim(guarded, session, "x3", token="robot")).status == 200
    shown = await look(guarded, session, "x3")
    assert shown["claim"]["by"] == "bot"
    for body in ({"lease_s": 0}, {"lease_s": 301}, {"lease_s": "30"}, {"odd": 1}):
        refused = await claim(guarded, session, "x3", token="robot", **body)
        check_problem(refused, 422, "invalid_body")
    missing = await ask_for(guarded, "robot", "DELETE", prompts(session, "x3", "claim"))
    assert check_problem(missing, 422, "invalid_body")["pointer"] == "/claim_id"
    await publish(guarded, session, copilot("external_tool.completed", {"requestId": "x3"}))
    late = await claim(guarded, session, "x3", token="robot")
    check_problem(late, 409, "prompt_already_answered")


@pytest.mark.parametrize("key", ["x" * 257, "é", "a\tb"], ids=["long", "accent", "tab"])
@proves("prompt-refused", "prompt-idempotent")
async def test_an_odd_idempotency_key_is_refused(hub: HubProcess, session: str, key: str) -> None:
    await publish(hub, session, permit("p1"))
    headers: dict[str, str | bytes] = {"Idempotency-Key": key.encode()}
    body = json.dumps({"answer": ALLOW}).encode()
    path = prompts(session, "p1", "answer")
    refused = await request(hub, "POST", path, body=body, headers=headers)
    check_problem(refused, 400, "invalid_parameter")
    assert await status_of(hub, session, "p1") == "pending"


@pytest.mark.parametrize("query", ["wait_s=31", "wait_s=-1", "wait_s=x", "secrets=2"])
@proves("prompt-refused")
async def test_an_odd_parameter_is_refused(hub: HubProcess, session: str, query: str) -> None:
    await publish(hub, session, permit("p1"))
    refused = await request(hub, "GET", f"{prompts(session, 'p1')}?{query}")
    check_problem(refused, 400, "invalid_parameter")


async def everywhere(hub: HubProcess, token: str, query: str = "") -> list[tuple[str, str]]:
    """Session and request id of every open prompt that a token may read, page by page."""
    seen: list[tuple[str, str]] = []
    page_token, pages = "", 0
    while page_token is not None:
        path = f"/v1/prompts?page_token={page_token}{query}"
        page = (await ask_for(hub, token, "GET", path)).json()
        seen += [(each["session_id"], each["request_id"]) for each in page["data"]]
        page_token, pages = page["next_page_token"], pages + 1
        assert pages < 500
    return seen


@pytest.mark.parametrize("limit", [1, 3, 200])
@proves("prompt-everywhere")
async def test_the_open_prompts_of_all_sessions_that_a_token_may_read(
    guarded: HubProcess, hub: HubProcess, limit: int
) -> None:
    mine = sorted(new_session("team-a") for _ in range(4))
    theirs = [new_session("team-b") for _ in range(3)]
    wanted: list[tuple[str, str]] = []
    for n, sid in enumerate([*mine, *theirs]):
        names = [f"u{m}" for m in range(n % 3 + 1)]
        await publish(hub, sid, [ask(name) for name in [*names, "closed"]])
        await answered(hub, sid, "closed", {"answer": "x"})
        wanted += [(sid, name) for name in names]
    seen = await everywhere(guarded, "team", f"&limit={limit}")
    assert seen == sorted(seen, key=lambda each: each[0]), "session by session"
    assert len(seen) == len(set(seen))
    assert {each for each in seen if each[0] in mine} == {e for e in wanted if e[0] in mine}
    assert not [sid for sid, _ in seen if not sid.startswith("team-a-")]
    assert set(wanted) <= set(await everywhere(guarded, "reader", "&limit=200"))
    for sid, name in wanted:
        await answered(guarded, sid, name, {"answer": "x"})
    left = set(await everywhere(hub, hub.key, "&limit=200"))
    assert not left & set(wanted)


@proves("prompt-everywhere")
async def test_a_page_of_all_sessions_keeps_a_status_and_refuses_what_is_odd(
    guarded: HubProcess, hub: HubProcess
) -> None:
    sid = new_session("team-a")
    await publish(hub, sid, [tool("x1"), ask("u2")])
    await claim(hub, sid, "x1", lease_s=300)
    held = [each for each in await everywhere(guarded, "team", "&status=claimed") if each[0] == sid]
    assert held == [(sid, "x1")]
    for bad in ("status=completed", "limit=0", "limit=201"):
        refused = await ask_for(guarded, "team", "GET", f"/v1/prompts?{bad}")
        check_problem(refused, 400, "invalid_parameter")
    refused = await ask_for(guarded, "team", "GET", "/v1/prompts?page_token=odd")
    check_problem(refused, 400, "invalid_page_token")
    await call(guarded, "DELETE", f"/v1/sessions/{sid}", status=204)
    assert sid not in dict(await everywhere(guarded, "team"))


@proves("prompt-everywhere", "prompt-scopes")
async def test_a_token_of_another_page_shows_no_session_of_others(
    guarded: HubProcess, hub: HubProcess
) -> None:
    """A page token names a session; whoever sends it must still be allowed to read that one."""
    theirs = new_session("0-first-of-all")
    await publish(hub, theirs, [ask("u1"), ask("u2")])
    page_token = ""
    while True:
        path = f"/v1/prompts?limit=1&page_token={page_token}"
        page = (await ask_for(guarded, "reader", "GET", path)).json()
        page_token = page["next_page_token"]
        if page["data"] and page["data"][0]["session_id"] == theirs:
            break
    path = f"/v1/prompts?limit=200&page_token={page_token}"
    for_all = (await ask_for(guarded, "reader", "GET", path)).json()
    assert (for_all["data"][0]["session_id"], for_all["data"][0]["request_id"]) == (theirs, "u2")
    for_team = (await ask_for(guarded, "team", "GET", path)).json()
    assert theirs not in {each["session_id"] for each in for_team["data"]}
    for name in ("u1", "u2"):
        await answered(hub, theirs, name, {"answer": "x"})
