"""What is sent to answer and claim prompts, whatever brings it (protocol.md §8). Pure, no I/O.

Owns the shape and bounds of these bodies, the idempotency key and how an answerer is named in the
record. Whether an answer fits its prompt, and who is first, is the store's business.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field

from sessionwire_schemas.answer_faults import pointer
from sessionwire_schemas.outcomes import canonical
from sessionwire_schemas.prompt import Answerer
from sessionwire_schemas.prompt_transitions import MAX_LEASE_MS
from sessionwire_server.api_keys import Principal
from sessionwire_server.errors import HubError
from sessionwire_server.prompt_kept import Said
from sessionwire_server.prompt_refusals import invalid_answer

__all__ = [
    "AnswerPrompt",
    "ClaimPrompt",
    "ReleasePrompt",
    "answerer",
    "idempotency_key",
]

MAX_COMMENT: Final = 4_096
MAX_KEY: Final = 256
MAX_AGENT: Final = 120
LEASE_S: Final = 30.0

_KEY: Final = re.compile(rf"[ -~]{{1,{MAX_KEY}}}")
_UNPRINTABLE: Final = re.compile(r"[^ -~]+")
_MAX_INT: Final = 2**63

ClaimId = Annotated[str, Field(pattern="^[!-~]{1,128}$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AnswerPrompt(_Body):
    """The body of `POST …/answer`; an answer left out is the same as null."""

    answer: Any = None
    comment: Annotated[str, Field(max_length=MAX_COMMENT)] | None = None
    claim_id: ClaimId | None = None

    def said(self, request_id: str, key: str = "") -> Said:
        """Build what the store takes.

        Args:
            request_id: the prompt.
            key: its idempotency key, "" for none.

        Raises:
            HubError: 422 `invalid_answer` for a number that no record could hold.
        """
        beyond = next(_beyond(self.answer, ()), None)
        if beyond is not None:
            fault = {"pointer": pointer(*beyond), "message": "a number out of range"}
            raise invalid_answer(request_id, [fault])
        return Said(
            request_id=request_id,
            answer=self.answer,
            comment=self.comment or "",
            claim_id=self.claim_id or "",
            key=key,
            digest=self._digest() if key else "",
        )

    def _digest(self) -> str:
        """Hash what is said: the same for the same meaning, however it is spelled."""
        text = canonical([self.answer, self.comment or "", self.claim_id or ""])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class ClaimPrompt(_Body):
    """The body of `POST …/claim`; with a `claim_id` that claim is renewed."""

    lease_s: Annotated[float, Field(gt=0, le=MAX_LEASE_MS / 1000)] = LEASE_S
    claim_id: ClaimId | None = None


class ReleasePrompt(_Body):
    """The body of `DELETE …/claim`."""

    claim_id: ClaimId


def idempotency_key(text: str) -> str:
    """Check an idempotency key; an empty one is none.

    Raises:
        HubError: 400 `invalid_parameter`.
    """
    if text and not _KEY.fullmatch(text):
        raise HubError(
            400,
            "invalid_parameter",
            f"Idempotency-Key must be 1 to {MAX_KEY} printable ASCII characters",
            parameter="Idempotency-Key",
        )
    return text


def answerer(who: Principal, transport: str, agent: str = "") -> Answerer:
    """Name whoever answers, for the record.

    Args:
        who: its token.
        transport: `http`, `websocket` …
        agent: what its program calls itself; cut short.
    """
    program = _UNPRINTABLE.sub(" ", agent).strip()[:MAX_AGENT]
    return Answerer(
        name=who.name or who.id,
        human=who.human,
        via=f"{transport} {program}".rstrip(),
    )


def _beyond(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Give the places of numbers that would not come back as they were."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path
    elif isinstance(value, int):
        if not -_MAX_INT <= value < _MAX_INT:
            yield path
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, object]", value).items():
            yield from _beyond(item, (*path, name))
    elif isinstance(value, list):
        for n, item in enumerate(cast("list[object]", value)):
            yield from _beyond(item, (*path, n))
