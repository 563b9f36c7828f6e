"""The session resource, its list, and the official SDK's view of both (protocol.md §4)."""

from __future__ import annotations

import importlib
import json
from typing import Any

import httpx2
import pytest

from sessionwire_schemas.cursor import Cursor
from tests.server.conftest import OpenHub, check_problem

pytestmark = pytest.mark.anyio

sdk: Any = importlib.import_module("everruns_sdk.models")  # it has no types


async def test_a_session_is_created_once(client: httpx2.AsyncClient, sid: str) -> None:
    given = {"id": sid, "title": "A title", "tags": ["a"], "metadata": {"n": None}, "locale": "de"}
    made = await client.post("/v1/sessions", json=given)
    assert made.status_code == 201
    assert made.headers["location"] == f"/v1/sessions/{sid}"
    shown = made.json()
    assert {name: shown[name] for name in given} == given
    assert (shown["status"], shown["sequence"], shown["catalog"]) == ("started", 0, None)
    for again in (given, {"id": sid}, {"id": sid, "tags": ["a"]}):
        answer = await client.post("/v1/sessions", json=again)
        assert (answer.status_code, answer.json()) == (200, shown)
    for other in ({**given, "title": "Other"}, {"id": sid, "new": 1}):
        check_problem(await client.post("/v1/sessions", json=other), 409, "session_exists")
    assert (await client.get(f"/v1/sessions/{sid}")).json() == shown


async def test_an_id_is_minted_where_none_is_given(client: httpx2.AsyncClient) -> None:
    for body in (b"", b"{}", b'{"id": null}'):
        made = await client.post("/v1/sessions", content=body)
        assert made.status_code == 201
        name = made.json()["id"]
        assert name.startswith("session_")
        assert int(name.removeprefix("session_"), 16) >= 0
        assert len(name) == 40


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({"id": "a b"}, 400, "invalid_session_id", None),
        ({"id": ""}, 400, "invalid_session_id", None),
        ({"id": "sse"}, 400, "invalid_session_id", None),
        ({"id": 7}, 422, "invalid_body", "/id"),
        ({"catalog": "other"}, 422, "invalid_body", "/catalog"),
        ({"title": 7}, 422, "invalid_body", "/title"),
        ({"title": "x" * 2001}, 422, "invalid_body", "/title"),
        ({"tags": ["a", 1]}, 422, "invalid_body", "/tags/1"),
        ({"metadata": []}, 422, "invalid_body", "/metadata"),
        ({"completion": "maybe"}, 422, "invalid_body", "/completion"),
        ({"harness_id": 1}, 422, "invalid_body", "/harness_id"),
        ([], 422, "invalid_body", ""),
        ("{", 400, "malformed_json", None),
        ('{"title": "\\ud800"}', 400, "malformed_json", None),
        ('{"metadata": {"n": NaN}}', 400, "malformed_json", None),
        ('{"metadata": {"n": 1e999, "m": -Infinity}}', 400, "malformed_json", None),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
async def test_a_wrong_creation_is_refused_and_says_where(
    client: httpx2.AsyncClient, body: Any, status: int, code: str, pointer: str | None
) -> None:
    content = body if isinstance(body, str) else json.dumps(body)
    told = check_problem(await client.post("/v1/sessions", content=content), status, code)
    assert told.get("pointer") == pointer


async def test_a_large_or_foreign_body_is_refused(client: httpx2.AsyncClient) -> None:
    body = json.dumps({"metadata": {"x": "y" * 2**20}})
    check_problem(await client.post("/v1/sessions", content=body), 413, "body_too_large")
    headers = {"Content-Type": "text/plain"}
    answer = await client.post("/v1/sessions", content=b"{}", headers=headers)
    check_problem(answer, 415, "unsupported_media_type")


