"""Reading, answering and watching prompts over a network and a hub that fail in between."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from sessionwire import _prompts
from sessionwire._prompts import PromptRecord, watch_prompts
from sessionwire.errors import (
    ConnectionFailed,
    PromptAlreadyAnswered,
    ProtocolError,
    Unavailable,
    UnknownSession,
)
from tests.client.scripted_hub import connected, frame, scripted_hub, status, stream

pytestmark = pytest.mark.anyio


def shown(rid: str = "r", *, sid: str = "s", **more: Any) -> dict[str, Any]:
    """A prompt as the hub shows it."""
    members = {"request_id": rid, "session_id": sid, "kind": "permission", "status": "pending"}
    return {**members, "opened_at": "2026-08-21T09:00:00.000Z", **more}


def listed(*prompts: dict[str, Any], token: str | None = None) -> str:
    return json.dumps({"data": list(prompts), "next_page_token": token})


async def dropped(client: SocketStream) -> None:
    """Take the request and give no reply."""


def to(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, trust_env=False)


async def test_an_answer_whose_reply_was_lost_is_sent_again_under_its_key() -> None:
    taken = status(200, json.dumps(shown(status="completed")))
    away = status(503, "{}", retry_after="0")
    with anyio.fail_after(20):
        async with scripted_hub(dropped, away, taken) as hub, to(hub.url) as http:
            done = await _prompts.answer(http, "s", "a/b", "yes")
    assert done.status == "completed"
    assert [one.path for one in hub.requests] == ["/v1/sessions/s/prompts/a%2Fb/answer"] * 3
    keys = {one.headers["idempotency-key"] for one in hub.requests}
    assert len(keys) == 1
    assert keys != {""}


async def test_two_answers_have_keys_of_their_own() -> None:
    taken = status(200, json.dumps(shown(status="completed")))
    async with scripted_hub(taken, taken) as hub, to(hub.url) as http:
        await _prompts.answer(http, "s", "r", "yes")
        await _prompts.answer(http, "s", "r", "yes")
    first, second = (one.headers["idempotency-key"] for one in hub.requests)
    assert first != second


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(dropped, ConnectionFailed, id="no reply"),
        pytest.param(status(503, "{}", retry_after="0"), Unavailable, id="the hub is away"),
    ],
)
async def test_a_hub_that_stays_away_is_given_up(reply: Any, error: type[Exception]) -> None:
    with anyio.fail_after(20):
        async with scripted_hub(reply, reply) as hub, to(hub.url) as http:
            with pytest.raises(error):
                await _prompts.answer(http, "s", "r", "yes", tries=2)
    assert len(hub.requests) == 2


async def test_a_refusal_is_final_and_says_who_was_first() -> None:
    won = {"answered_by": {"name": "Ann"}, "answered_at": "2026-08-21T09:00:01.000Z"}
    late = status(409, json.dumps({"code": "prompt_already_answered", "answer": "no", **won}))
    async with scripted_hub(late) as hub, to(hub.url) as http:
        with pytest.raises(PromptAlreadyAnswered) as caught:
            await _prompts.answer(http, "s", "r", "yes")
    assert len(hub.requests) == 1
    assert caught.value.extra["answered_by"] == {"name": "Ann"}


async def test_every_page_of_a_list_is_read() -> None:
    pages = (status(200, listed(shown("a"), token="next")), status(200, listed(shown("b"))))
    async with scripted_hub(*pages) as hub, to(hub.url) as http:
        found = [one.request_id async for one in _prompts.prompts(http, statuses=["pending"])]
    assert found == ["a", "b"]
    assert [one.query.get("page_token") for one in hub.requests] == [None, ["next"]]
    assert hub.requests[1].query["status"] == ["pending"]


@pytest.mark.parametrize("body", ["{}", '{"data": [{"request_id": "r"}]}'], ids=["none", "half"])
async def test_what_is_no_list_of_prompts_is_told_so(body: str) -> None:
    async with scripted_hub(status(200, body)) as hub, to(hub.url) as http:
        with pytest.raises(ProtocolError):
            async for _ in _prompts.prompts(http):
                pass


def asking(*prompts: dict[str, Any]) -> bytes:
    return frame("prompts", json.dumps({"data": list(prompts)}))


async def test_watching_a_session_goes_on_over_broken_connections() -> None:
    answers = (
        status(200, '{"catalog": "copilot"}'),
        stream(connected("c0"), asking(shown("a")), end="cut"),
        stream(connected("c0"), asking(shown("a")), asking(shown("a"), shown("b")), end="cut"),
        status(204),
    )
    with anyio.fail_after(20):
        async with scripted_hub(*answers) as hub, to(hub.url) as http:
            lists = [[one.request_id for one in now] async for now in watch_prompts(http, "s")]
    # What a new connection repeats is no change.
    assert lists == [["a"], ["a", "b"]]
    assert hub.requests[1].query["types"] == ["session.shutdown"]


async def test_watching_every_session_reads_those_again_that_changed() -> None:
    rows = json.dumps({"data": []})
    frames = (
        frame("connected", '{"status":"connected"}', retry=100),
        frame("snapshot", rows),
        frame("session.updated", '{"id": "s", "pending_prompts": 1}'),
        frame("session.updated", '{"id": "quiet", "pending_prompts": 0}'),
        frame("session.updated", '{"id": "s", "pending_prompts": 0}'),
    )
    answers = (
        stream(*frames, end="cut"),
        status(200, listed(shown("t1", sid="t"))),
        status(503, "{}", retry_after="0"),
        status(200, listed(shown("s1", sid="s", opened_at="2026-08-20T09:00:00.000Z"))),
        status(404, '{"code": "session_not_found"}'),
        status(204),
    )
    with anyio.fail_after(20):
        async with scripted_hub(*answers) as hub, to(hub.url) as http:
            lists = [[one.request_id for one in now] async for now in watch_prompts(http)]
    assert lists == [["t1"], ["s1", "t1"], ["t1"]]
    assert [one.path for one in hub.requests[1:5]] == [
        "/v1/prompts",
        *["/v1/sessions/s/prompts"] * 3,
    ]


async def test_an_unknown_session_is_not_watched() -> None:
    missing = status(404, '{"code": "session_not_found"}')
    async with scripted_hub(missing) as hub, to(hub.url) as http:
        with pytest.raises(UnknownSession):
            async for _ in watch_prompts(http, "nowhere"):
                pass


def test_a_record_keeps_what_it_has_no_name_for() -> None:
    one = PromptRecord.read(shown(later="x"))
    assert one.members["later"] == "x"
    assert one.waits
    assert one.is_open
    assert one.asked() is None
