"""The session resource and the list of sessions (protocol.md §4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import call, copilot, new_session, note, publish, turn
from tests.contract.test_publish import check_problem
from tests.contract.wire import eventually, open_stream, request
from tests.hub_process import HubProcess

pytestmark = pytest.mark.anyio


async def create(hub: HubProcess, body: dict[str, Any], status: int = 201) -> Any:
    return await call(hub, "POST", "/v1/sessions", status=status, body=json.dumps(body).encode())


@proves("session-create", "two-prefixes")
async def test_create_is_idempotent_where_the_members_agree(hub: HubProcess, session: str) -> None:
    given = {"id": session, "title": "A title", "tags": ["a"], "metadata": {"n": 1.5}}
    made = await create(hub, given)
    assert made["id"] == session
    assert made["title"] == "A title"
    assert made["status"] == "started"
    assert (await create(hub, given, 200))["id"] == session
    assert (await create(hub, {"id": session}, 200))["id"] == session
    body = json.dumps({**given, "title": "Another"}).encode()
    answer = await request(hub, "POST", "/api/v1/sessions", body=body)
    check_problem(answer, 409, "session_exists")
    assert (await call(hub, "GET", f"/v1/sessions/{session}"))["title"] == "A title"


@proves("session-create")
async def test_id_left_out_is_minted(hub: HubProcess) -> None:
    made = await create(hub, {})
    prefix, _, digits = made["id"].partition("_")
    assert prefix == "session"
    assert len(digits) == 32
    assert int(digits, 16) >= 0
    assert (await call(hub, "GET", f"/v1/sessions/{made['id']}"))["id"] == made["id"]


@pytest.mark.parametrize(
    "body",
    [{"id": "a b"}, {"id": 7}, {"id": "sse"}, {"catalog": "other"}, {"title": 7}, []],
    ids=json.dumps,
)
@proves("session-create", "session-id-shape", "problem-body")
async def test_bad_create_is_refused(hub: HubProcess, body: Any) -> None:
    answer = await request(hub, "POST", "/v1/sessions", body=json.dumps(body).encode())
    assert answer.status in (400, 422), answer
    check_problem(answer, answer.status)


@proves("session-resource")
async def test_resource_follows_the_events(hub: HubProcess, session: str) -> None:
    await publish(hub, session, copilot("user.message", {"content": "x"}))
    seen = await call(hub, "GET", f"/v1/sessions/{session}")
    assert seen["status"] == "active"
    assert seen["catalog"] == "copilot"
    told = await publish(
        hub,
        session,
        [
            copilot("session.title_changed", {"title": "New"}, ephemeral=True),
            copilot("session.idle", {}, ephemeral=True),
        ],
    )
    seen = await call(hub, "GET", f"/v1/sessions/{session}")
    assert (seen["status"], seen["title"], seen["sequence"]) == ("idle", "New", 1)
    assert seen["cursor"] == told[-1]["cursor"]
    assert seen["pending_prompts"] == 0
    assert seen["created_at"] <= seen["updated_at"]


@proves("session-list")
async def test_list_pages_newest_first(hub: HubProcess) -> None:
    mark = new_session("list")
    names = [f"{mark}-{n}" for n in range(7)]
    for name in names:
        await create(hub, {"id": name, "title": f"page {mark}"})
    seen: list[str] = []
    query = f"q={mark}&limit=3"
    token = ""
    for _ in range(5):
        page = await call(hub, "GET", f"/v1/sessions?{query}{token}")
        seen += [item["id"] for item in page["data"]]
        assert len(page["data"]) <= 3
        if not page.get("next_page_token"):
            break
        token = f"&page_token={page['next_page_token']}"
    assert seen == names[::-1]
    for bad in ("limit=0", "limit=201", "limit=x", "page_token=%00", "status=odd"):
        answer = await request(hub, "GET", f"/v1/sessions?{bad}")
        check_problem(answer, 400)


@proves("session-list-stream")
async def test_list_stream_gives_a_snapshot_then_changes(hub: HubProcess, session: str) -> None:
    await publish(hub, session, note())
    async with open_stream(hub, "/v1/sessions/sse") as stream:
        assert (await stream.next()).event == "connected"
        await stream.until(lambda frame: session in (frame.data or ""))
        other = new_session()
        await publish(hub, other, turn())
        await stream.until(lambda frame: other in (frame.data or ""))
        await call(hub, "DELETE", f"/v1/sessions/{other}", status=204)
        await stream.until(lambda frame: other in (frame.data or ""))


@proves("session-list-stream")
async def test_a_title_is_one_line_for_every_reader_of_the_list(
    hub: HubProcess, session: str
) -> None:
    title = "one\u2028two\u2029three\u0085four\nfive"
    await create(hub, {"id": session, "title": title})
    async with open_stream(hub, f"/v1/sessions/sse?q={session}") as stream:
        frame = (await stream.until("snapshot"))[-1]
    assert len(frame.raw.decode().splitlines()) == 3
    assert [each["title"] for each in frame.json()["data"]] == [title]


@proves("session-delete")
async def test_deleted_session_leaves_the_list(hub: HubProcess, session: str) -> None:
    await create(hub, {"id": session, "title": f"gone {session}"})
    await call(hub, "DELETE", f"/v1/sessions/{session}", status=204)

    async def is_gone() -> bool:
        page = await call(hub, "GET", f"/v1/sessions?q={session}")
        return bool(page["data"] == [])

    await eventually(is_gone, "the deleted session is not listed")
    for path in ("", "/events", "/export"):
        answer = await request(hub, "GET", f"/v1/sessions/{session}{path}")
        check_problem(answer, 404)


@proves("session-delete")
@pytest.mark.parametrize("query", ["", "control=1"])
async def test_a_session_begun_anew_shows_nothing_of_the_deleted_one(
    hub: HubProcess, session: str, query: str
) -> None:
    path = f"/v1/sessions/{session}/sse?{query}"
    await publish(hub, session, [note("before") for _ in range(5)])
    async with open_stream(hub, path) as stream:
        await stream.take(6)
        await request(hub, "DELETE", f"/v1/sessions/{session}")
        assert (await stream.drain())[-1].json()["reason"] == "deleted"
    await create(hub, {"id": session, "catalog": "copilot"})
    await publish(hub, session, [note("after")])
    async with open_stream(hub, path) as stream:
        epoch = (await stream.next()).json()["epoch"]
        frames = await stream.until(lambda frame: frame.event == "session.info")
        assert [frame.json()["data"]["message"] for frame in frames] == ["after"]
        assert frames[-1].id is not None
        assert frames[-1].id.startswith(epoch)
