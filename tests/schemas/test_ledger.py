"""The ledger: what histories leave open, who wins, and what ends a prompt (protocol.md §8)."""

from __future__ import annotations

from typing import Any

import pytest

from sessionwire_schemas.closers import closer_id
from sessionwire_schemas.ledger import MAX_TOMBSTONES, TOMBSTONE_MS
from sessionwire_schemas.prompt import REDACTED, Claim
from tests.schemas.prompting import SESSION, Fold, call, event, given, requested, sequences

# By history: the number of each event that changes what is open, and what is open from then on.
CHANGES: dict[str, dict[int, list[str]]] = {
    "abort-pending-perm": {3: ["p1"], 4: []},
    "ask-user-choice": {1: ["u1"], 2: []},
    "command-owned-by-client": {1: ["k1"], 2: []},
    "command-queued": {1: ["k2"], 2: []},
    "compaction": {},
    "elicitation-url-decline": {0: ["e2"], 1: []},
    "external-tool": {0: ["x1"], 2: []},
    "fleet-interleaved": {},
    "headers-timeout": {0: ["h1"], 1: []},
    "limits-exhausted-add": {0: ["l1"], 1: []},
    "log-info-ephemeral-vs-durable": {},
    "oauth": {1: ["o1"], 2: []},
    "orphan-perm-then-continue": {3: ["p1"], 5: []},
    "perm-approved": {3: ["p1"], 4: []},
    "perm-approved-session": {3: ["p1"], 4: []},
    "perm-exclusion": {3: ["p1"], 4: []},
    "perm-hook-approved": {},
    "perm-hook-denied": {},
    "rate-limit-auto-switch": {1: ["a1"], 2: []},
    "rewind": {},
    "sampling-string-id": {0: ["s2"], 1: []},
    "turn-simple": {},
}

STATES = {
    "abort-pending-perm": "withdrawn",
    "headers-timeout": "withdrawn",
}


def ask(request_id: str, **members: Any) -> dict[str, Any]:
    return event("user_input.requested", {"requestId": request_id, "question": "?"}, **members)


def reply(request_id: str, answer: str | None = "yes") -> dict[str, Any]:
    data = {"requestId": request_id} | ({} if answer is None else {"answer": answer})
    return event("user_input.completed", data)


def permit(request_id: str, call_id: str = "c1", **request: Any) -> dict[str, Any]:
    shell = {"kind": "shell", "toolCallId": call_id, **request}
    return event(
        "permission.requested",
        {"requestId": request_id, "permissionRequest": shell, "promptRequest": {"kind": "path"}},
    )


def permitted(request_id: str, kind: str = "approved", **result: Any) -> dict[str, Any]:
    data = {"requestId": request_id, "result": {"kind": kind, **result}}
    return event("permission.completed", data)


def use(request_id: str, call_id: str, **members: Any) -> dict[str, Any]:
    data = {"requestId": request_id, "sessionId": "x", "toolCallId": call_id, "toolName": "t"}
    return event("external_tool.requested", data, **members)


def done(call_id: str, **members: Any) -> dict[str, Any]:
    return event("tool.execution_complete", {"toolCallId": call_id, "success": True}, **members)


def taken(fold: Fold, request_id: str, **members: Any) -> str:
    decision = fold.ledger.answer(request_id, given(**members), fold.now_ms)
    return decision.verdict if decision.refusal is None else decision.refusal.code


def hub_closer(request_id: str, reason: Any, one: dict[str, Any]) -> dict[str, Any]:
    return one | {"id": closer_id("copilot", SESSION, request_id, reason)}


def test_every_example_history_is_expected() -> None:
    assert set(sequences()) == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_the_open_prompts_after_each_event_of_a_history(name: str) -> None:
    fold, expected = Fold(), list[str]()
    for number, one in enumerate(sequences()[name]):
        expected = CHANGES[name].get(number, expected)
        fold(one)
        assert fold.open == expected, number
    assert fold.open == []
    for prompt in fold.ledger.closed:
        assert prompt.state == STATES.get(name, "completed")
        assert prompt.closer_place is not None


def test_the_durable_log_alone_leaves_no_external_tool_open() -> None:
    durable = [e for e in sequences()["external-tool"] if e["type"] != "external_tool.completed"]
    fold = Fold()
    fold(*durable)
    assert fold.open == []
    assert fold.state("x1") == "completed"


