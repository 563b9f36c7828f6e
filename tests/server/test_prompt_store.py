"""Prompts in Redis: who wins, what one step stores, and what is kept, shown and ended (§8)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from sessionwire_schemas.closers import closer_id
from sessionwire_schemas.ledger import MAX_TOMBSTONES
from sessionwire_schemas.prompt import Answerer
from sessionwire_server import scripts
from sessionwire_server.command_store import CommandStore
from sessionwire_server.commands import Acknowledge
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.entries import Verdict
from sessionwire_server.errors import HubError
from sessionwire_server.host_lease import HostLeases
from sessionwire_server.keys import ASKING, DEADLINES, SessionKeys
from sessionwire_server.live_message import PromptChange, PromptNews, decode
from sessionwire_server.prompt_answer import answer_id
from sessionwire_server.prompt_kept import Said
from sessionwire_server.prompt_store import PromptStore, Submit
from sessionwire_server.publish_call import PublishRequest
from sessionwire_server.redis_link import RedisLink, StoreUnavailable
from sessionwire_server.session_record import SessionFields
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.schemas.prompting import sequences
from tests.schemas.test_ledger import CHANGES
from tests.server.prompting import (
    ANN,
    ANSWERS,
    answer,
    ask,
    ask_calls,
    closer,
    event,
    publish,
    refusal,
)
from tests.server.store_events import pushes, read_all, until
from tests.server.test_scripts import faulty, pick

pytestmark = pytest.mark.anyio

BOB = Answerer("bob", human=True)


@pytest.fixture
async def other(settings: Settings) -> AsyncGenerator[EventStore]:
    """Another hub's store."""
    async with RedisLink(settings) as link:
        yield EventStore(link, settings)


@pytest.fixture
def keys(sid: str) -> SessionKeys:
    return SessionKeys.of(sid)


async def state_of(store: EventStore, sid: str, name: str) -> str:
    looked = await store.prompts.look(sid, name)
    return looked.kept.prompt.status(looked.now_ms)


async def open_names(store: EventStore, sid: str) -> list[str]:
    return [kept.prompt.request_id for kept in (await store.prompts.open(sid)).kept]


async def types_of(store: EventStore, sid: str) -> list[str]:
    events, _ = await read_all(store, sid)
    return [one.type for one in events]


async def commands_of(link: RedisLink, keys: SessionKeys) -> list[dict[str, Any]]:
    entries = await link.command("XRANGE", keys.commands, "-", "+")
    return [json.loads(b"{%b}" % entry[1][3]) for entry in entries]


async def redis_ms(link: RedisLink) -> int:
    seconds, micros = await link.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def with_submit(store: EventStore, link: RedisLink, settings: Settings, submit: Submit) -> Any:
    """Give the prompts of another hub, which stores requests in a way of its own."""
    return PromptStore(link, settings, Deadlines(link), submit, store.log_page)


@pytest.mark.parametrize("name", list(CHANGES))
async def test_an_example_history_leaves_open_what_the_ledger_says(
    store: EventStore, sid: str, name: str
) -> None:
    """Published event by event through the hub, whose own closers come in between."""
    expected: list[str] = []
    for number, one in enumerate(sequences()[name]):
        await publish(store, sid, one)
        expected = CHANGES[name].get(number, expected)
        assert await open_names(store, sid) == expected
    assert expected == []


async def test_of_200_answers_at_two_hubs_one_wins_and_all_are_told_the_same(
    store: EventStore, other: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask("user_input", "q"))
    won: list[str] = []
    told: list[tuple[str, str, object]] = []
    codes: set[str] = set()

    async def one(number: int) -> None:
        by = Answerer(f"user {number}", human=True)
        said = {"answer": f"text {number}", "wasFreeform": True}
        hub = (store, other)[number % 2]
        try:
            (got,) = await hub.prompts.answer(sid, [Said("q", said)], by, secrets=False)
        except HubError as error:
            extra = error.extra
            told.append((extra["answered_by"]["name"], extra["answered_at"], extra["answer"]))
            codes.add(error.code)
        else:
            assert got.verdict == "taken"
            won.append(by.name)

    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(one, number)
    assert len(won) == 1
    assert len(told) == 199
    assert codes == {"prompt_already_answered"}
    assert len({repr(what) for what in told}) == 1
    assert told[0][0] == won[0]
    assert await types_of(store, sid) == ["user_input.requested", "user_input.completed"]
    (command,) = await commands_of(redis_link, keys)
    assert command["data"]["answer"] == told[0][2]


