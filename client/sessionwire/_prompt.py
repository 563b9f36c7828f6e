"""One prompt as a program meets it: what is asked, and the ways to answer (protocol.md §8).

Owns claims that are kept alive. Who is first is the hub's to decide: an answer that comes second
raises, and says who won.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from sessionwire import _prompts
from sessionwire._api import insist
from sessionwire._event import Event
from sessionwire._owned_tasks import OwnedTasks
from sessionwire._prompts import PromptRecord
from sessionwire.errors import Conflict, Gone, HubError, NotFound

if TYPE_CHECKING:
    import httpx2

__all__ = ["LEASE_S", "WAIT_S", "Prompt"]

logger = logging.getLogger(__name__)

LEASE_S: Final = 30.0
"""How long a claim lasts that is not renewed: what a program that died holds others up."""

WAIT_S: Final = 20
"""One long poll."""


class Prompt:
    """A question that an agent waits on.

    Attributes:
        record: it as the hub showed it last.
    """

    def __init__(self, http: httpx2.AsyncClient, record: PromptRecord) -> None:
        self.record = record
        self._http = http
        self._claim_id = ""

    @property
    def session_id(self) -> str:
        """The session it belongs to."""
        return self.record.session_id

    @property
    def request_id(self) -> str:
        """Names it within its session."""
        return self.record.request_id

    @property
    def kind(self) -> str:
        """What is asked: `permission`, `user_input`, `question` … ."""
        return self.record.kind

    @property
    def claimable(self) -> bool:
        """Whether it is for a program, which may claim it."""
        return self.record.members.get("claimable") is True

    @property
    def event(self) -> Event | None:
        """The event that opened it; None once it is closed."""
        opener = self.record.event
        if opener is None:
            return None
        body = json.dumps(opener, ensure_ascii=False, separators=(",", ":"))
        return Event(str(opener.get("type")), "", body, dict(opener))

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked, as raw members: the opener's data, or the one call that is meant."""
        asked = self.record.asked()
        return {} if asked is None else dict(asked.data)

    async def answer(self, answer: Any, *, comment: str = "") -> PromptRecord:
        """Answer it in the vocabulary of its kind (protocol.md §8.1), under a claim if it has one.

        Raises:
            PromptAlreadyAnswered, PromptClaimed: somebody else was first.
            InvalidAnswer: it does not fit; `extra["faults"]` says where.
            Gone: the prompt ended without an answer; `code` says how.
        """
        self.record = await _prompts.answer(
            self._http,
            self.session_id,
            self.request_id,
            answer,
            comment=comment,
            claim_id=self._claim_id,
        )
        return self.record

    async def say(self, *words: str, comment: str = "") -> PromptRecord:
        """Answer in the short words of `sessionwire answer`: `approve`, `reject`, a text … .

        Raises:
            ValueError: they are no answer to this prompt; the text says what would be.
            HubError: see `answer`.
        """
        from sessionwire.cli._short_answers import read_words

        asked = self.record.asked()
        if asked is None:
            raise ValueError("nothing is known of what this prompt asks")
        return await self.answer(read_words(asked, words, comment), comment=comment)

    async def approve(self) -> PromptRecord:
        """Say yes, this once. Raises what `say` does."""
        return await self.say("approve")

    async def reject(self, reason: str = "") -> PromptRecord:
        """Say no. Raises what `say` does."""
        return await self.say("reject", comment=reason)

    async def refresh(self, *, wait_s: int = 0) -> PromptRecord:
        """Look at it again, waiting up to `wait_s` (at most 30) seconds for a change."""

        async def attempt() -> PromptRecord:
            return await _prompts.prompt(
                self._http, self.session_id, self.request_id, wait_s=wait_s
            )

        self.record = await insist(attempt, patience_s=None)
        return self.record

    async def closed(self) -> PromptRecord:
        """Wait until it is answered and done with, or has ended, over restarts of the hub."""
        while self.record.is_open:
            await self.refresh(wait_s=WAIT_S)
        return self.record

    @asynccontextmanager
    async def claim(self, *, lease_s: float = LEASE_S) -> AsyncGenerator[None]:
        """Take it for as long as the block lasts; answers within are given under the claim.

        The claim is renewed meanwhile and given back at the end if there is no answer by then. The
        block is cancelled where the claim is lost.

        Raises:
            PromptClaimed: somebody else is at it.
            Conflict, Gone: it is not for programs, was answered, or ended; also within the block.
        """
        made = await _prompts.claim(self._http, self.session_id, self.request_id, lease_s=lease_s)
        self._claim_id = made.claim_id
        try:
            async with OwnedTasks() as tasks:
                tasks.start(self._renew, lease_s)
                yield
        finally:
            await self._give_back()

    async def _renew(self, lease_s: float) -> None:
        while True:
            await anyio.sleep(lease_s / 3)
            if not self.record.waits:
                return  # answered by ourselves
            try:
                await _prompts.claim(
                    self._http,
                    self.session_id,
                    self.request_id,
                    lease_s=lease_s,
                    claim_id=self._claim_id,
                )
            except (Conflict, Gone, NotFound):
                if self.record.waits:
                    raise
            except HubError as error:
                logger.info("a claim could not be renewed yet: %s", error)

    async def _give_back(self) -> None:
        claim_id, self._claim_id = self._claim_id, ""
        if not self.record.waits:
            return
        with anyio.move_on_after(2, shield=True):
            try:
                await _prompts.release(self._http, self.session_id, self.request_id, claim_id)
            except HubError as error:
                logger.info("a claim was not given back and lapses by itself: %s", error)

    def __repr__(self) -> str:
        return f"<Prompt {self.request_id!r} {self.kind} {self.record.status}>"
