"""From a request to stored events and their verdicts (protocol.md §4.5, POST events).

Owns what a hub remembers of sessions' catalogs, so that a publish needs no read before it. What it
remembers may be stale, for a session can be deleted and begun anew: a refusal for the catalog is
looked into once before it is believed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, cast

from msgspec import structs

from sessionwire_schemas.catalog import CatalogName
from sessionwire_schemas.cursor import Cursor
from sessionwire_schemas.prompts import NO_EFFECTS
from sessionwire_server.commands import NewCommand
from sessionwire_server.entries import Verdict
from sessionwire_server.errors import HubError
from sessionwire_server.hub import Hub
from sessionwire_server.ingest import Batch, Ingest
from sessionwire_server.ndjson import Lines, Tally, lines_of
from sessionwire_server.prompt_terms import CommandWrite

__all__ = ["Publishing", "verdict_members"]

MAX_KNOWN: Final = 50_000
"""Sessions whose catalog is remembered."""

FLUSH_BYTES: Final = 2**20
"""Lines of an upload that are stored together, unless their number is reached first."""


def verdict_members(verdict: Verdict) -> dict[str, Any]:
    """Spell what became of an event."""
    return {
        "id": verdict.id,
        "cursor": str(Cursor(verdict.epoch, *verdict.position, verdict.check)),
        "sequence": verdict.sequence,
        "duplicate": verdict.duplicate,
    }


class Publishing:
    """Publishes bodies for one hub process."""

    def __init__(self, hub: Hub) -> None:
        self.ingest = Ingest(hub.settings, hub.metrics)
        self._hub = hub
        self._catalogs: dict[str, CatalogName] = {}

    async def publish(self, sid: str, body: bytes) -> list[Verdict]:
        """Publish one event or an array of them, all or none.

        Raises:
            HubError: as `Ingest.prepare` and `EventStore.publish`.
        """
        return await self._stored(sid, lambda catalog: self.ingest.prepare(body, sid, catalog))

    async def publish_with(self, sid: str, body: bytes, command: NewCommand) -> Verdict:
        """Publish one event together with a command: both, or neither.

        The event is one that does something to prompts. Where it was published before, so was the
        command.

        Raises:
            HubError: as `publish`; 409 `command_id_reused`, `not_steerable`; 429 `commands_full`.
        """
        taken = CommandWrite(command.id, command.hash(), command.body(), command.about(), 0)
        most = self._hub.settings.commands_max

        def prepared(catalog: CatalogName | None) -> Batch:
            batch = self.ingest.prepare(body, sid, catalog)
            (entry,) = batch.entries
            assert entry.prompts is not NO_EFFECTS, "its command would not be looked at"
            batch.entries[0] = structs.replace(entry, command=taken, commands_max=most)
            return batch

        (verdict,) = await self._stored(sid, prepared)
        return verdict

    async def upload(self, sid: str, chunks: AsyncIterator[bytes]) -> Tally:
        """Publish lines as they come in.

        Raises:
            HubError: for the first line that is refused, with its `line` and the members of what is
                stored before it.
        """
        settings = self._hub.settings
        tally = Tally()
        lines = Lines(settings.max_event_bytes)
        waiting: list[tuple[int, bytes]] = []
        size = 0
        try:
            async for complete in lines_of(chunks, lines):
                try:
                    for line in complete:
                        waiting.append((lines.number, line))
                        size += len(line)
                        if len(waiting) == settings.max_batch_events or size > FLUSH_BYTES:
                            ready, waiting, size = waiting, [], 0
                            await self._flush(sid, ready, tally)
                finally:
                    # Also when the next line is too long: those before it are stored.
                    ready, waiting, size = waiting, [], 0
                    await self._flush(sid, ready, tally)
        except HubError as error:
            error.extra.setdefault("line", lines.number)
            error.extra.update(tally.members())
            raise
        return tally

    async def _flush(self, sid: str, lines: list[tuple[int, bytes]], tally: Tally) -> None:
        """Store lines up to the first one that is refused, whose error is raised."""
        if not lines:
            return
        fault: HubError | None = None

        def prepared(catalog: CatalogName | None) -> Batch:
            nonlocal fault
            fault = None
            batch = self.ingest.batch(sid, catalog)
            for number, line in lines:
                try:
                    batch.add(line)
                except HubError as error:
                    error.extra["line"] = number
                    if not batch.entries:
                        raise
                    fault = error
                    break
            return batch

        try:
            tally.add(await self._stored(sid, prepared))
        except HubError as error:
            error.extra.setdefault("line", lines[0][0])
            raise
        if fault is not None:
            raise fault

    async def _stored(
        self, sid: str, prepare: Callable[[CatalogName | None], Batch]
    ) -> list[Verdict]:
        known = self._catalogs.get(sid)
        try:
            return await self._store(sid, prepare(known))
        except HubError as error:
            if error.code not in {"catalog_mismatch", "catalog_unknown"}:
                raise
            actual = await self._look(sid)
            if actual is None or actual == known:
                raise
        # Nothing was stored, so this is the first time.
        return await self._store(sid, prepare(actual))

    async def _look(self, sid: str) -> CatalogName | None:
        self._catalogs.pop(sid, None)
        try:
            outlook = await self._hub.store.look(sid)
        except HubError as error:
            if error.status != 404:
                raise
            return None
        return cast("CatalogName", outlook.catalog) if outlook.catalog else None

    async def _store(self, sid: str, batch: Batch) -> list[Verdict]:
        hub = self._hub
        verdicts = await hub.store.publish(
            sid, batch.catalog, batch.entries, create=hub.settings.create_on_publish
        )
        if batch.catalog is not None:
            self._catalogs[sid] = batch.catalog
            if len(self._catalogs) > MAX_KNOWN:
                del self._catalogs[next(iter(self._catalogs))]
            duplicates = sum(verdict.duplicate for verdict in verdicts)
            hub.metrics.published[batch.catalog] += len(verdicts) - duplicates
            hub.metrics.duplicates += duplicates
        return verdicts