async def test_an_answer_closes_the_prompt_and_reaches_the_host_in_one_step(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    before = await publish(store, sid, event("session.info", {"infoType": "x", "message": "m"}))
    await publish(store, sid, ask("permission", "p", agent="sub"))
    async with pushes(redis_link, keys.live) as next_push:
        (got,) = await answer(store, sid, "permission", "p", comment="fine")
        heard = [await next_push() for _ in range(3)]
    assert [one[:1] for one in heard] == [b"e", b"p", b"c"]
    news = decode(heard[1])
    assert isinstance(news, PromptNews)
    assert (news.version, news.open) == (2, 0)
    assert news.changes == (PromptChange("p", "completed"),)
    prompt = got.kept.prompt
    events, _ = await read_all(store, sid)
    assert prompt.closer_place is not None
    assert prompt.closer_place.offset == events[-1].offset == 3
    body = json.loads(events[-1].body)
    assert body["id"] == prompt.closer_id == closer_id("copilot", sid, "p", "answered")
    assert body["parentId"] == events[1].id
    assert body["agentId"] == "sub"
    assert body["data"]["result"]["kind"] == "approved"
    (command,) = await commands_of(redis_link, keys)
    assert command["type"] == "prompt.answer"
    data = command["data"]
    assert data["request_id"] == "p"
    assert data["answer"] == ANSWERS["permission"]
    assert data["comment"] == "fine"
    assert data["answered_by"] == {"name": "ann", "human": True}
    # What the producer publishes next hangs on its own last event.
    later = event("session.info", {"infoType": "x", "message": "m"})
    await publish(store, sid, later)
    events, _ = await read_all(store, sid)
    assert json.loads(events[-1].body)["parentId"] == events[1].id
    assert before[0].id == events[0].id


async def test_a_repeated_key_is_the_same_answer_and_another_body_is_refused(
    store: EventStore, other: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask("user_input", "q"))
    first = await answer(store, sid, "user_input", "q", key="k", digest="d")
    again = await answer(other, sid, "user_input", "q", key="k", digest="d")
    assert [one.verdict for one in (*first, *again)] == ["taken", "repeated"]
    assert again[0].kept == first[0].kept
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "user_input", "q", key="k", digest="e")
    assert refusal(caught) == (422, "idempotency_reused")
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "user_input", "q", key="other", digest="d")
    assert refusal(caught) == (409, "prompt_already_answered")
    assert len(await commands_of(redis_link, keys)) == 1


async def test_an_answer_whose_reply_was_lost_is_the_same_when_it_is_sent_again(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask("permission", "p"))

    async def lossy(name: str, request: PublishRequest) -> list[Verdict] | None:
        await store.submit(name, request)
        raise StoreUnavailable("the reply was lost")

    said = [Said("p", ANSWERS["permission"], key="k", digest="d")]
    prompts = with_submit(store, redis_link, settings, lossy)
    with pytest.raises(StoreUnavailable):
        await prompts.answer(sid, said, ANN, secrets=False)
    (again,) = await store.prompts.answer(sid, said, ANN, secrets=False)
    assert again.verdict == "repeated"
    assert len(await commands_of(redis_link, keys)) == 1
    assert (await types_of(store, sid)).count("permission.completed") == 1


async def test_several_answers_are_taken_all_or_none(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask_calls("a", "b", "c"), catalog="everruns")
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "tool", "a", "b", "nowhere")
    assert refusal(caught) == (404, "prompt_not_found")
    assert caught.value.extra["request_id"] == "nowhere"
    assert await open_names(store, sid) == ["a", "b", "c"]
    got = await answer(store, sid, "tool", "b", "a")
    assert [one.kept.prompt.request_id for one in got] == ["b", "a"]
    assert await open_names(store, sid) == ["c"]
    names = [command["data"]["request_id"] for command in await commands_of(redis_link, keys)]
    assert names == ["b", "a"]
    assert len(await redis_link.command("HKEYS", keys.openers)) == 1
    await answer(store, sid, "tool", "c")
    assert await redis_link.command("EXISTS", keys.openers, keys.asking, keys.prompts) == 0


async def test_a_closer_that_says_the_same_is_stored_nowhere_and_another_overrules(
    store: EventStore, sid: str
) -> None:
    await publish(store, sid, ask("permission", "p"))
    await answer(store, sid, "permission", "p")
    events, _ = await read_all(store, sid)
    (same,) = await publish(store, sid, closer("permission", "p", "approved"))
    assert same.duplicate
    assert (same.position.offset, same.sequence) == (events[-1].offset, events[-1].sequence)
    assert same.check == events[-1].check
    assert len((await read_all(store, sid))[0]) == 2
    (denied,) = await publish(store, sid, closer("permission", "p", "denied-interactively-by-user"))
    assert not denied.duplicate
    prompt = (await store.prompts.look(sid, "p")).kept.prompt
    assert prompt.overruled
    assert prompt.overruled_outcome is not None
    assert "denied" in prompt.overruled_outcome


