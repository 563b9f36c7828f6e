"""Budgets of everruns sessions: what a session may cost (protocol.md §4.8). Pure, no I/O.

The hub keeps them and counts nothing: what has been spent is the host's to say, with `budget.*`
events. A budget is what was last said of it, by a client or by the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from sessionwire_server.entries import StoredEvent
from sessionwire_server.everruns_bodies import CreateBudget, UpdateBudget
from sessionwire_server.minting import rfc3339
from sessionwire_server.session_resource import NOBODY

__all__ = [
    "LEDGER",
    "Budget",
    "BudgetStatus",
    "LedgerEntry",
    "budget_session",
    "checked",
    "heard",
    "told_of",
    "with_heard",
]

BudgetStatus: TypeAlias = Literal["active", "paused", "exhausted", "disabled"]

LEDGER: Final = 200
"""Entries of its ledger that a budget keeps."""

_SAID: Final[Mapping[str, BudgetStatus]] = {
    "budget.warning": "active",
    "budget.paused": "paused",
    "budget.exhausted": "exhausted",
    "budget.resumed": "active",
}
_ACTIONS: Final = ("continue", "warn", "pause", "stop")


class LedgerEntry(msgspec.Struct, frozen=True):
    """A line of a budget's ledger; what is spent counts up, what is added down."""

    id: str
    amount: float
    created_ms: int
    description: str | None = None


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """A budget.

    Attributes:
        offset: of the newest event that had been heard when this was written; later ones count.
        paused_by: id of the event that paused it, "" where none did.
    """

    id: str
    currency: str
    limit: float
    balance: float
    created_ms: int
    updated_ms: int
    status: BudgetStatus = "active"
    soft_limit: float | None = None
    period: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    offset: int = 0
    paused_by: str = ""

    @classmethod
    def new(cls, sid: str, suffix: str, asked: CreateBudget, offset: int, now_ms: int) -> Budget:
        """Begin a budget; all of it is there to be spent."""
        return cls(
            id=f"bdgt_{sid}.{suffix}",
            currency=asked.currency,
            limit=asked.limit,
            balance=asked.limit,
            created_ms=now_ms,
            updated_ms=now_ms,
            soft_limit=asked.soft_limit,
            period=asked.period,
            metadata=asked.metadata,
            offset=offset,
        )

    def updated(self, asked: UpdateBudget, now_ms: int) -> Budget:
        """Change what is named; what has been spent stays."""
        named = asked.model_fields_set
        changes: dict[str, Any] = {"updated_ms": now_ms}
        if asked.limit is not None:
            changes |= {"limit": asked.limit, "balance": self.balance + asked.limit - self.limit}
        if "soft_limit" in named:
            changes["soft_limit"] = asked.soft_limit
        if asked.status is not None:
            changes |= {"status": asked.status, "paused_by": ""}
        if asked.metadata is not None:
            changes["metadata"] = asked.metadata
        return msgspec.structs.replace(self, **changes)

    def topped_up(self, entry: LedgerEntry) -> Budget:
        """Add to it; one that was exhausted may be spent again."""
        balance = self.balance - entry.amount
        has_more = self.status == "exhausted" and balance > 0
        return msgspec.structs.replace(
            self,
            balance=balance,
            status="active" if has_more else self.status,
            ledger=(entry, *self.ledger)[:LEDGER],
            updated_ms=entry.created_ms,
        )

    def resumed(self, now_ms: int) -> Budget:
        """Let it be spent again."""
        return msgspec.structs.replace(self, status="active", paused_by="", updated_ms=now_ms)

    def members(self, sid: str) -> dict[str, Any]:
        """Build the resource, of a session."""
        shown: dict[str, Any] = {
            "id": self.id,
            "organization_id": f"org_{NOBODY}",
            "subject_type": "session",
            "subject_id": sid,
            "currency": self.currency,
            "limit": self.limit,
            "balance": self.balance,
            "status": self.status,
            "created_at": rfc3339(self.created_ms),
            "updated_at": rfc3339(self.updated_ms),
            "soft_limit": self.soft_limit,
            "period": self.period,
            "metadata": self.metadata,
        }
        return {name: value for name, value in shown.items() if value is not None}

    def ledger_members(self) -> list[dict[str, Any]]:
        """Build its ledger, the newest first."""
        return [
            {
                "id": entry.id,
                "budget_id": self.id,
                "amount": entry.amount,
                "meter_source": "manual",
                "session_id": budget_session(self.id),
                "created_at": rfc3339(entry.created_ms),
                **({} if entry.description is None else {"description": entry.description}),
            }
            for entry in self.ledger
        ]


def budget_session(budget_id: str) -> str:
    """Give the session of a budget, "" for what is no budget's id."""
    head, _, suffix = budget_id.rpartition(".")
    return head.removeprefix("bdgt_") if suffix and head.startswith("bdgt_") else ""


def heard(lasts: Iterable[StoredEvent]) -> dict[str, StoredEvent]:
    """Find the newest event about each budget, by its id."""
    found: dict[str, StoredEvent] = {}
    for event in lasts:
        if event.type in _SAID:
            name = _data(event).get("budget_id")
            if isinstance(name, str) and (name not in found or found[name].offset < event.offset):
                found[name] = event
    return found


def told_of(event: StoredEvent) -> Budget:
    """Make a budget of what a host says of one that it keeps by itself."""
    data = _data(event)
    soft_limit = data.get("soft_limit")
    budget = Budget(
        id=str(data["budget_id"]),
        currency=str(data.get("currency", "")),
        limit=_number(data.get("limit"), 0),
        balance=0,
        created_ms=event.received_ms,
        updated_ms=event.received_ms,
        soft_limit=None if soft_limit is None else _number(soft_limit, 0),
        offset=event.offset - 1,
    )
    return with_heard(budget, event)


def with_heard(budget: Budget, event: StoredEvent | None) -> Budget:
    """Give a budget as it is after what the host has said of it since it was written."""
    if event is None or event.offset <= budget.offset:
        return budget
    data = _data(event)
    status = _SAID[event.type]
    return msgspec.structs.replace(
        budget,
        balance=_number(data.get("balance"), budget.balance),
        status=status,
        offset=event.offset,
        paused_by=event.id if status == "paused" else "",
        updated_ms=max(budget.updated_ms, event.received_ms),
    )


def _data(event: StoredEvent) -> dict[str, Any]:
    data: Any = msgspec.json.decode(event.body).get("data")
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _number(value: object, default: float) -> float:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return cast("float", value) if is_one else default


def checked(budgets: Iterable[Budget]) -> dict[str, Any]:
    """Tell what the most restrictive of some budgets lets a session do."""
    worst, action = None, "continue"
    for budget in budgets:
        found = _action(budget)
        if worst is None or _ACTIONS.index(found) > _ACTIONS.index(action):
            worst, action = budget, found
    if worst is None or action == "continue":
        return {"action": "continue"}
    return {
        "action": action,
        "message": f"the budget of {worst.limit:g} {worst.currency} has {worst.balance:g} left",
        "budget_id": worst.id,
        "balance": worst.balance,
        "currency": worst.currency,
    }


def _action(budget: Budget) -> str:
    if budget.status == "disabled":
        return "continue"
    if budget.status == "exhausted" or budget.balance <= 0:
        return "stop"
    if budget.status == "paused":
        return "pause"
    if budget.soft_limit is not None and budget.balance < budget.soft_limit:
        return "warn"
    return "continue"
