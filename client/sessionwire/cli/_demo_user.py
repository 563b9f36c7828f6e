"""The demo's user: somebody at a console who answers what the agent asks, and sends it a message.

Does what any viewer could, through the public API. For the demo that ends by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final

import anyio
import anyio.to_thread

from sessionwire import _prompts
from sessionwire._commands import SentCommand
from sessionwire._http import HubAddress, async_client, client
from sessionwire._prompts import PromptRecord, watch_prompts
from sessionwire.cli._short_answers import read_words
from sessionwire.cli._short_copilot import options_of
from sessionwire.cli._standing import answered_how
from sessionwire.errors import Conflict

__all__ = ["User"]

THINKS_S: Final = 0.3
"""How long it looks at a prompt."""

MESSAGE: Final = "Please leave the tests as they are."

PATIENCE_S: Final = 60.0

_WORDS: Final[Mapping[str, str]] = {"permission": "approve", "exit_plan_mode": "approve",
                                    "elicitation": "accept"}  # fmt: skip


class User:
    """Answers what one session asks, every prompt at two places at once.

    Attributes:
        answered: how many prompts it answered.
    """

    def __init__(self, address: HubAddress, session: str, say: Callable[[str], None]) -> None:
        self.answered = 0
        self._address = address
        self._session = session
        self._say = say
        self._done: set[str] = set()

    async def run(self) -> None:
        """Answer for ever; cancelled when the session is over.

        Raises:
            HubError: the hub does not take an answer, or does not say what waits for one.
        """
        async with (
            async_client(self._address) as http,
            aclosing(watch_prompts(http, self._session)) as lists,
            anyio.create_task_group() as tasks,
        ):
            async for waiting in lists:
                for one in waiting:
                    if one.waits and one.request_id not in self._done:
                        self._done.add(one.request_id)
                        await self._answer(one)
                        if self.answered == 1:
                            tasks.start_soon(self._send)

    async def _answer(self, one: PromptRecord) -> None:
        await anyio.sleep(THINKS_S)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer_from, one, "the console")
            tasks.start_soon(self._answer_from, one, "a phone")
        self.answered += 1

    async def _answer_from(self, one: PromptRecord, place: str) -> None:
        asked = one.asked()
        if asked is None:
            return
        words = [_WORDS.get(one.kind) or next(iter(options_of(asked)), "yes")]
        given = read_words(asked, words)
        async with async_client(self._address) as http:
            try:
                taken = await _prompts.answer(
                    http, self._session, one.request_id, given, comment=f"from {place}"
                )
            except Conflict as exc:
                self._say(f"the user, from {place}, is told: already {answered_how(exc.extra)}")
            else:
                self._say(
                    f"the user, from {place}, says {words[0]!r}: {answered_how(taken.members)}"
                )

    async def _send(self) -> None:
        await anyio.to_thread.run_sync(self._send_and_wait, abandon_on_cancel=True)

    def _send_and_wait(self) -> None:
        with client(self._address) as http:
            data = {"prompt": MESSAGE, "mode": "enqueue"}
            command = SentCommand(http, self._session, "message.send", data)
            stages = list(command.stages(PATIENCE_S))
        self._say(f"the user sent {MESSAGE!r}: {', '.join(stages)}")