async def test_an_opener_of_an_open_prompt_is_a_duplicate(store: EventStore, sid: str) -> None:
    (first,) = await publish(store, sid, ask("user_input", "q"))
    (again,) = await publish(store, sid, ask("user_input", "q"))
    assert again.duplicate
    assert again.position == first.position
    await answer(store, sid, "user_input", "q")
    (later,) = await publish(store, sid, ask("user_input", "q"))
    assert not later.duplicate
    assert await open_names(store, sid) == []


async def test_events_that_are_known_change_no_prompt(store: EventStore, sid: str) -> None:
    stop = event("abort", {"reason": "user_initiated"})
    await publish(store, sid, stop)
    await publish(store, sid, ask("user_input", "q"))
    (verdict,) = await publish(store, sid, stop)
    assert verdict.duplicate
    assert await open_names(store, sid) == ["q"]
    info = event("session.info", {"infoType": "x", "message": "m"})
    last = event("abort", {"reason": "user_initiated"})
    verdicts = await publish(store, sid, info, last, last, info, ask("user_input", "r"))
    assert [one.duplicate for one in verdicts] == [False, False, True, True, False]
    assert await open_names(store, sid) == ["r"]


async def test_an_abort_and_its_closers_are_one_step_in_the_middle_of_a_batch(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    async with pushes(redis_link, keys.live) as next_push:
        verdicts = await publish(
            store,
            sid,
            ask("permission", "p"),
            ask("user_input", "q"),
            event("abort", {"reason": "user_initiated"}),
            ask("user_input", "r"),
        )
        assert (await next_push()).split(b" ", 7)[5:7] != []
        news = decode(await next_push())
    assert isinstance(news, PromptNews)
    assert {one.state for one in news.changes} == {"cancelled", "pending"}
    assert len(verdicts) == 4
    assert [verdict.position.offset for verdict in verdicts] == [1, 2, 3, 6]
    assert await types_of(store, sid) == [
        "permission.requested",
        "user_input.requested",
        "abort",
        "permission.completed",
        "user_input.completed",
        "user_input.requested",
    ]
    assert await open_names(store, sid) == ["r"]


async def test_a_rewind_ends_what_was_asked_since_its_target_in_the_same_batch(
    store: EventStore, sid: str
) -> None:
    info = event("session.info", {"infoType": "x", "message": "m"})
    back = event("session.snapshot_rewind", {"upToEventId": info["id"], "eventsRemoved": 2})
    await publish(store, sid, ask("user_input", "q"), info, ask("permission", "p"), back)
    assert await open_names(store, sid) == ["q"]
    assert await state_of(store, sid, "p") == "rewound"
    far = event("session.snapshot_rewind", {"upToEventId": "unknown", "eventsRemoved": 2})
    await publish(store, sid, far)
    assert await open_names(store, sid) == ["q"]


async def test_what_a_hook_has_decided_is_never_asked(store: EventStore, sid: str) -> None:
    settled = ask("permission", "p", resolvedByHook=True)
    await publish(store, sid, settled)
    assert await open_names(store, sid) == []
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "permission", "p")
    assert refusal(caught) == (404, "prompt_not_found")


async def test_with_completion_host_the_host_closes_what_was_answered(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    fields = SessionFields("copilot", completion="host")
    record, _ = await store.create_session(sid, fields)
    assert record.completion == "host"
    await publish(store, sid, ask("user_input", "q"))
    (got,) = await answer(store, sid, "user_input", "q")
    assert got.kept.prompt.state == "answered"
    assert got.kept.opener is not None
    assert await open_names(store, sid) == ["q"]
    assert (await store.session(sid)).open_prompts == 1
    assert len(await commands_of(redis_link, keys)) == 1
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "user_input", "q", by=BOB)
    assert refusal(caught) == (409, "prompt_already_answered")
    assert caught.value.extra["answered_by"]["name"] == "ann"
    await publish(store, sid, closer("user_input", "q", "yes"))
    prompt = (await store.prompts.look(sid, "q")).kept.prompt
    assert (prompt.state, prompt.overruled) == ("completed", False)
    assert (await store.session(sid)).open_prompts == 0


async def test_whoever_answers_after_the_host_is_told_that_it_did(
    store: EventStore, sid: str
) -> None:
    await publish(store, sid, ask("user_input", "q"))
    await publish(store, sid, closer("user_input", "q", "no"))
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "user_input", "q")
    assert refusal(caught) == (409, "prompt_already_answered")
    assert caught.value.extra["answered_by"] == {"host": True}


async def soon(link: RedisLink, ms: int) -> tuple[int, str]:
    """Give a time shortly after now, by Redis' clock."""
    at = await redis_ms(link) + ms
    return at, datetime.fromtimestamp(at / 1000, UTC).isoformat()


