"""The official SDK's budgets, pins and resumption, unmodified, against a hub (protocol.md §4.8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.contract._requirements import proves
from tests.contract.events import everruns, publish
from tests.contract.everruns_hosting import management_client, sdk, stored
from tests.hub_process import HubProcess

pytestmark = [
    pytest.mark.anyio,
    # It would have everybody use its `AgentClient`.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
async def client(hub: HubProcess) -> AsyncGenerator[Any]:
    async with management_client(hub) as client:
        yield client


def said(budget: Any, kind: str, balance: float) -> dict[str, Any]:
    """What a host says of a budget."""
    data = {"budget_id": budget.id, "balance": balance, "currency": "usd", "limit": budget.limit}
    return everruns(f"budget.{kind}", data)


@proves("everruns-sdk-budgets")
async def test_a_budget_is_made_changed_topped_up_and_dropped(client: Any) -> None:
    session = (await client.sessions.create()).id
    made = await client.budgets.create(
        "session", session, "usd", 10, soft_limit=2, metadata={"team": "a"}
    )
    assert (made.subject_type, made.subject_id) == ("session", session)
    assert (made.limit, made.balance, made.status) == (10, 10, "active")
    assert await client.budgets.get(made.id) == made
    assert await client.sessions.budgets(session) == [made]
    changed = await client.budgets.update(made.id, limit=15, status="paused")
    assert (changed.limit, changed.balance, changed.status) == (15, 15, "paused")
    assert (changed.soft_limit, changed.metadata) == (2, {"team": "a"})
    assert (await client.budgets.check(made.id)).action == "pause"
    more = await client.budgets.top_up(made.id, 5, description="for the weekend")
    assert (more.balance, more.status) == (20, "paused")
    (entry,) = await client.budgets.ledger(made.id)
    assert (entry.amount, entry.description, entry.budget_id) == (-5, "for the weekend", made.id)
    assert await client.budgets.ledger(made.id, limit=1, offset=1) == []
    listed = await client.budgets.list(subject_type="session", subject_id=session)
    assert [one.id for one in listed] == [made.id]
    assert made.id in {one.id for one in await client.budgets.list()}
    assert await client.budgets.list(subject_type="agent") == []
    await client.budgets.delete(made.id)
    with pytest.raises(sdk.NotFoundError) as gone:
        await client.budgets.get(made.id)
    assert gone.value.code == "budget_not_found"
    assert await client.sessions.budgets(session) == []


@proves("everruns-sdk-budgets")
async def test_what_the_host_says_of_a_budget_counts_until_a_client_says_more(
    hub: HubProcess, client: Any
) -> None:
    session = (await client.sessions.create()).id
    budget = await client.budgets.create("session", session, "usd", 10, soft_limit=2)
    assert (await client.sessions.budget_check(session)).action == "continue"
    await publish(hub, session, said(budget, "warning", 1.5))
    check = await client.sessions.budget_check(session)
    assert (check.action, check.balance, check.budget_id) == ("warn", 1.5, budget.id)
    await publish(hub, session, said(budget, "exhausted", 0))
    assert (await client.sessions.budget_check(session)).action == "stop"
    seen = await client.budgets.get(budget.id)
    assert (seen.status, seen.balance) == ("exhausted", 0)
    more = await client.budgets.top_up(budget.id, 4)
    assert (more.status, more.balance) == ("active", 4)
    assert (await client.sessions.budget_check(session)).action == "continue"


@proves("everruns-sdk-budgets")
async def test_paused_budgets_are_resumed_once_and_everybody_is_told(
    hub: HubProcess, client: Any
) -> None:
    session = (await client.sessions.create()).id
    budget = await client.budgets.create("session", session, "usd", 10)
    own = everruns(
        "budget.paused",
        {"budget_id": "host-1", "balance": 3, "currency": "tokens", "limit": 9},
    )
    await publish(hub, session, [said(budget, "paused", 1), own])
    assert {one.id for one in await client.sessions.budgets(session)} == {budget.id, "host-1"}
    done = await client.sessions.resume(session)
    assert (done.resumed_budgets, done.session_id) == (2, session)
    assert {one.status for one in await client.sessions.budgets(session)} == {"active"}
    events = await stored(client, session, "budget.resumed")
    assert {one.data["budget_id"] for one in events} == {budget.id, "host-1"}
    assert (await client.sessions.resume(session)).resumed_budgets == 0
    assert len(await stored(client, session, "budget.resumed")) == 2


@proves("everruns-sdk-budgets")
async def test_a_session_is_pinned_until_it_is_not(client: Any) -> None:
    session = (await client.sessions.create()).id
    assert (await client.sessions.get(session)).is_pinned is False
    for _ in range(2):
        await client.sessions.pin(session)
        assert (await client.sessions.get(session)).is_pinned is True
    await client.sessions.unpin(session)
    assert (await client.sessions.get(session)).is_pinned is False
    with pytest.raises(sdk.NotFoundError):
        await client.sessions.pin("session_unknown")


@proves("everruns-sdk-budgets")
async def test_budgets_are_of_sessions_that_are_there(client: Any) -> None:
    with pytest.raises(sdk.NotFoundError) as refused:
        await client.budgets.create("agent", "agent_1", "usd", 10)
    assert refused.value.code == "not_found"
    with pytest.raises(sdk.NotFoundError) as refused:
        await client.budgets.create("session", "session_unknown", "usd", 10)
    assert refused.value.code == "session_not_found"
    for name in ("x", "bdgt_.1", "bdgt_session_unknown.1"):
        with pytest.raises(sdk.NotFoundError) as refused:
            await client.budgets.get(name)
        assert refused.value.code == "budget_not_found"
    session = (await client.sessions.create()).id
    with pytest.raises(sdk.ApiError) as wrong:
        await client.budgets.create("session", session, "usd", -1)
    assert (wrong.value.status_code, wrong.value.code) == (400, "invalid_body")
    kept = await client.budgets.create("session", session, "usd", 1)
    await client.sessions.delete(session)
    with pytest.raises(sdk.NotFoundError):
        await client.budgets.get(kept.id)
    assert kept.id not in {one.id for one in await client.budgets.list()}