def test_a_finished_tool_call_closes_the_prompts_of_its_agent_only() -> None:
    fold = Fold()
    fold(use("x1", "c1", agentId="a"), use("x2", "c1", agentId="b"), use("x3", "c1"))
    fold(use("x4", "c2", agentId="a"), permit("p1", "c1"))
    fold(done("c1", agentId="a"))
    assert fold.open == ["x2", "x4", "p1"]


def test_the_closer_of_an_external_tool_is_stored_after_its_call_has_finished() -> None:
    fold = Fold()
    fold(use("x1", "c1"), done("c1"))
    assert fold(event("external_tool.completed", {"requestId": "x1"})).duplicate is None
    again = fold(event("external_tool.completed", {"requestId": "x1"}))
    assert again.duplicate is not None
    assert fold(done("c1")).duplicate is None


def test_one_closer_closes_both_kinds_of_command_by_request_id() -> None:
    fold = Fold()
    fold(
        event("command.execute", {"requestId": "k1", "command": "/a", "commandName": "a"}),
        event("command.queued", {"requestId": "k2", "command": "/b"}),
    )
    fold(event("command.completed", {"requestId": "k2"}))
    assert fold.open == ["k1"]


def test_a_closer_of_another_kind_closes_nothing() -> None:
    fold = Fold()
    fold(ask("p1"), permitted("p1"))
    assert fold.open == ["p1"]


def test_a_request_id_that_comes_again_is_a_duplicate_then_nothing() -> None:
    fold = Fold()
    fold(ask("u1"))
    applied = fold(ask("u1"))
    assert applied.duplicate == fold["u1"]
    assert applied.changed == ()
    fold(reply("u1"))
    applied = fold(ask("u1"))
    assert (applied.duplicate, applied.changed, fold.open) == (None, (), [])


def test_a_batch_is_a_duplicate_only_if_all_its_calls_are_open() -> None:
    fold = Fold("everruns")
    fold(requested(call("a"), call("b")))
    assert fold(requested(call("b"), call("a"))).duplicate is not None
    applied = fold(requested(call("b"), call("c"), call("c")))
    assert applied.duplicate is None
    assert [prompt.request_id for prompt in applied.changed] == ["c"]
    assert fold(requested()).duplicate is None


def test_the_first_answer_wins_and_the_hub_closes_it() -> None:
    fold = Fold()
    fold(ask("u1"))
    fold.now_ms += 250
    assert taken(fold, "u1", name="ann", comment="ok") == "taken"
    assert taken(fold, "u1", name="bob") == "prompt_already_answered"
    prompt = fold["u1"]
    assert prompt.state == "completed"
    assert prompt.answered_by is not None
    assert (prompt.answered_by.name, prompt.answer, prompt.took_ms) == ("ann", "yes", 250)
    assert prompt.comment == "ok"
    closer = hub_closer("u1", "answered", reply("u1"))
    assert prompt.closer_id == closer["id"]
    assert fold(closer).duplicate is None
    assert fold["u1"].closer_place is not None


def test_an_answer_waits_for_the_host_where_the_host_completes() -> None:
    fold = Fold(completion="host")
    fold(ask("u1"))
    taken(fold, "u1")
    assert (fold.state("u1"), fold.open) == ("answered", ["u1"])
    assert taken(fold, "u1") == "prompt_already_answered"
    fold(reply("u1"))
    assert fold.state("u1") == "completed"
    assert not fold["u1"].overruled


def test_the_winner_may_send_its_answer_again_under_its_key() -> None:
    fold = Fold()
    fold(ask("u1"))
    assert taken(fold, "u1", key="k", digest="d1") == "taken"
    assert taken(fold, "u1", key="k", digest="d1") == "repeated"
    assert taken(fold, "u1", key="k", digest="d2") == "idempotency_reused"
    assert taken(fold, "u1", key="other", digest="d1") == "prompt_already_answered"