async def passed(link: RedisLink, at_ms: int) -> None:
    async def is_past() -> bool:
        return await redis_ms(link) >= at_ms

    await until(is_past)


async def test_from_its_deadline_on_a_prompt_takes_no_answer_swept_or_not(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    at, spelled = await soon(redis_link, 150)
    await publish(store, sid, ask_calls("a", "b", expires_at=spelled), catalog="everruns")
    await answer(store, sid, "tool", "a")
    assert await redis_link.command("ZSCORE", keys.due, "p:a") is None
    assert await redis_link.command("ZSCORE", keys.due, "p:b") == at
    assert await redis_link.command("ZSCORE", DEADLINES, sid) < at + 1_000
    await passed(redis_link, at)
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "tool", "b")
    assert refusal(caught) == (410, "expired")
    assert await open_names(store, sid) == ["b"]
    deadlines = Deadlines(redis_link)
    deadlines.also_end(store.prompts.end_due)
    assert await deadlines.end_due(sid) == (0, False)
    assert await state_of(store, sid, "b") == "expired"
    events, _ = await read_all(store, sid)
    assert json.loads(events[-1].body)["data"]["status"] == "timeout"
    assert await redis_link.command("ZCARD", keys.due) == 0


async def test_an_answer_that_was_decided_in_time_and_written_too_late_is_late(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str, keys: SessionKeys
) -> None:
    at, spelled = await soon(redis_link, 150)
    await publish(store, sid, ask_calls("a", expires_at=spelled), catalog="everruns")

    async def slow(name: str, request: PublishRequest) -> list[Verdict] | None:
        await passed(redis_link, at)
        return await store.submit(name, request)

    prompts = with_submit(store, redis_link, settings, slow)
    with pytest.raises(HubError) as caught:
        await prompts.answer(sid, [Said("a", ANSWERS["tool"])], ANN, secrets=False)
    assert refusal(caught) == (410, "expired")
    assert await commands_of(redis_link, keys) == []


async def test_a_change_that_others_overtook_is_decided_again(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str
) -> None:
    await publish(store, sid, ask("external_tool", "x"))
    overtaken = 0

    async def slow(name: str, request: PublishRequest) -> list[Verdict] | None:
        nonlocal overtaken
        if overtaken < 5:
            overtaken += 1
            await publish(store, sid, ask("user_input", f"q{overtaken}"))
        return await store.submit(name, request)

    prompts = with_submit(store, redis_link, settings, slow)
    await prompts.answer(sid, [Said("x", ANSWERS["external_tool"])], ANN, secrets=False)
    assert overtaken == 5
    assert await open_names(store, sid) == [f"q{number}" for number in range(1, 6)]


async def test_a_session_whose_prompts_never_stand_still_is_busy(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str
) -> None:
    await publish(store, sid, ask("user_input", "q"))

    async def stale(name: str, request: PublishRequest) -> list[Verdict] | None:
        return None

    prompts = with_submit(store, redis_link, settings, stale)
    with pytest.raises(HubError) as caught:
        await prompts.answer(sid, [Said("q", ANSWERS["user_input"])], ANN, secrets=False)
    assert refusal(caught) == (503, "busy")


async def test_a_claim_keeps_others_out_until_it_lapses_or_is_given_back(
    store: EventStore, other: EventStore, redis_link: RedisLink, sid: str
) -> None:
    await publish(store, sid, ask("external_tool", "x"), ask("user_input", "q"))
    claim = await store.prompts.claim(sid, "x", claim_id=None, lease_s=30, by="ann")
    assert await state_of(other, sid, "x") == "claimed"
    with pytest.raises(HubError) as caught:
        await other.prompts.claim(sid, "x", claim_id=None, lease_s=30, by="bob")
    assert refusal(caught) == (409, "prompt_claimed")
    assert caught.value.extra["claimed_by"] == "ann"
    with pytest.raises(HubError) as caught:
        await answer(other, sid, "external_tool", "x", by=BOB)
    assert refusal(caught) == (409, "prompt_claimed")
    with pytest.raises(HubError) as caught:
        await store.prompts.claim(sid, "q", claim_id=None, lease_s=30, by="ann")
    assert refusal(caught) == (409, "not_claimable")
    renewed = await other.prompts.claim(sid, "x", claim_id=claim.claim_id, lease_s=3_000, by="ann")
    now_ms = await redis_ms(redis_link)
    assert claim.until_ms < renewed.until_ms <= now_ms + 300_000
    await store.prompts.release(sid, "x", claim.claim_id)
    brief = await store.prompts.claim(sid, "x", claim_id=None, lease_s=0.05, by="ann")
    await passed(redis_link, brief.until_ms)
    assert await state_of(other, sid, "x") == "pending"
    await answer(store, sid, "external_tool", "x", claim_id=brief.claim_id)


