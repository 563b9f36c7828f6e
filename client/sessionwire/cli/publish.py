"""`sessionwire publish SESSION [FILE|-]`: events from JSON or NDJSON into a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final, Protocol, cast

import httpx2
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from sessionwire._event_reader import EventReader, MalformedEvents, ReadEvent
from sessionwire._http import HubAddress, client, connection_failed, session_path
from sessionwire._publish import Publisher, Tally, batches
from sessionwire.cli._address import Key, Session, Url, find_hub
from sessionwire.cli._exit import CommandFailed
from sessionwire.errors import HubError

__all__ = ["publish"]

READ_BYTES: Final = 256 * 1024


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def publish(
    session: Session,
    file: Annotated[
        str, typer.Argument(help="JSON or NDJSON; `-` is standard input.", metavar="[FILE|-]")
    ] = "-",
    url: Url = "",
    key: Key = "",
) -> None:
    """Publish events to a session, which is created if need be.

    FILE holds one event, an array of them, or one a line. Events without an id are given one before
    they are sent, so that what has to be sent again is stored once. Nothing is buffered but one
    batch: a live producer may be piped in.
    """
    address = find_hub(url, key)
    with ExitStack() as stack:
        http = stack.enter_context(client(address))
        source = _open(file, stack)
        read = stack.enter_context(_Progress(file))
        publisher = Publisher(http, session)
        catalog = _catalog(http, session, address)
        publisher.reached = True
        try:
            for events in _events(source, read):
                for batch in batches(events, catalog):
                    publisher.send(batch)
        except (HubError, MalformedEvents) as error:
            tally = publisher.tally
            if stored := tally.stored + tally.duplicates:
                error.add_note(_stored_before(stored))
            raise
    sys.stdout.write(f"{_summary(session, publisher.tally)}\n")


def _open(file: str, stack: ExitStack) -> _Source:
    if file == "-":
        return cast("_Source", sys.stdin.buffer)
    try:
        return stack.enter_context(Path(file).open("rb"))
    except OSError as exc:
        raise CommandFailed(f"cannot read {file}: {exc.strerror}") from exc


def _catalog(http: httpx2.Client, session: str, address: HubAddress) -> str:
    """Ask for the catalog of a session that is there, for events that do not show theirs."""
    try:
        response = http.get(session_path(session))
        return str(response.json().get("catalog") or "") if response.status_code == 200 else ""
    except httpx2.HTTPError as exc:
        raise connection_failed(address.url, exc) from exc
    except (ValueError, AttributeError):
        return ""


def _events(source: _Source, read: _Progress) -> Iterator[list[ReadEvent]]:
    reader = EventReader()
    while chunk := source.read1(READ_BYTES):
        read.advance(len(chunk))
        if events := reader.feed(chunk):
            yield events
    yield reader.finish()


def _stored_before(count: int) -> str:
    return "1 event before it is stored" if count == 1 else f"{count} events before it are stored"


def _summary(session: str, tally: Tally) -> str:
    parts = [f"{tally.stored} {'event' if tally.stored == 1 else 'events'} stored in {session}"]
    if tally.first_sequence is not None:
        parts.append(f"sequence {tally.first_sequence} to {tally.last_sequence}")
    if tally.duplicates:
        parts.append(f"{tally.duplicates} were there already")
    return ", ".join([*parts, f"cursor {tally.cursor}"] if tally.cursor else parts)


class _Progress:
    """The bytes read so far, shown on stderr where it is a terminal."""

    def __init__(self, file: str) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        total = os.stat(file).st_size if file != "-" and Path(file).is_file() else None
        self._task = self._bar.add_task("publishing", total=total)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar off the terminal."""
        self._bar.stop()

    def advance(self, count: int) -> None:
        """Count bytes."""
        self._bar.advance(self._task, count)
