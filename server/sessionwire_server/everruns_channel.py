"""Channels: the paths under which a program calls one agent (protocol.md §4.8).

A channel is a name. A session belongs to the one that it was created with, and to the end user that
was named then; for every other it is not there. Owns that rule and how such a session is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from starlette.requests import Request

from sessionwire_schemas.catalog import EVERRUNS
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompts import asked
from sessionwire_server.errors import HubError
from sessionwire_server.everruns_turn import Turn
from sessionwire_server.minting import rfc3339
from sessionwire_server.prompt_kept import Kept
from sessionwire_server.query import invalid
from sessionwire_server.session_record import SessionRecord

__all__ = ["INPUT_KINDS", "Channel", "card", "channel_session", "pending_input"]

INPUT_KINDS: Final = frozenset({"question", "approval", "elicitation"})
"""What a session waits on from a person."""

_CHANNEL: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_END_USER: Final = re.compile(r"[ -~]{1,256}")


@dataclass(frozen=True, slots=True)
class Channel:
    """Whose sessions a request is about.

    Attributes:
        id: the channel.
        end_user: the user of the calling program for whom it asks, "" for the program itself, which
            may ask for all of its users.
    """

    id: str
    end_user: str = ""

    @classmethod
    def of(cls, request: Request) -> Channel:
        """Read it from the path and the header `End-User`.

        Raises:
            HubError: 404 `not_found` for what is no channel, 400 `invalid_parameter`.
        """
        channel = request.path_params["channel"]
        if not _CHANNEL.fullmatch(channel):
            raise HubError(404, "not_found", "there is no such channel")
        end_user = request.headers.get("end-user", "")
        if end_user and not _END_USER.fullmatch(end_user):
            raise invalid("End-User", "must be 1 to 256 printable ASCII characters")
        return cls(channel, end_user)

    def members(self) -> dict[str, str]:
        """Give the members that a session of it is created with."""
        return {"channel_id": self.id, **({"end_user": self.end_user} if self.end_user else {})}

    def require(self, session: SessionRecord) -> None:
        """Refuse a session that is not one of its own.

        Raises:
            HubError: 404 `session_not_found`.
        """
        given = session.members()
        if any(given.get(name) != value for name, value in self.members().items()):
            raise HubError(404, "session_not_found", f"there is no session {session.id!r}")


def card(channel: Channel) -> dict[str, Any]:
    """Build what a caller is told of an agent: the hub knows its channel and nothing else."""
    return {
        "name": channel.id,
        "streaming": True,
        "input": {"text": True, "images": True, "files": True},
        "auth": [{"type": "agent_key"}, {"type": "runtime_token"}],
        "links": {"sessions": f"/v1/channels/{channel.id}/sessions"},
    }


def channel_session(
    session: SessionRecord, turn: Turn | None, waits_for: Iterable[str]
) -> dict[str, Any]:
    """Build the resource.

    Args:
        session: the session.
        turn: its latest turn, None where it is not known.
        waits_for: the kinds of its open prompts.
    """
    outcome = "" if turn is None else turn.outcome
    if INPUT_KINDS.intersection(waits_for):
        status = "waitingforinput"
    elif session.status in ("active", "waitingfortoolresults"):
        status = "active"
    else:
        status = "failed" if outcome == "failed" else session.status
    return {
        "id": session.id,
        **({"title": session.title} if session.title else {}),
        "status": status,
        **({"last_turn_status": outcome} if outcome else {}),
        "created_at": rfc3339(session.created_ms),
        "updated_at": rfc3339(session.updated_ms),
    }


def pending_input(kept: Iterable[Kept]) -> dict[str, list[dict[str, Any]]]:
    """Build what a session waits on from a person, the oldest first."""
    questions: list[dict[str, Any]] = []
    approvals: list[dict[str, Any]] = []
    for one in kept:
        if one.opener is None or one.prompt.opening.kind not in INPUT_KINDS:
            continue
        call = asked(EVERRUNS, msgspec.json.decode(one.opener.body), one.prompt.request_id)
        if call is None:
            continue
        arguments: Any = member(call.data, "arguments")
        said = cast("Mapping[str, Any]", arguments if isinstance(arguments, Mapping) else {})
        common: dict[str, Any] = {"tool_call_id": one.prompt.request_id}
        if one.prompt.expires_ms is not None:
            common["expires_at"] = rfc3339(one.prompt.expires_ms)
        if call.kind == "approval":
            common |= {"answerable": True, "tool_name": said.get("tool")}
            approvals.append({**common, "arguments": said.get("arguments"), **_risk(said)})
        else:
            questions.append({**common, "questions": said.get("questions", [])})
    return {"pending_questions": questions, "pending_approvals": approvals}


def _risk(said: Mapping[str, Any]) -> dict[str, Any]:
    names = ("arguments_truncated", "risk")
    return {name: said[name] for name in names if said.get(name) is not None}