async def test_only_people_answer_what_is_for_people_and_only_marked_tokens_secrets(
    store: EventStore, sid: str
) -> None:
    request = {"kind": "path", "managedApprovalRequired": True}
    managed = ask("permission", "p", promptRequest=request)
    await publish(store, sid, managed, ask("mcp_oauth", "o"))
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "permission", "p", by=Answerer("bot"))
    assert refusal(caught) == (403, "human_required")
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "mcp_oauth", "o", secrets=False)
    assert refusal(caught) == (403, "secrets_required")
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "permission", "p", answer={"kind": "maybe", "t0ken": 1})
    assert refusal(caught) == (422, "invalid_answer")
    assert [set(fault) for fault in caught.value.extra["faults"]] == [{"pointer", "message"}]
    assert await open_names(store, sid) == ["p", "o"]


async def everything(link: RedisLink, keys: SessionKeys, but: str) -> bytes:
    """Give all that Redis holds of a session, but for one key."""
    names = [name for name in keys.all() if name != but]
    dumps = [await link.command("DUMP", name) for name in names]
    readers = {b"hash": ("HGETALL",), b"stream": ("XRANGE", "-", "+")}
    found: list[object] = list(dumps)
    for name in names:
        kind = await link.command("TYPE", name)
        if kind in readers:
            command, *rest = readers[kind]
            found.append(await link.command(command, name, *rest))
    return repr(found).encode()


async def test_secrets_are_kept_apart_and_only_as_long_as_they_are_needed(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str, keys: SessionKeys
) -> None:
    async with pushes(redis_link, keys.live) as next_push:
        await publish(store, sid, ask("mcp_oauth", "o", httpResponse={"body": "pr1vate"}))
        told = [await next_push(), await next_push()]
        shown = await everything(redis_link, keys, keys.secrets)
        looked = await store.prompts.look(sid, "o", secrets=True)
        assert looked.secrets == {
            "staticClientConfig": {"clientSecret": "hu5h"},
            "httpResponse": {"body": "pr1vate"},
        }
        assert (await store.prompts.look(sid, "o")).secrets is None
        (got,) = await answer(store, sid, "mcp_oauth", "o")
        told += [await next_push() for _ in range(3)]
    assert got.kept.prompt.answer == {"redacted": True}
    assert await redis_link.command("EXISTS", keys.secrets) == 0
    assert (await store.prompts.look(sid, "o", secrets=True)).secrets is None
    shown += await everything(redis_link, keys, keys.commands) + b"".join(told)
    for secret in (b"hu5h", b"pr1vate", b"t0p-s3cret"):
        assert secret not in shown
    (command,) = await commands_of(redis_link, keys)
    assert command["data"]["answer"]["accessToken"] == "t0p-s3cret"
    commands = CommandStore(redis_link, settings, Deadlines(redis_link))
    receipt = await commands.look(sid, answer_id(sid, "o"))
    assert receipt.expires_ms == receipt.created_ms + 600_000
    await commands.acknowledge(sid, receipt.id, Acknowledge(outcome="consumed"))
    assert await commands_of(redis_link, keys) == []


@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
async def test_a_secret_answer_that_nobody_fetches_in_time_expires_its_prompt(
    store: EventStore,
    redis_link: RedisLink,
    settings: Settings,
    sid: str,
    keys: SessionKeys,
    read: bool,
) -> None:
    """Its ten minutes are made to have passed; the command itself may have been ended before."""
    await publish(store, sid, ask("mcp_oauth", "o"))
    await answer(store, sid, "mcp_oauth", "o")
    commands = CommandStore(redis_link, settings, Deadlines(redis_link))
    leases = HostLeases(redis_link, settings, Deadlines(redis_link))
    name = answer_id(sid, "o")
    lease = await leases.attach(sid, "host", takeover=False)
    if read:
        await commands.take(sid, lease.number, 0)
    receipt = await redis_link.command("HGET", keys.receipts, name)
    line, rest = receipt.split(b"\n", 1)
    late = b" ".join([*line.split(b" ")[:-1], b"1"])
    await redis_link.command("HSET", keys.receipts, name, late + b"\n" + rest)
    if not read:
        assert (await commands.take(sid, lease.number, 0)).frames == []
    await redis_link.command("ZADD", keys.due, 1, "u:o")
    await store.prompts.end_due(sid)
    assert await state_of(store, sid, "o") == ("completed" if read else "expired")
    assert await redis_link.command("ZSCORE", keys.due, "u:o") is None