def test_the_completed_event_of_a_closed_prompt_is_a_duplicate_or_overrules() -> None:
    fold = Fold()
    fold(ask("u1"))
    taken(fold, "u1", value="yes", outcome='{"answer":"yes"}')
    fold(hub_closer("u1", "answered", reply("u1")))
    assert fold(reply("u1", "yes")).duplicate == fold["u1"]
    assert not fold["u1"].overruled
    assert fold(reply("u1", "no")).duplicate is None
    assert fold["u1"].overruled
    assert fold["u1"].overruled_outcome == '{"answer":"no"}'
    assert fold(reply("u1", "no")).duplicate is not None
    assert fold(reply("u1", "yes")).duplicate is None
    assert not fold["u1"].overruled


def test_the_hosts_own_event_is_its_answer_or_withdraws_the_prompt() -> None:
    fold = Fold()
    fold(ask("u1"), ask("u2"), reply("u1"), reply("u2", None))
    host = fold["u1"].answered_by
    assert host is not None
    assert host.host
    assert (fold.state("u1"), fold.state("u2")) == ("completed", "withdrawn")
    assert taken(fold, "u1") == "prompt_already_answered"
    assert taken(fold, "u2") == "withdrawn"


def test_a_rejected_answer_is_overruled_with_the_hosts_words() -> None:
    for completion, state in (("hub", "completed"), ("host", "withdrawn")):
        fold = Fold(completion=completion)
        fold(ask("u1"))
        taken(fold, "u1")
        fold.ledger.reject("u1", "too late", fold.now_ms)
        assert fold.state("u1") == state
        assert (fold["u1"].overruled, fold["u1"].detail) == (True, "too late")
        assert taken(fold, "u1") == "prompt_already_answered"


def test_an_abort_cancels_and_the_hub_says_so_once() -> None:
    fold = Fold()
    fold(permit("p1"), ask("u1"), event("abort", {"reason": "user_initiated"}))
    assert fold.open == []
    assert fold.state("p1") == "cancelled"
    assert fold["p1"].closing
    due = dict(fold.ledger.due_closers())
    assert len(due) == 2
    for event_id, closer in due.items():
        assert fold(event(closer.type, dict(closer.data)) | {"id": event_id}).duplicate is None
    assert dict(fold.ledger.due_closers()) == {}
    assert fold(permitted("p1", "cancelled", reason="abort")).duplicate is not None
    assert taken(fold, "u1") == "cancelled"


def test_the_hosts_word_about_an_ended_prompt_comes_before_the_hubs() -> None:
    fold = Fold()
    fold(permit("p1"), event("abort", {"reason": "user_abort"}))
    ((event_id, closer),) = fold.ledger.due_closers()
    assert fold(permitted("p1", "cancelled")).duplicate is None
    assert not fold["p1"].overruled
    assert fold(event(closer.type, dict(closer.data)) | {"id": event_id}).duplicate is not None
    assert fold(permitted("p1")).duplicate is None
    assert fold["p1"].overruled


def test_an_abort_that_names_an_agent_ends_its_prompts_only() -> None:
    fold = Fold()
    fold(ask("u1"), ask("u2", agentId="a"), ask("u3", agentId="b"))
    fold(event("abort", {"reason": "user_initiated"}, agentId="a"))
    assert fold.open == ["u1", "u3"]


def test_an_idle_session_ends_prompts_only_if_it_was_aborted() -> None:
    fold = Fold()
    fold(ask("u1"), event("session.idle", {}), event("session.idle", {"aborted": False}))
    assert fold.open == ["u1"]
    fold(event("session.idle", {"aborted": True}))
    assert fold.state("u1") == "cancelled"


@pytest.mark.parametrize(
    ("resume", "left"),
    [
        pytest.param({}, [], id="cold"),
        pytest.param({"continuePendingWork": False}, [], id="cold, not continued"),
        pytest.param({"continuePendingWork": True}, ["p1", "x1"], id="cold, continued"),
        pytest.param({"sessionWasActive": True}, ["p1", "u1", "x1"], id="warm"),
        pytest.param(
            {"sessionWasActive": True, "continuePendingWork": False}, ["p1", "u1", "x1"], id="join"
        ),
    ],
)
def test_a_resume_leaves_open_what_the_runtime_still_knows(
    resume: dict[str, Any], left: list[str]
) -> None:
    fold = Fold()
    fold(permit("p1"), ask("u1"), use("x1", "c1"))
    fold(event("session.resume", {"resumeTime": "t", "eventCount": 1, **resume}))
    assert fold.open == left
    assert all(prompt.state == "orphaned" for prompt in fold.ledger.closed)


