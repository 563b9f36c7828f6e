"""NDJSON bodies of any length, stored as they come in (protocol.md §4.5).

Cuts a stream of chunks into lines and hands over what is complete after every chunk, so that an
upload that never ends is live as well. At most one line and one chunk are held.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from sessionwire_schemas.cursor import Cursor
from sessionwire_server.entries import Verdict
from sessionwire_server.errors import HubError

__all__ = ["Lines", "Tally", "lines_of"]


@dataclass(slots=True)
class Tally:
    """What has become of an upload so far."""

    stored: int = 0
    duplicates: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None
    cursor: str | None = None

    def add(self, verdicts: list[Verdict]) -> None:
        """Count the verdicts on some more lines."""
        for verdict in verdicts:
            if verdict.duplicate:
                self.duplicates += 1
            else:
                self.stored += 1
            if verdict.sequence is not None:
                if self.first_sequence is None:
                    self.first_sequence = verdict.sequence
                self.last_sequence = verdict.sequence
        if verdicts:
            last = verdicts[-1]
            self.cursor = str(Cursor(last.epoch, *last.position, last.check))

    def members(self) -> dict[str, int | str | None]:
        """Return the members of the answer."""
        return {
            "stored": self.stored,
            "duplicates": self.duplicates,
            "first_sequence": self.first_sequence,
            "last_sequence": self.last_sequence,
            "cursor": self.cursor,
        }


class Lines:
    """Cuts chunks into lines. Sans I/O.

    Attributes:
        number: of the last line handed out, beginning with 1 and counting blank ones.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self.number = 0
        self._limit = max_line_bytes
        self._rest: list[bytes] = []
        self._rest_size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk completes, without the spaces around them, no blank ones.

        Raises:
            HubError: 413 `event_too_large` for a line that grows beyond the limit.
        """
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            line = b"".join((*self._rest, piece)).strip(b" \t\r")
            self._rest.clear()
            self._rest_size = 0
            self.number += 1
            if line:
                yield line
        if rest:
            self._rest.append(rest)
            self._rest_size += len(rest)
        if self._rest_size > self._limit:
            self.number += 1
            raise HubError(
                413, "event_too_large", f"a line has at most {self._limit} bytes", limit=self._limit
            )

    def end(self) -> Iterator[bytes]:
        """Yield the last line, where no line break follows it."""
        yield from self.feed(b"\n") if self._rest else ()


async def lines_of(stream: AsyncIterator[bytes], lines: Lines) -> AsyncIterator[Iterator[bytes]]:
    """Yield, chunk by chunk, the lines that are complete."""
    async for chunk in stream:
        yield lines.feed(chunk)
    yield lines.end()