async def test_a_rejected_answer_is_marked_however_often_it_is_said(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str
) -> None:
    """The hub that heard it first may die before it has marked the prompt."""
    await publish(store, sid, ask("user_input", "q"))
    await answer(store, sid, "user_input", "q")
    name, said = answer_id(sid, "q"), Acknowledge(outcome="rejected", detail="too late")
    deadlines = Deadlines(redis_link)
    dying = CommandStore(redis_link, settings, deadlines)
    await dying.acknowledge(sid, name, said)
    assert not (await store.prompts.look(sid, "q")).kept.prompt.overruled
    commands = CommandStore(redis_link, settings, deadlines, store.prompts.rejected)
    versions: set[int] = set()
    for _ in range(3):
        await commands.acknowledge(sid, name, said)
        prompt = (await store.prompts.look(sid, "q")).kept.prompt
        assert (prompt.overruled, prompt.detail) == (True, "too late")
        versions.add((await store.prompts.open(sid)).version)
    assert len(versions) == 1


async def test_prompts_are_orphaned_once_their_host_stays_away(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str
) -> None:
    deadlines = Deadlines(redis_link, orphan_after_s=0.1)
    deadlines.also_end(store.prompts.end_due)
    leases = HostLeases(redis_link, settings, deadlines)
    await publish(store, sid, ask("permission", "p"))
    lease = await leases.attach(sid, "host", takeover=False)
    await leases.release(lease)
    # It comes back in time, and then it does not.
    lease = await leases.attach(sid, "host", takeover=False)
    await passed(redis_link, await redis_ms(redis_link) + 150)
    await deadlines.end_due(sid)
    assert await open_names(store, sid) == ["p"]
    await leases.release(lease)

    async def is_orphaned() -> bool:
        await deadlines.end_due(sid)
        return await state_of(store, sid, "p") == "orphaned"

    await until(is_orphaned)
    assert (await types_of(store, sid))[-1] == "permission.completed"


async def test_a_host_that_comes_back_at_the_last_moment_keeps_its_prompts(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask("permission", "p"))
    leases = HostLeases(redis_link, settings, Deadlines(redis_link))
    await redis_link.command("ZADD", keys.due, 1, "gone")

    async def slow(name: str, request: PublishRequest) -> list[Verdict] | None:
        await leases.attach(sid, "host", takeover=True)
        return await store.submit(name, request)

    await with_submit(store, redis_link, settings, slow).end_due(sid)
    assert await open_names(store, sid) == ["p"]


async def test_a_session_has_so_many_open_prompts_and_no_more(
    redis_link: RedisLink, redis_url: str, sid: str
) -> None:
    store = EventStore(redis_link, Settings(redis_url=redis_url, prompts_max=3))
    await publish(store, sid, *(ask("user_input", f"q{n}") for n in range(3)))
    more = ask("user_input", "more")
    with pytest.raises(HubError) as caught:
        await publish(store, sid, event("assistant.intent", {"intent": "x"}), more)
    assert refusal(caught) == (429, "prompts_full")
    assert len(await types_of(store, sid)) == 3
    await answer(store, sid, "user_input", "q0")
    await publish(store, sid, more)
    assert await open_names(store, sid) == ["q1", "q2", "more"]


async def test_one_request_ends_a_bounded_number_of_prompts(store: EventStore, sid: str) -> None:
    stop = [event("abort", {"reason": "user_initiated"}) for _ in range(2)]
    calls = [ask("user_input", f"a{n}") for n in range(200)]
    for first in range(0, 1_000, 200):
        await publish(store, sid, *(ask("user_input", f"q{first + n}") for n in range(200)))
    assert (await store.session(sid)).open_prompts == 1_000
    with pytest.raises(HubError) as caught:
        await publish(store, sid, stop[0], *calls, stop[1])
    assert refusal(caught) == (413, "too_many_events")
    assert (await store.session(sid)).open_prompts == 1_000
    await publish(store, sid, stop[0])
    assert (await store.session(sid)).open_prompts == 0