async def test_the_resource_follows_the_events(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/v1/sessions/{sid}"
    await client.post(f"{path}/events", json={"type": "user.message", "data": {"content": "x"}})
    shown = (await client.get(path)).json()
    assert (shown["status"], shown["catalog"], shown["last"]) == ("active", "copilot", [])
    titled = {"type": "session.title_changed", "ephemeral": True, "data": {"title": "New"}}
    idle: dict[str, Any] = {"type": "session.idle", "ephemeral": True, "data": {}}
    told = (await client.post(f"{path}/events", json=[titled, idle])).json()["data"]
    shown = (await client.get(path)).json()
    assert (shown["status"], shown["title"], shown["sequence"]) == ("idle", "New", 1)
    assert shown["cursor"] == told[-1]["cursor"]
    assert [event["type"] for event in shown["last"]] == [titled["type"], idle["type"]]
    assert shown["created_at"] <= shown["updated_at"]


async def test_members_given_never_stand_over_the_hubs_own(
    client: httpx2.AsyncClient, sid: str
) -> None:
    given = {"id": sid, "cursor": "mine", "sequence": 9, "status": "odd", "viewers": "many"}
    shown = (await client.post("/v1/sessions", json=given)).json()
    assert Cursor.parse(shown["cursor"]).sequence == 0
    assert (shown["sequence"], shown["status"], shown["viewers"]) == (0, "started", 0)


async def test_the_official_sdk_reads_sessions_and_their_list(
    client: httpx2.AsyncClient, sid: str
) -> None:
    body: dict[str, Any] = {
        "id": sid,
        "title": None,
        "tags": [],
        "agent_id": "agent_1",
        "capabilities": [],
    }
    made = await client.post("/api/v1/sessions", json=body)
    session = sdk.Session.model_validate(made.json())
    assert (session.id, session.agent_id) == (sid, "agent_1")
    assert session.organization_id.startswith("org_")
    listed = await client.get("/api/v1/sessions?agent_id=agent_1")
    found = [sdk.Session.model_validate(each) for each in listed.json()["data"]]
    assert sid in [each.id for each in found]


async def test_a_deleted_session_is_gone_for_reads_and_closed_for_publishing(
    client: httpx2.AsyncClient, sid: str
) -> None:
    path = f"/v1/sessions/{sid}"
    event = {"type": "session.info", "data": {"infoType": "x", "message": "x"}}
    await client.post(f"{path}/events", json=event)
    first = (await client.get(path)).json()["cursor"]
    assert (await client.delete(path)).status_code == 204
    for read in ("", "/events", "/events?since_id=x", "/events/summary", "/export"):
        check_problem(await client.get(f"{path}{read}"), 404, "session_not_found")
    check_problem(await client.delete(path), 404, "session_not_found")
    check_problem(await client.post(f"{path}/events", json=event), 410, "session_deleted")
    assert (await client.post("/v1/sessions", json={"id": sid})).status_code == 201
    anew = (await client.get(path)).json()
    assert anew["sequence"] == 0
    assert Cursor.parse(anew["cursor"]).epoch != Cursor.parse(first).epoch


async def test_the_list_is_paged_and_filtered(client: httpx2.AsyncClient, sid: str) -> None:
    names = [f"{sid}-{n}" for n in range(5)]
    for name in names:
        catalog = "everruns" if name.endswith("0") else "copilot"
        body = {"id": name, "title": f"Title {sid}", "catalog": catalog, "agent_id": name}
        await client.post("/v1/sessions", json=body)
    seen: list[str] = []
    token = ""
    while True:
        answer = await client.get(f"/v1/sessions?q={sid.upper()}&limit=2&page_token={token}")
        page = answer.json()
        assert (page["total"], page["offset"], page["limit"]) == (5, len(seen), 2)
        seen += [session["id"] for session in page["data"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert seen == names[::-1]
    for query, count in (
        (f"search={sid}&catalog=everruns", 1),
        (f"q={sid}&status=started", 5),
        (f"q={sid}&status=idle", 0),
        (f"agent_id={names[3]}", 1),
        (f"q={sid}-4", 1),
    ):
        page = (await client.get(f"/v1/sessions?{query}")).json()
        assert (len(page["data"]), page["total"]) == (count, count), query


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_parameter"),
        ("limit=201", "invalid_parameter"),
        ("limit=x", "invalid_parameter"),
        ("limit=1&limit=2", "invalid_parameter"),
        ("status=odd", "invalid_parameter"),
        ("catalog=odd", "invalid_parameter"),
        ("page_token=%00", "invalid_page_token"),
        ("page_token=YQ", "invalid_page_token"),
        ("page_token=%C3%A9", "invalid_page_token"),
        (f"q={'x' * 1025}", "invalid_parameter"),
    ],
)
async def test_wrong_parameters_of_the_list_are_named(
    client: httpx2.AsyncClient, query: str, code: str
) -> None:
    body = check_problem(await client.get(f"/v1/sessions?{query}"), 400, code)
    if code == "invalid_parameter":
        assert body["parameter"] == query.partition("=")[0]


async def test_a_session_that_nobody_watches_has_no_viewers(open_hub: OpenHub, sid: str) -> None:
    async with open_hub() as client:
        await client.post("/v1/sessions", json={"id": sid})
        assert (await client.get(f"/v1/sessions/{sid}")).json()["viewers"] == 0
