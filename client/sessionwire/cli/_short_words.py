"""Words that people answer with, and how a kind of prompt is answered by them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sessionwire_schemas.prompts import Asked

__all__ = [
    "NO",
    "YES",
    "Choice",
    "Kind",
    "Words",
    "WordsError",
    "are_pairs",
    "find_option",
    "named",
    "offer",
    "pairs_in",
    "said_in",
    "word_of",
]

YES: Final = ("approve", "yes", "y", "ok", "allow", "accept")
NO: Final = ("reject", "no", "n", "deny", "decline")

Words: TypeAlias = Sequence[str]


class WordsError(ValueError):
    """The words make no answer to this prompt; the text says what would."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A word that is an answer by itself, and what it says."""

    word: str
    says: str


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is answered.

    Attributes:
        choices: the words that its prompt offers.
        read: turns words and comment into an answer, None where they are none.
        else_: what else may be said, for people; empty for nothing.
    """

    choices: Callable[[Asked], list[Choice]]
    read: Callable[[Asked, Words, str], tuple[Any] | None]
    else_: str = ""


def word_of(words: Words) -> str:
    """Return the word where it is one, spelled as the tables here spell it; else nothing."""
    return words[0].casefold().replace("_", "-") if len(words) == 1 else ""


def said_in(words: Words) -> str:
    """Return the words as one text."""
    return " ".join(words)


def named(name: str, text: str) -> dict[str, str]:
    """Return a member, or none where its text is empty."""
    return {name: text} if text else {}


def find_option(options: Sequence[str], said: str) -> str | None:
    """Find the option that is meant: as it is written, else the only one that differs in case."""
    if said in options:
        return said
    near = [option for option in options if option.casefold() == said.casefold()]
    return near[0] if len(near) == 1 else None


def are_pairs(words: Words) -> bool:
    """Tell whether every word is `name=value`."""
    return all("=" in word and not word.startswith("=") for word in words)


def pairs_in(words: Words) -> dict[str, list[str]]:
    """Return the values by name; a name may come again."""
    found: dict[str, list[str]] = {}
    for word in words:
        name, _, value = word.partition("=")
        found.setdefault(name, []).append(value)
    return found


def offer(*found: tuple[str, str]) -> Callable[[Asked], list[Choice]]:
    """Offer the same words whatever is asked."""
    return lambda _asked: [Choice(word, says) for word, says in found]