async def test_closed_prompts_are_kept_for_a_week_and_the_newest_thousand(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    for first in range(0, 1_200, 200):
        names = [f"q{first + n}" for n in range(200)]
        stop = event("abort", {"reason": "user_initiated"})
        await publish(store, sid, *(ask("user_input", name) for name in names), stop)
    assert await redis_link.command("HLEN", keys.closed) == MAX_TOMBSTONES
    assert await redis_link.command("ZCARD", keys.closed_at) == MAX_TOMBSTONES
    with pytest.raises(HubError) as caught:
        await store.prompts.look(sid, "q0")
    assert refusal(caught) == (404, "prompt_not_found")
    assert await state_of(store, sid, "q1199") == "cancelled"
    await redis_link.command("ZADD", keys.closed_at, 1, "q1199")
    page = await store.prompts.find(sid, frozenset({"cancelled"}), 1_000, None)
    assert len(page.kept) == MAX_TOMBSTONES - 1
    await publish(store, sid, ask("user_input", "r"))
    assert await redis_link.command("HEXISTS", keys.closed, "q1199") == 0


async def test_pages_of_prompts_go_on_where_they_ended(store: EventStore, sid: str) -> None:
    await publish(store, sid, *(ask("user_input", f"q{n}") for n in range(7)))
    for name in ("q1", "q5", "q3"):
        await answer(store, sid, "user_input", name)
    wanted = frozenset({"pending", "completed"})
    names: list[str] = []
    token: str | None = None
    while True:
        page = await store.prompts.find(sid, wanted, 2, token)
        assert len(page.kept) <= 2
        names += [kept.prompt.request_id for kept in page.kept]
        token = page.next_page_token
        if token is None:
            break
    assert names[:4] == ["q0", "q2", "q4", "q6"]
    assert sorted(names[4:]) == ["q1", "q3", "q5"]
    only = await store.prompts.find(sid, None, 50, None)
    assert [kept.prompt.request_id for kept in only.kept] == ["q0", "q2", "q4", "q6"]
    assert all(kept.opener is not None for kept in only.kept)
    for token in ("x", "WzFd", "bnVsbA"):
        with pytest.raises(HubError) as caught:
            await store.prompts.find(sid, None, 2, token)
        assert refusal(caught) == (400, "invalid_page_token")


async def test_sessions_with_open_prompts_are_found_and_found_again(
    store: EventStore, other: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask_calls("a"), catalog="everruns")
    before = sid[:-1] + chr(ord(sid[-1]) - 1)
    assert (await store.prompts.sessions_with_open(before, 1)) == [sid]
    await redis_link.command("ZREM", ASKING, sid)
    await redis_link.command("ZREM", DEADLINES, sid)
    await other.prompts.open(sid)
    assert await redis_link.command("ZSCORE", ASKING, sid) == 0
    due = await redis_link.command("ZSCORE", keys.due, "p:a")
    assert abs(await redis_link.command("ZSCORE", DEADLINES, sid) - due) < 2_000
    await answer(store, sid, "tool", "a")
    assert await redis_link.command("ZSCORE", ASKING, sid) is None


async def test_an_open_prompt_keeps_its_session_and_a_new_epoch_keeps_the_prompt(
    redis_link: RedisLink, redis_url: str, sid: str
) -> None:
    store = EventStore(redis_link, Settings(redis_url=redis_url, session_ttl_s=0.001))
    await publish(store, sid, ask("user_input", "q"))
    record = await store.session(sid)
    await passed(redis_link, await redis_ms(redis_link) + 10)
    assert not await store.retire(sid)
    await store.renew_epoch(sid, record.epoch, record.head)
    assert (await store.session(sid)).epoch != record.epoch
    assert await open_names(store, sid) == ["q"]
    await answer(store, sid, "user_input", "q")


async def test_records_that_are_lost_are_found_in_the_log_or_counted(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(
        store,
        sid,
        ask("permission", "old"),
        closer("permission", "old", "approved"),
        ask("permission", "p"),
        ask("user_input", "q"),
        ask("external_tool", "x"),
    )
    await answer(store, sid, "external_tool", "x")
    await redis_link.command("DEL", keys.prompts, keys.openers, keys.asking)
    (got,) = await answer(store, sid, "permission", "p")
    assert got.kept.prompt.state == "completed"
    assert store.prompts.counts["lost"] == 1
    assert (await store.session(sid)).open_prompts == 0
    assert await redis_link.command("EXISTS", keys.openers, keys.asking) == 0
    with pytest.raises(HubError) as caught:
        await answer(store, sid, "user_input", "q")
    assert refusal(caught) == (404, "prompt_not_found")


async def test_a_deleted_session_takes_its_prompts_along(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask("mcp_oauth", "o"), ask("external_tool", "x"))
    await store.delete_session(sid)
    assert await redis_link.command("ZSCORE", ASKING, sid) is None
    kept = [name for name in keys.all() if await redis_link.command("EXISTS", name)]
    assert kept == [keys.meta]
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: answer(store, sid, "mcp_oauth", "o"),
        lambda: store.prompts.claim(sid, "x", claim_id=None, lease_s=1, by="ann"),
        lambda: store.prompts.release(sid, "x", "c"),
        lambda: publish(store, sid, ask("user_input", "q")),
    ]
    for change in changes:
        with pytest.raises(HubError) as caught:
            await change()
        assert refusal(caught) == (410, "session_deleted")
    for read in (store.prompts.open(sid), store.prompts.look(sid, "o")):
        with pytest.raises(HubError) as caught:
            await read
        assert refusal(caught) == (404, "session_not_found")
    await store.create_session(sid, SessionFields("copilot"))
    await publish(store, sid, ask("external_tool", "x"))
    assert await open_names(store, sid) == ["x"]


async def test_a_session_that_is_not_there_has_no_prompts(store: EventStore, sid: str) -> None:
    reads: list[Callable[[], Awaitable[object]]] = [
        lambda: store.prompts.open(sid),
        lambda: store.prompts.look(sid, "q"),
        lambda: store.prompts.find(sid, None, 1, None),
        lambda: answer(store, sid, "user_input", "q"),
        lambda: store.prompts.claim(sid, "q", claim_id=None, lease_s=1, by="ann"),
    ]
    for read in reads:
        with pytest.raises(HubError) as caught:
            await read()
        assert refusal(caught) == (404, "session_not_found")


async def test_a_long_answer_reaches_the_host_whole_and_stands_in_the_record_by_its_size(
    store: EventStore, redis_link: RedisLink, sid: str, keys: SessionKeys
) -> None:
    await publish(store, sid, ask("external_tool", "x"))
    long = {"result": "x" * 20_000}
    (got,) = await answer(store, sid, "external_tool", "x", answer=long)
    assert got.kept.prompt.answer == {"omitted": True, "bytes": 20_013}
    (command,) = await commands_of(redis_link, keys)
    assert command["data"]["answer"] == long


@pytest.mark.parametrize("number", [float("inf"), float("nan")], ids=str)
async def test_an_answer_that_json_cannot_spell_is_refused(
    store: EventStore, sid: str, number: float
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    form = event(
        "elicitation.requested",
        {"requestId": "e", "message": "?", "mode": "form", "requestedSchema": schema},
    )
    await publish(store, sid, form)
    said = {"action": "accept", "content": {"n": number}}
    with pytest.raises(HubError) as caught:
        await store.prompts.answer(sid, [Said("e", said)], ANN, secrets=False)
    assert refusal(caught) == (422, "invalid_answer")
    assert await open_names(store, sid) == ["e"]


async def test_a_foreign_command_under_an_answers_id_does_not_stand_in_its_way(
    store: EventStore, redis_link: RedisLink, settings: Settings, sid: str, keys: SessionKeys
) -> None:
    from sessionwire_server.commands import NewCommand

    await publish(store, sid, ask("user_input", "q"))
    commands = CommandStore(redis_link, settings, Deadlines(redis_link))
    await commands.send(sid, NewCommand(answer_id(sid, "q"), "x.mine", b"{}", {}))
    await answer(store, sid, "user_input", "q")
    (command,) = await commands_of(redis_link, keys)
    assert command["type"] == "prompt.answer"
    receipt = await commands.look(sid, answer_id(sid, "q"))
    assert (receipt.status, receipt.request_id) == ("accepted", "q")


async def test_answers_by_other_names_are_kept_as_they_were_given(
    store: EventStore, sid: str
) -> None:
    await publish(store, sid, ask("user_input", "q"))
    by = replace(ANN, via="http: a browser")
    (got,) = await answer(store, sid, "user_input", "q", by=by, comment="because")
    prompt = (await store.prompts.look(sid, "q")).kept.prompt
    assert prompt == got.kept.prompt
    assert (prompt.answered_by, prompt.comment) == (by, "because")
    assert prompt.took_ms is not None
    assert 0 <= prompt.took_ms < 60_000


async def test_a_script_that_fails_anywhere_leaves_prompts_that_can_be_answered(
    store: EventStore, redis_link: RedisLink, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first write nothing has changed; a defect after that is mended by what follows."""
    untouched = at = 0
    for at in range(1, 200):
        name = f"{sid}-{at}"
        await publish(store, name, ask("permission", "p"), ask("user_input", "q"))
        before = await everything(redis_link, SessionKeys.of(name), "")
        broken = faulty(scripts.load("publish"), at)
        with monkeypatch.context() as patch:
            patch.setattr(scripts, "load", lambda one, broken=broken: pick(one, broken))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            try:
                await answer(store, name, "permission", "p", key="k", digest="d")
            except HubError:
                raise
            except Exception as error:
                assert "injected" in str(error)  # noqa: PT017 - not every fault is met
            else:
                break
        if await everything(redis_link, SessionKeys.of(name), "") == before:
            untouched += 1
            assert untouched == at, "nothing is written before the last check"
        (got,) = await answer(store, name, "permission", "p", key="k", digest="d")
        assert got.kept.prompt.state == "completed"
        assert await open_names(store, name) == ["q"]
        await answer(store, name, "user_input", "q")
        assert (await store.session(name)).open_prompts == 0
        types = await types_of(store, name)
        assert "permission.completed" in types
    assert untouched > 5
    assert at > untouched + 10
