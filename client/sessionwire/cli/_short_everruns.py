"""Short answers to everruns calls. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sessionwire.cli._short_words import (
    NO,
    YES,
    Choice,
    Kind,
    Words,
    are_pairs,
    find_option,
    offer,
    pairs_in,
    said_in,
    word_of,
)
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompts import Asked

__all__ = ["EVERRUNS"]


def _tool(_asked: Asked, words: Words, comment: str) -> tuple[Any] | None:
    if word_of(words) in NO:
        return ({"error": comment or "rejected"},)
    said = said_in(words)
    try:
        value: Any = json.loads(said)
    except ValueError:
        value = said
    result: Any = cast("Any", value) if isinstance(value, dict | list) else said
    return ({"result": result},)


def _approval(_asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    word = word_of(words)
    by_word = {"allow-always": "allow_always", "always": "allow_always"}
    by_word |= {"reject-always": "reject_always", "never": "reject_always"}
    by_word |= dict.fromkeys(YES, "allow") | dict.fromkeys(NO, "reject")
    return ({"decision": by_word[word]},) if word in by_word else None


def _questions(asked: Asked) -> dict[str, list[str]]:
    """Return the labels of each question's options, by its id."""
    listed = member(asked.data, "arguments.questions")
    found: dict[str, list[str]] = {}
    for question in cast("list[object]", listed) if isinstance(listed, list) else []:
        name, options = member(question, "id"), member(question, "options")
        if not isinstance(name, str):
            continue
        values = cast("list[object]", options) if isinstance(options, list) else []
        labels = [one if isinstance(one, str) else member(one, "label") for one in values]
        found[name] = [label for label in labels if isinstance(label, str)]
    return found


def _question(asked: Asked, words: Words, _comment: str) -> tuple[Any] | None:
    questions = _questions(asked)
    named = pairs_in(words) if are_pairs(words) else {}
    if named and named.keys() <= questions.keys():
        given = named
    else:
        said = said_in(words)
        offered = find_option([label for labels in questions.values() for label in labels], said)
        if word_of(words) in ("decline", "reject") and offered is None:
            return ({"status": "declined"},)
        if len(questions) != 1:
            return None
        given = {next(iter(questions)): [said]}
    replies = [_reply(name, questions[name], values) for name, values in given.items()]
    return ({"status": "answered", "answers": replies},)


def _reply(name: str, labels: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    chosen = [find_option(labels, value) for value in values]
    selected = [label for label in chosen if label is not None]
    other = [value for value, label in zip(values, chosen, strict=True) if label is None]
    typed = {"other_text": " ".join(other)} if other else {}
    return {"id": name, **({"selected": selected} if selected else {}), **typed}


def _question_choices(asked: Asked) -> list[Choice]:
    questions = _questions(asked)
    labels = next(iter(questions.values())) if len(questions) == 1 else []
    return [*(Choice(label, "") for label in labels), Choice("decline", "do not answer")]


EVERRUNS: Final[Mapping[str, Kind]] = {
    "tool": Kind(offer(("reject", "it failed")), _tool, "TEXT or JSON"),
    "question": Kind(_question_choices, _question, "TEXT, QUESTION=TEXT …"),
    "approval": Kind(
        offer(
            ("allow", "this once"),
            ("allow_always", "whenever it is asked"),
            ("reject", "and go on without it"),
            ("reject_always", "whenever it is asked"),
        ),
        _approval,
    ),
}