def test_a_shutdown_orphans_also_what_is_answered() -> None:
    fold = Fold(completion="host")
    fold(permit("p1"), ask("u1"))
    taken(fold, "u1")
    fold(event("session.shutdown", {"shutdownType": "routine"}))
    assert (fold.state("p1"), fold.state("u1")) == ("orphaned", "orphaned")
    assert taken(fold, "p1") == "orphaned"
    assert taken(fold, "u1") == "prompt_already_answered"


def test_a_rewind_ends_what_was_asked_in_its_range() -> None:
    fold = Fold()
    first, second = ask("u1"), event("user.message", {"content": "x"})
    fold(first, second, ask("u2"), permit("p1"))
    rewind = event("session.snapshot_rewind", {"upToEventId": second["id"], "eventsRemoved": 3})
    fold(rewind)
    assert fold.open == ["u1"]
    assert (fold.state("u2"), fold.state("p1")) == ("rewound", "rewound")
    assert dict(fold.ledger.due_closers()) == {}
    fold(event("session.snapshot_rewind", {"upToEventId": first["id"], "eventsRemoved": 1}))
    assert fold.state("u1") == "rewound"


def test_a_rewind_to_an_unknown_event_ends_nothing() -> None:
    fold = Fold()
    fold(ask("u1"), event("session.snapshot_rewind", {"upToEventId": "gone", "eventsRemoved": 3}))
    fold(event("session.snapshot_rewind", {"upToEventId": 7}))
    assert fold.open == ["u1"]


def test_a_user_message_ends_everruns_prompts_and_no_copilot_ones() -> None:
    fold = Fold()
    fold(ask("u1"), event("user.message", {"content": "hurry"}))
    assert fold.open == ["u1"]
    fold = Fold("everruns")
    fold(requested(call("a")), event("input.message", {"message": {"role": "agent"}}))
    assert fold.open == ["a"]
    fold(event("input.message", {"message": {"role": "user"}}))
    assert fold.state("a") == "cancelled"


@pytest.mark.parametrize("how", ["completed", "failed", "sealed", "cancelled"])
def test_the_end_of_a_turn_ends_its_own_prompts(how: str) -> None:
    fold = Fold("everruns")
    fold(requested(call("a"), turn_id="t1"), requested(call("b"), turn_id="t2"))
    fold(requested(call("c")))
    fold(event(f"turn.{how}", {"turn_id": "t1"}))
    assert fold.open == ["b"]
    ((_, closer), _) = fold.ledger.due_closers()
    assert (closer.type, closer.data["status"]) == ("tool.completed", "cancelled")


def test_a_host_that_stays_away_orphans_with_an_event_at_once() -> None:
    fold = Fold()
    fold(ask("u1"))
    (orphan,) = fold.ledger.end("host_gone", fold.now_ms)
    assert fold.state("u1") == "orphaned"
    assert not orphan.closing
    assert orphan.closer_id == closer_id("copilot", SESSION, "u1", "host_gone")


def test_a_deleted_session_withdraws_without_one() -> None:
    fold = Fold()
    fold(ask("u1"))
    fold.ledger.end("deleted", fold.now_ms)
    assert fold.state("u1") == "withdrawn"
    assert list(fold.ledger.due_closers()) == []


def test_an_answer_at_its_deadline_is_late_swept_or_not() -> None:
    fold = Fold("everruns")
    fold(requested(call("a"), call("b")))
    fold.now_ms += 299_999
    assert fold.ledger.expire(fold.now_ms) == ()
    assert taken(fold, "a") == "taken"
    fold.now_ms += 1
    assert taken(fold, "b") == "expired"
    (expired,) = fold.ledger.expire(fold.now_ms)
    assert (expired.state, expired.closing) == ("expired", False)
    assert expired.closer_id == closer_id("everruns", SESSION, "b", "deadline")
    assert taken(fold, "b") == "expired"


