"""`/v1/sessions/{sid}/events`, its summary and the export (protocol.md §4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from sessionwire_schemas.catalog import CATALOGS
from sessionwire_server.answers import json_response, streamed
from sessionwire_server.bodies import body_kind, read_body
from sessionwire_server.desk import Desk
from sessionwire_server.entries import RewoundRange
from sessionwire_server.ingest import batch_too_large
from sessionwire_server.listing import EventList, ListQuery
from sessionwire_server.log_scan import LogScan
from sessionwire_server.minting import rfc3339
from sessionwire_server.publishing import verdict_members
from sessionwire_server.query import Query

__all__ = ["export", "list_all", "publish", "summary"]

_FAILURES = frozenset({"turn.failed", "tool.failed", "subagent.failed"})


async def publish(request: Request) -> Response:
    """POST events: one, an array, or lines of any length."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    await desk.hub.access.authorize(request, "publish", sid)
    if body_kind(request) == "ndjson":
        tally = await desk.publishing.upload(sid, request.stream())
        return json_response(tally.members())
    settings = desk.hub.settings
    body = await read_body(request, settings.max_batch_bytes, batch_too_large(settings))
    verdicts = await desk.publishing.publish(sid, body)
    return json_response({"data": [verdict_members(verdict) for verdict in verdicts]})


async def list_all(request: Request) -> Response:
    """GET events: the durable ones, filtered and cut as asked."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    principal = await desk.hub.access.authorize(request, "read", sid)
    query = ListQuery.read(Query(request.query_params))
    with desk.scan(sid, principal) as scan:
        events = EventList(desk.hub.store, scan, query, sid)
        await events.open()
        headers = {} if events.total is None else {"X-Total-Count": str(events.total)}
        return await streamed(events.pieces(), scan, "application/json", headers)


async def summary(request: Request) -> Response:
    """GET the counts by type of what the list shows without filters."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    principal = await desk.hub.access.authorize(request, "read", sid)
    outlook = await desk.hub.store.look(sid)
    counts: Counter[str] = Counter()
    times: list[int] = []
    with desk.scan(sid, principal) as scan:
        until = outlook.head.sequence
        async for event in scan.events(after=0, until=until, hidden=outlook.rewound):
            counts[event.type] += 1
            times[1:] = [event.at_ms or event.received_ms]
            if len(times) == 1:
                times *= 2
    catalog = CATALOGS.get(outlook.catalog)
    span = {"first_ts": rfc3339(times[0]), "last_ts": rfc3339(times[1])} if times else {}
    return json_response(
        {
            "total": counts.total(),
            "by_type": [
                {"event_type": name, "count": count} for name, count in sorted(counts.items())
            ],
            **span,
            "turn_count": 0 if catalog is None else counts[catalog.turn_start_type],
            "error_count": sum(
                count
                for name, count in counts.items()
                if name in _FAILURES or name.endswith(".error")
            ),
        }
    )


async def export(request: Request) -> Response:
    """GET the whole log, one event a line."""
    desk = Desk.of(request)
    sid = request.path_params["sid"]
    principal = await desk.hub.access.authorize(request, "read", sid)
    include_rewound = Query(request.query_params).flag("include_rewound")
    outlook = await desk.hub.store.look(sid)
    hidden = () if include_rewound else outlook.rewound
    with desk.scan(sid, principal) as scan:
        lines = _lines(scan, outlook.head.sequence, hidden)
        return await streamed(lines, scan, "application/x-ndjson")


async def _lines(
    scan: LogScan, until: int, hidden: tuple[RewoundRange, ...]
) -> AsyncIterator[bytes]:
    async for event in scan.events(after=0, until=until, hidden=hidden):
        yield event.body + b"\n"
