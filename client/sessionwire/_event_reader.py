"""Reading events from JSON or NDJSON as it streams in, sans-I/O.

Takes bytes, gives each event as it was written, with the line it begins at. Does not know what an
event has to look like, but for being a JSON object: that is the hub's to judge.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

__all__ = ["EventReader", "MalformedEvents", "ReadEvent"]

MAX_EVENT_CHARS: Final = 16 * 2**20
"""Twice the largest event that a hub takes by default: beyond that nothing more is buffered."""

SMALL_CHARS: Final = 256 * 1024

_SPACE: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """One event of the input: its JSON as written, the same parsed, its first line from 1."""

    body: str
    members: dict[str, Any]
    line: int


class MalformedEvents(ValueError):
    """The input is not JSON objects.

    Attributes:
        line: where, from 1.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class EventReader:
    """Reads one object, an array of objects, or one object after the other (NDJSON).

    Which of them it is shows in the first characters; line breaks inside an object are fine.
    """

    def __init__(self, *, max_event_chars: int = MAX_EVENT_CHARS) -> None:
        self._max_event_chars = max_event_chars
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder()
        self._text = ""
        self._line = 1
        self._retry_at = 0
        self._begun = False
        self._in_array = False
        self._comma_due = False
        self._closed = False

    def feed(self, chunk: bytes) -> list[ReadEvent]:
        """Take the next bytes and return the events they complete.

        Raises:
            MalformedEvents: these bytes cannot become JSON objects.
        """
        self._text += self._decode(chunk, final=False)
        return list(self._events(final=False)) if self._is_due(chunk) else []

    def finish(self) -> list[ReadEvent]:
        """Take the end of the input and return what it completes.

        Raises:
            MalformedEvents: the input ends inside an object or array.
        """
        self._text += self._decode(b"", final=True)
        events = list(self._events(final=True))
        if self._in_array and not self._closed:
            raise MalformedEvents(self._line, "the array does not end")
        return events

    def _is_due(self, chunk: bytes) -> bool:
        """Tell whether to try an incomplete object again.

        With each line while it is small, so that a live producer's events are not held back; only
        when as much again has come otherwise, or a large one would be parsed over and over.
        """
        size = len(self._text)
        return size >= self._retry_at or (size < SMALL_CHARS and b"\n" in chunk)

    def _decode(self, chunk: bytes, *, final: bool) -> str:
        try:
            text = self._utf8.decode(chunk, final)
        except UnicodeDecodeError as exc:
            line = self._line + self._text.count("\n") + exc.object[: exc.start].count(b"\n")
            raise MalformedEvents(line, "not UTF-8") from exc
        return text.removeprefix("\ufeff") if not self._begun and not self._text else text

    def _events(self, *, final: bool) -> Iterator[ReadEvent]:
        at = 0
        try:
            while (at := self._skip(at)) < len(self._text):
                if self._closed:
                    raise MalformedEvents(self._line, "something follows the array")
                found = self._object(at, final=final)
                if found is None:
                    break
                event, end = found
                self._line += self._text.count("\n", at, end)
                at, self._retry_at, self._comma_due = end, 0, self._in_array
                yield event
        finally:
            self._text = self._text[at:]

    def _skip(self, at: int) -> int:
        """Step over spaces and the array's own characters."""
        text = self._text
        while at < len(text):
            if text[at] in _SPACE:
                self._line += text[at] == "\n"
            elif text[at] == "[" and not self._begun:
                self._in_array = True
            elif self._in_array and not self._closed and text[at] == "]":
                self._closed = True
            elif self._comma_due and text[at] == ",":
                self._comma_due = False
            else:
                break
            self._begun = self._begun or text[at] not in _SPACE
            at += 1
        return at

    def _object(self, at: int, *, final: bool) -> tuple[ReadEvent, int] | None:
        self._begun = True
        if self._text[at] != "{" or self._comma_due:
            raise MalformedEvents(self._line, f"expected an object, got {self._text[at]!r}")
        try:
            members, end = self._json.raw_decode(self._text, at)
        except (json.JSONDecodeError, RecursionError) as exc:
            self._incomplete(at, exc, final=final)
            return None
        body = self._text[at:end]
        return ReadEvent(body, cast("dict[str, Any]", members), self._line), end

    def _incomplete(self, at: int, exc: Exception, *, final: bool) -> None:
        pending = len(self._text) - at
        reason = exc.msg if isinstance(exc, json.JSONDecodeError) else "nested too deeply"
        line = self._line
        if isinstance(exc, json.JSONDecodeError):
            line += self._text.count("\n", at, exc.pos)
        if final or not _may_continue(self._text, at, exc):
            raise MalformedEvents(line, reason)
        if pending > self._max_event_chars:
            raise MalformedEvents(
                self._line, f"an event of over {self._max_event_chars} characters"
            )
        self._retry_at = 2 * pending


def _may_continue(text: str, at: int, exc: Exception) -> bool:
    """Tell whether more input could mend what was read: the fault is at the very end of it."""
    if not isinstance(exc, json.JSONDecodeError):
        return False
    # A string that is cut short is reported where it begins; a number, a word or an escape too, and
    # they are no longer than this.
    return exc.msg.startswith("Unterminated string") or len(text) - exc.pos < 12