def test_the_events_own_deadline_goes_before_the_default() -> None:
    fold = Fold("everruns")
    fold.now_ms = 0
    fold(requested(call("a", "ask_user", questions=[], expires_at="1970-01-01T00:00:07.5Z")))
    assert fold["a"].expires_ms == 7_500
    fold(requested(call("b", "ask_user", questions=[], expires_at="tomorrow")))
    assert fold["b"].expires_ms == 300_000


def test_copilot_prompts_wait_for_ever_unless_told_otherwise() -> None:
    fold = Fold()
    fold(ask("u1"))
    assert fold["u1"].expires_ms is None
    fold = Fold(ttl_s={"user_input": 3})
    fold(ask("u1"))
    fold.now_ms += 3_000
    assert [prompt.request_id for prompt in fold.ledger.expire(fold.now_ms)] == ["u1"]


def test_the_hosts_event_counts_after_the_deadline_until_it_is_swept() -> None:
    fold = Fold("everruns")
    fold(requested(call("a")))
    fold.now_ms += 300_000
    fold(event("tool.completed", {"tool_call_id": "a", "status": "success", "success": True}))
    assert fold.state("a") == "completed"


def test_a_managed_prompt_needs_a_human() -> None:
    fold = Fold()
    fold(permit("p1", managedApprovalRequired=True))
    assert taken(fold, "p1", human=False) == "human_required"
    assert taken(fold, "p1", human=True) == "taken"


def test_credentials_need_the_mark_and_stay_out_of_the_record() -> None:
    data = {"requestId": "o1", "serverName": "s", "serverUrl": "u", "reason": "initial"}
    fold = Fold()
    fold(event("mcp.oauth_required", data))
    assert taken(fold, "o1", secrets=False) == "secrets_required"
    token = {"kind": "token", "accessToken": "t0p"}
    assert taken(fold, "o1", value=token, outcome='{"outcome":"token"}') == "taken"
    assert fold["o1"].answer == REDACTED
    assert "t0p" not in repr(fold["o1"])
    fold.ledger.unread("o1", fold.now_ms)
    assert fold.state("o1") == "expired"
    assert fold["o1"].closer_id == closer_id("copilot", SESSION, "o1", "answered")


def test_credentials_that_wait_for_the_host_expire_with_an_event() -> None:
    data = {"requestId": "h1", "serverName": "s", "serverUrl": "u", "reason": "startup"}
    fold = Fold(completion="host")
    fold(event("mcp.headers_refresh_required", data), ask("u1"))
    fold.ledger.unread("h1", fold.now_ms)
    assert fold.state("h1") == "pending"
    for request_id in ("h1", "u1"):
        taken(fold, request_id)
        fold.ledger.unread(request_id, fold.now_ms)
    assert (fold.state("h1"), fold.state("u1")) == ("expired", "answered")
    assert fold["h1"].closer_id == closer_id("copilot", SESSION, "h1", "unread")


def test_a_claim_keeps_others_out_until_it_lapses() -> None:
    fold = Fold()
    fold(use("x1", "c1"))
    claim = fold.ledger.claim
    assert claim("x1", Claim("a", "ann", fold.now_ms + 30_000), fold.now_ms).verdict == "taken"
    assert fold.state("x1") == "claimed"
    refused = claim("x1", Claim("b", "bob", fold.now_ms + 30_000), fold.now_ms)
    assert refused.refusal is not None
    assert refused.refusal.code == "prompt_claimed"
    assert taken(fold, "x1") == "prompt_claimed"
    assert taken(fold, "x1", claim_id="b") == "prompt_claimed"
    fold.now_ms += 20_000
    claim("x1", Claim("a", "ann", fold.now_ms + 30_000), fold.now_ms)
    fold.now_ms += 29_999
    assert fold.state("x1") == "claimed"
    fold.now_ms += 1
    assert fold.state("x1") == "pending"
    assert taken(fold, "x1", claim_id="a") == "taken"


def test_the_holder_of_a_lapsed_claim_is_late_if_another_has_claimed() -> None:
    fold = Fold()
    fold(use("x1", "c1"))
    fold.ledger.claim("x1", Claim("a", "ann", fold.now_ms + 10), fold.now_ms)
    fold.now_ms += 10
    fold.ledger.claim("x1", Claim("b", "bob", fold.now_ms + 10), fold.now_ms)
    assert taken(fold, "x1", claim_id="a") == "prompt_claimed"
    assert taken(fold, "x1", claim_id="b") == "taken"


