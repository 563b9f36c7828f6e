"""Short words for answers: what people type, turned into the answer of a prompt's kind. Pure.

Owns the words and nothing of their meaning: the hub checks every answer against its prompt. A word
is only offered where the prompt can take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessionwire.cli._short_copilot import COPILOT
from sessionwire.cli._short_everruns import EVERRUNS
from sessionwire.cli._short_words import Choice, Kind, Words, WordsError
from sessionwire_schemas.prompts import Asked

__all__ = ["choices", "hint", "read_words"]

_KINDS: Final[Mapping[str, Kind]] = {**COPILOT, **EVERRUNS}


def choices(asked: Asked) -> list[Choice]:
    """Return the words that answer a prompt without anything else, the likely one first."""
    return _KINDS[asked.kind].choices(asked)


def hint(asked: Asked) -> str:
    """Say in one line what may be answered."""
    words = [choice.word for choice in choices(asked)]
    more = _KINDS[asked.kind].else_
    if asked.data.get("allowFreeform") is False:
        more = ""
    return ", ".join([*words, more] if more else words) + ", or --json ANSWER"


def read_words(asked: Asked, words: Words, comment: str = "") -> Any:
    """Turn what was typed into an answer.

    Args:
        asked: what the prompt asks.
        words: the words, at least one.
        comment: a remark, which a refusal takes along as its reason.

    Raises:
        WordsError: they are none.
    """
    found = _KINDS[asked.kind].read(asked, words, comment)
    if found is None:
        raise WordsError(f"{' '.join(words)!r} does not answer this prompt; say {hint(asked)}")
    return found[0]
