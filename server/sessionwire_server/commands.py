"""Commands and what becomes of them (protocol.md §9). Pure, no I/O.

Owns what a command may say, the cursor of commands, how a receipt is kept in Redis and how it is
shown. `data` is delivered as it was written; what is asked twice under one id is compared by its
meaning.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sessionwire_schemas.cursor import MAX_NUMBER
from sessionwire_schemas.names import EVENT_ID_PATTERN
from sessionwire_server.errors import HubError
from sessionwire_server.minting import rfc3339

__all__ = [
    "RECEIPTS_KEPT",
    "RECEIPT_KEPT_MS",
    "Acknowledge",
    "CommandCursor",
    "NewCommand",
    "Receipt",
    "SendCommand",
    "Status",
    "check_command",
    "command_refusal",
    "read_receipt",
]

Status: TypeAlias = Literal["accepted", "delivered", "consumed", "rejected", "expired"]

RECEIPT_KEPT_MS: Final = 86_400_000
"""How long the receipt of a finished command is kept."""

RECEIPTS_KEPT: Final = 1_000
"""How many receipts of finished commands a session keeps."""

MAX_EXPIRES_S: Final = 30 * 86_400
MAX_DETAIL: Final = 4_096

_CURSOR: Final = re.compile(r"([a-z2-7]{8})\.(0|[1-9][0-9]{0,15})")
_OWN_TYPE: Final = re.compile(r"x\.[A-Za-z0-9_.:-]{1,126}")

CommandId = Annotated[str, Field(pattern=f"^{EVENT_ID_PATTERN.pattern}$")]


class SendCommand(BaseModel):
    """The body of `POST …/commands`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: CommandId | None = None
    type: str
    data: dict[str, Any] = {}
    expires_in_s: Annotated[float, Field(gt=0, le=MAX_EXPIRES_S)] | None = None


class Acknowledge(BaseModel):
    """The body of `POST …/commands/{cid}/ack`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    outcome: Literal["consumed", "rejected"]
    detail: Annotated[str, Field(max_length=MAX_DETAIL)] | None = None
    event_id: CommandId | None = None
    lease: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None

    def spelled(self) -> bytes:
        """Spell what a receipt keeps of it, on one line."""
        return msgspec.json.encode({"detail": self.detail, "event_id": self.event_id})


class _Data(BaseModel):
    """What a known type says; other members are the host's business and kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class _MessageSend(_Data):
    prompt: str
    mode: Literal["enqueue", "immediate"]
    attachments: list[dict[str, Any]] | None = None
    display_prompt: str | None = None


class _Abort(_Data):
    reason: str | None = None


_KNOWN: Final[Mapping[str, type[_Data]]] = {
    "message.send": _MessageSend,
    "abort": _Abort,
    "mode.set": _Data,
    "model.set": _Data,
    "queue.clear": _Data,
}


def check_command(name: str, data: Mapping[str, Any]) -> None:
    """Check the type of a command that somebody sends, and the data of a known one.

    Raises:
        HubError: 422 `invalid_command` with the `pointer` of the fault.
    """
    model = _KNOWN.get(name)
    if model is None:
        if _OWN_TYPE.fullmatch(name):
            return
        known = ", ".join(_KNOWN)
        raise _invalid(f"the type must be one of {known}, or x. and a name of your own", "/type")
    try:
        model.model_validate(data)
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False)[0]
    else:
        return
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in fault["loc"]]
    pointer = "".join(f"/{step}" for step in ("data", *steps))
    raise _invalid(f"{pointer}: {fault['msg']}", pointer)


def command_refusal(reason: str, about: str = "") -> HubError:
    """Build the error of a command that is not taken.

    Args:
        reason: `reused`, `not_steerable` or `full`.
        about: the command's id where it is reused, how many may wait where those are full.
    """
    match reason:
        case "reused":
            detail = f"another command was sent as {about!r}"
            return HubError(409, "command_id_reused", detail)
        case "not_steerable":
            return HubError(409, "not_steerable", "the session takes no commands")
        case _:
            detail = f"{about} commands wait for the host, as many as may"
            return HubError(429, "commands_full", detail, headers={"Retry-After": "5"})


def _invalid(detail: str, pointer: str) -> HubError:
    return HubError(422, "invalid_command", detail, pointer=pointer)