def test_a_claim_lasts_five_minutes_at_most_and_can_be_given_back() -> None:
    fold = Fold()
    fold(use("x1", "c1"))
    fold.ledger.claim("x1", Claim("a", "ann", fold.now_ms + 10**9), fold.now_ms)
    holder = fold["x1"].holder(fold.now_ms)
    assert holder is not None
    assert holder.until_ms == fold.now_ms + 300_000
    refused = fold.ledger.release("x1", "b", fold.now_ms).refusal
    assert refused is not None
    assert refused.code == "prompt_claimed"
    fold.ledger.release("x1", "a", fold.now_ms)
    assert fold.state("x1") == "pending"


def test_only_what_a_program_answers_can_be_claimed() -> None:
    fold = Fold()
    fold(ask("u1"), event("sampling.requested", {"requestId": "s1"}))
    refused = fold.ledger.claim("u1", Claim("a", "ann", 10**9), fold.now_ms).refusal
    assert refused is not None
    assert (refused.code, refused.status) == ("not_claimable", 409)
    assert fold.ledger.claim("s1", Claim("a", "ann", 10**9), fold.now_ms).verdict == "taken"
    missing = fold.ledger.claim("none", Claim("a", "ann", 10**9), fold.now_ms).refusal
    assert missing is not None
    assert missing.status == 404


def test_what_is_answered_or_over_can_no_longer_be_claimed() -> None:
    fold = Fold("everruns", completion="host")
    fold(requested(call("a"), call("b"), call("c")))
    taken(fold, "a")
    fold.now_ms += 300_000
    for name, code in (("a", "prompt_already_answered"), ("b", "expired")):
        refused = fold.ledger.claim(name, Claim("k", "ann", 10**9), fold.now_ms).refusal
        assert refused is not None
        assert refused.code == code
    assert fold.ledger.release("none", "k", fold.now_ms).verdict == "refused"


def test_a_host_does_not_reject_its_own_answer() -> None:
    fold = Fold()
    fold(ask("u1"), reply("u1"))
    fold.ledger.reject("u1", "?", fold.now_ms)
    assert not fold["u1"].overruled
    assert fold.ledger.reject("none", "?", fold.now_ms) is None


def test_an_answer_to_an_unknown_prompt_is_not_found() -> None:
    assert taken(Fold(), "u1") == "prompt_not_found"


def test_a_closed_record_keeps_no_opener_and_is_kept_seven_days() -> None:
    fold = Fold()
    fold(ask("u1"))
    assert fold["u1"].event is not None
    fold(reply("u1"))
    assert fold["u1"].event is None
    fold.now_ms += TOMBSTONE_MS - 1
    assert fold.ledger.forget(fold.now_ms) == 0
    fold.now_ms += 1
    assert fold.ledger.forget(fold.now_ms) == 1
    assert taken(fold, "u1") == "prompt_not_found"


def test_the_newest_thousand_closed_records_are_kept() -> None:
    fold = Fold()
    for number in range(MAX_TOMBSTONES + 3):
        fold(ask(f"u{number}"), reply(f"u{number}"))
    assert fold.ledger.forget(fold.now_ms) == 3
    assert len(fold.ledger.closed) == MAX_TOMBSTONES
    assert fold.ledger.get("u2") is None
    assert fold.ledger.get("u3") is not None


def test_the_stream_alone_gives_the_states_that_the_hub_has() -> None:
    hub, viewer = Fold(ttl_s={"user_input": 5}), Fold()
    stream = [ask("u1"), ask("u2"), ask("u3")]
    hub(*stream)
    taken(hub, "u1", outcome='{"answer":"yes"}')
    stream.append(hub_closer("u1", "answered", reply("u1")))
    hub.now_ms += 5_000
    hub.ledger.expire(hub.now_ms)
    stream += [hub_closer(name, "deadline", reply(name, None)) for name in ("u2", "u3")]
    viewer(*stream)
    hub(*stream[3:])
    for name in ("u1", "u2", "u3"):
        here, there = viewer[name], hub[name]
        assert (here.state, here.reason) == (there.state, there.reason)
        assert (here.closer_id, here.outcome) == (there.closer_id, there.outcome)
