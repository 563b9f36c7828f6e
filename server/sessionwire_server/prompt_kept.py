"""The values that pass between the prompt store and those who show or answer prompts. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sessionwire_schemas.prompt import Prompt
from sessionwire_server.entries import StoredEvent

__all__ = ["Answered", "Kept", "Looked", "OpenPrompts", "PromptPage", "Said"]


@dataclass(frozen=True, slots=True)
class Kept:
    """One prompt as it is kept.

    Attributes:
        prompt: its record; `prompt.event` is None.
        opener: the event that opened it, with its place and its bytes; None once it is closed.
    """

    prompt: Prompt
    opener: StoredEvent | None


@dataclass(frozen=True, slots=True)
class OpenPrompts:
    """The open prompts of a session, from one read.

    Attributes:
        version: number of the last change of a prompt, open or closed.
        now_ms: Redis' time.
        catalog: the session's, "" while it has none.
        kept: the prompts, the oldest first.
    """

    version: int
    now_ms: int
    catalog: str
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class PromptPage:
    """A page of a session's prompts.

    Attributes:
        kept: open ones first, the oldest first; then closed ones, the newest first.
        next_page_token: where the next page begins, None on the last one.
        now_ms: Redis' time.
    """

    kept: tuple[Kept, ...]
    next_page_token: str | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class Looked:
    """One prompt, open or closed.

    Attributes:
        kept: the prompt.
        now_ms: Redis' time.
        secrets: what was cut out of its opener, as a part of its `data`; None where there is
            nothing, it was not asked for, or the prompt is closed.
    """

    kept: Kept
    now_ms: int
    secrets: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """One answer on its way.

    Attributes:
        request_id: the prompt.
        answer: the answer as decoded JSON; None where it is left out.
        comment: the answerer's remark.
        claim_id: the claim under which it is given, "" for none.
        key: its idempotency key, "" for none.
        digest: a hash of the body, compared where a key comes again.
    """

    request_id: str
    answer: object
    comment: str = ""
    claim_id: str = ""
    key: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of an answer.

    Attributes:
        kept: the prompt after it.
        verdict: `taken`, or `repeated` for the winning answer sent again under its key.
        now_ms: Redis' time.
    """

    kept: Kept
    verdict: Literal["taken", "repeated"]
    now_ms: int