@dataclass(frozen=True, slots=True)
class NewCommand:
    """A command that is to be taken.

    Attributes:
        id: names it in its session: 1 to 128 printable ASCII characters.
        type: its type, checked.
        data: JSON object on one line, as it was written.
        by: who sends it.
        expires_in_s: when it ends if no host has read it until then; None never.
        is_answer: an answer to a prompt: taken in any number, and where nothing else is.
        request_id: of the prompt, for an answer.
    """

    id: str
    type: str
    data: bytes
    by: Mapping[str, Any]
    expires_in_s: float | None = None
    is_answer: bool = False
    request_id: str = ""

    def hash(self) -> str:
        """Hash what is asked: the same for the same meaning, however it is spelled."""
        asked = [self.type, json.loads(self.data), self.expires_in_s]
        text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def body(self) -> bytes:
        """Spell what its host is told, but for what only Redis knows."""
        name, by = msgspec.json.encode(self.type), msgspec.json.encode(self.by)
        return b'"type":%b,"data":%b,"by":%b' % (name, self.data, by)

    def about(self) -> bytes:
        """Spell what a receipt keeps of it, on one line."""
        about: dict[str, Any] = {"type": self.type, "by": self.by}
        if self.request_id:
            about["request_id"] = self.request_id
        return msgspec.json.encode(about)


@dataclass(frozen=True, slots=True)
class CommandCursor:
    """A place just after command number `n` of a session.

    Attributes:
        epoch: life of the session's numbers.
        n: 0 is before the first command.
    """

    epoch: str
    n: int

    @classmethod
    def parse(cls, text: str) -> CommandCursor:
        """Read a cursor.

        Raises:
            HubError: 400 `invalid_cursor`.
        """
        match = _CURSOR.fullmatch(text)
        if match is None or int(match[2]) > MAX_NUMBER:
            raise HubError(400, "invalid_cursor", f"not a cursor of commands: {text[:80]!r}")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.epoch}.{self.n}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a command. Times are Unix milliseconds of Redis' clock, None for not yet.

    Attributes:
        attempt: how often it was handed to a host.
        expires_ms: when it ends if it is still `accepted`.
        detail, event_id: what the host said.
        request_id: of the prompt that it answers, "" for any other command.
    """

    id: str
    cursor: CommandCursor
    status: Status
    type: str
    by: Mapping[str, Any]
    attempt: int
    created_ms: int
    delivered_ms: int | None
    finished_ms: int | None
    expires_ms: int | None
    detail: str | None
    event_id: str | None
    request_id: str = ""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will become of it."""
        return self.status in ("consumed", "rejected", "expired")

    def expired(self, now_ms: int) -> Receipt:
        """Give it as it stands once its command has expired."""
        return replace(self, status="expired", finished_ms=now_ms)

    def members(self) -> dict[str, Any]:
        """Build the resource."""
        return {
            "id": self.id,
            "cursor": str(self.cursor),
            "type": self.type,
            "status": self.status,
            "by": self.by,
            "attempt": self.attempt,
            "created_at": rfc3339(self.created_ms),
            "delivered_at": _time(self.delivered_ms),
            "finished_at": _time(self.finished_ms),
            "expires_at": _time(self.expires_ms),
            "detail": self.detail,
            "event_id": self.event_id,
        }


def _time(ms: int | None) -> str | None:
    return None if ms is None else rfc3339(ms)


def read_receipt(command_id: str, epoch: str, now_ms: int, text: bytes) -> Receipt:
    """Read a receipt as `lua/_receipt.lua` writes it.

    Args:
        now_ms: Redis' time; a command whose time is over has expired, swept or not.
    """
    line, about, outcome = text.split(b"\n", 2)
    status, n, attempt, _hash, *times = line.decode().split(" ")
    created, delivered, finished, expires = map(int, times)
    told = cast("dict[str, Any]", json.loads(about))
    said = cast("dict[str, Any]", json.loads(outcome or b"{}"))
    receipt = Receipt(
        id=command_id,
        cursor=CommandCursor(epoch, int(n)),
        status=cast("Status", status),
        type=told.get("type", ""),
        by=told.get("by", {}),
        attempt=int(attempt),
        created_ms=created,
        delivered_ms=delivered or None,
        finished_ms=finished or None,
        expires_ms=expires or None,
        detail=said.get("detail"),
        event_id=said.get("event_id"),
        request_id=told.get("request_id", ""),
    )
    if receipt.status == "accepted" and expires and expires <= now_ms:
        return receipt.expired(expires)
    return receipt
