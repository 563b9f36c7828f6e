"""A session as the routes show it (protocol.md §4.4). Pure.

The members given at creation come back as they were given; the hub's own stand over them. What the
official SDK's session model requires is always there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from sessionwire_server.entries import StoredEvent
from sessionwire_server.minting import rfc3339
from sessionwire_server.session_record import SessionRecord

__all__ = ["STATUSES", "CreateSession", "session_members"]

STATUSES: Final = ("started", "active", "idle", "waitingfortoolresults")

NOBODY: Final = "0" * 32
"""Stands in ids that an everruns server would have and a hub has not."""


class CreateSession(BaseModel):
    """The body of `POST /v1/sessions`. Other members are everruns' own and kept as given."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: str | None = None
    catalog: Literal["copilot", "everruns"] | None = None
    title: Annotated[str, Field(max_length=2_000)] | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    completion: Literal["hub", "host"] | None = None
    organization_id: str | None = None
    harness_id: str | None = None
    agent_id: str | None = None


def session_members(
    session: SessionRecord, *, viewers: int = 0, lasts: Sequence[StoredEvent] | None = None
) -> dict[str, Any]:
    """Build the resource.

    Args:
        session: the session.
        viewers: open streams of it.
        lasts: the newest event of each last-value kind, None to leave them out.
    """
    given = {name: value for name, value in session.members().items() if value is not None}
    members: dict[str, Any] = {
        "organization_id": f"org_{NOBODY}",
        "harness_id": f"harness_{NOBODY}",
        "tags": [],
        **given,
        "id": session.id,
        "catalog": session.catalog or None,
        "title": session.title or None,
        "status": session.status,
        "created_at": rfc3339(session.created_ms),
        "updated_at": rfc3339(session.updated_ms),
        "cursor": str(session.cursor),
        "sequence": session.head.sequence,
        "pending_prompts": session.open_prompts,
        "viewers": viewers,
        "host": {
            "connected": session.host_since_ms is not None,
            "since": None if session.host_since_ms is None else rfc3339(session.host_since_ms),
        },
        "steerable": session.steerable,
        "is_pinned": session.pinned,
    }
    if lasts is not None:
        members["last"] = [msgspec.Raw(event.body) for event in lasts]
    return members
