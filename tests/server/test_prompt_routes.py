"""The prompt routes in process: what they are called, described and bounded by (protocol.md §8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jsonschema_rs
import pytest

from sessionwire_server.app import create_app
from sessionwire_server.settings import Settings
from tests.contract.wire import eventually
from tests.redis_process import RedisProcess
from tests.server.conftest import KEY, OpenHub, bearer, check_problem

pytestmark = pytest.mark.anyio

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def ask(*ids: str) -> list[dict[str, Any]]:
    """Questions, by their request ids."""
    return [
        {
            "type": "external_tool.requested",
            "data": {"requestId": rid, "sessionId": "s", "toolCallId": rid, "toolName": "look"},
        }
        for rid in ids
    ]


async def publish(client: httpx2.AsyncClient, sid: str, events: list[dict[str, Any]]) -> None:
    answer = await client.post(f"/v1/sessions/{sid}/events", json=events)
    assert answer.status_code == 200, answer.text


async def test_answers_are_what_the_document_says(client: httpx2.AsyncClient, sid: str) -> None:
    components = (await client.get("/openapi.json")).json()["components"]

    def check(name: str, content: Any) -> None:
        reference = f"#/components/schemas/{name}"
        schema = {"$schema": DRAFT_2020, "$ref": reference, "components": components}
        jsonschema_rs.validator_for(schema).validate(content)

    path = f"/v1/sessions/{sid}/prompts"
    await publish(client, sid, ask("a", "b", "c"))
    check("PromptPage", (await client.get(path)).json())
    check("PromptPage", (await client.get("/v1/prompts")).json())
    check("Prompt", (await client.get(f"{path}/a")).json())
    claim = (await client.post(f"{path}/a/claim")).json()
    check("PromptClaim", claim)
    check("Prompt", (await client.get(f"{path}/a")).json())
    body = {"answer": {"result": "1"}, "comment": "c", "claim_id": claim["claim_id"]}
    check("AnswerPrompt", body)
    answered = (await client.post(f"{path}/a/answer", json=body)).json()
    assert answered["comment"] == "c"
    check("Prompt", answered)
    check("Problem", (await client.post(f"{path}/a/answer", json=body)).json())
    check("Problem", (await client.post(f"{path}/b/answer", json={"answer": 1})).json())
    await publish(client, sid, [{"type": "session.shutdown", "data": {"shutdownType": "routine"}}])
    page = (await client.get(f"{path}?status=orphaned&status=completed&limit=1")).json()
    check("PromptPage", page)
    assert page["next_page_token"]


async def test_requests_are_counted_under_the_route_s_own_name(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await publish(client, sid, ask("a/b"))
    path = f"/v1/sessions/{sid}/prompts"
    for method, rest in (
        ("GET", ""),
        ("GET", "/a%2Fb"),
        ("POST", "/a%2Fb/claim"),
        ("DELETE", "/a%2Fb/claim?claim_id=x"),
        ("POST", "/a%2Fb/answer"),
    ):
        await client.request(method, path + rest)
    await client.get("/v1/prompts")
    text = (await client.get("/metrics")).text
    route = "/v1/sessions/{sid}/prompts"
    for method, name, status in (
        ("GET", route, 200),
        ("GET", f"{route}/{{rid}}", 200),
        ("POST", f"{route}/{{rid}}/claim", 200),
        ("DELETE", f"{route}/{{rid}}/claim", 409),
        ("POST", f"{route}/{{rid}}/answer", 409),
        ("GET", "/v1/prompts", 200),
    ):
        assert f'method="{method}",route="{name}",status="{status}"}} 1.0' in text
    assert "a%2Fb" not in text
    assert sid not in text


async def test_head_shows_no_prompt_and_both_prefixes_are_the_same(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await publish(client, sid, ask("a"))
    for path in (f"/v1/sessions/{sid}/prompts", f"/v1/sessions/{sid}/prompts/a", "/v1/prompts"):
        for prefix in ("", "/api"):
            assert (await client.get(prefix + path)).status_code == 200
            assert (await client.head(prefix + path)).status_code == 200
    answer = await client.put(f"/v1/sessions/{sid}/prompts/a/answer")
    check_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "OPTIONS, POST"


async def test_a_body_that_is_too_large_or_no_json_is_refused(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await publish(client, sid, ask("a"))
    path = f"/v1/sessions/{sid}/prompts/a/answer"
    huge = json.dumps({"answer": {"result": "x" * 1_048_576}})
    check_problem(await client.post(path, content=huge), 413, "body_too_large")
    text = {"Content-Type": "text/plain"}
    check_problem(await client.post(path, content="x", headers=text), 415, "unsupported_media_type")
    assert (await client.get(f"{path[:-7]}")).json()["status"] == "pending"


async def test_who_only_reads_sees_no_private_member_of_an_opener_where_that_is_set(
    open_hub: OpenHub, keys_file: Path, own_redis: RedisProcess, sid: str
) -> None:
    asked = ask("a")
    asked[0]["data"]["encryptedContent"] = "private"
    given = {"redact": True, "keys_file": str(keys_file), "redis_url": own_redis.url}
    async with open_hub(**given) as client:
        await publish(client, sid, asked)
        for path in (f"/v1/sessions/{sid}/prompts", "/v1/prompts"):
            answer = await client.get(path, headers=bearer("reader"))
            assert sid in answer.text
            assert "private" not in answer.text
        assert "private" in (await client.get(f"/v1/sessions/{sid}/prompts/a")).text


async def test_a_draining_hub_keeps_nobody_waiting(redis_url: str, sid: str) -> None:
    app = create_app(Settings.model_validate({"redis_url": redis_url, "key": KEY}))
    transport = httpx2.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client,
    ):
        await publish(client, sid, ask("a"))
        found: list[Any] = []

        async def wait() -> None:
            answer = await client.get(f"/v1/sessions/{sid}/prompts/a?wait_s=30", timeout=40)
            found.append(answer.json()["status"])

        async def waits() -> bool:
            return sid in app.state.hub.fan_out.channels

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await eventually(waits, "somebody waits")
                app.state.hub.begin_drain()
        assert found == ["pending"]


async def test_without_redis_every_route_says_so(open_hub: OpenHub, sid: str) -> None:
    async with open_hub(redis_url="redis://127.0.0.1:1") as client:
        path = f"/v1/sessions/{sid}/prompts"
        for method, rest in (
            ("GET", path),
            ("GET", "/v1/prompts"),
            ("GET", f"{path}/a"),
            ("GET", f"{path}/a?wait_s=5"),
            ("POST", f"{path}/a/claim"),
            ("DELETE", f"{path}/a/claim?claim_id=x"),
            ("POST", f"{path}/a/answer"),
        ):
            answer = await client.request(method, rest)
            check_problem(answer, 503, "redis_unavailable")
            assert answer.headers["retry-after"]
