"""What can be called over a WebSocket (protocol.md §7): one coroutine function a method.

Each reads its params, checks what the speaker may do and does what the HTTP route does. The table
names them all; those of commands and the host are `ws_commands`, those of prompts `ws_prompts`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from starlette.datastructures import Headers, QueryParams

from sessionwire_server.access import unauthorized
from sessionwire_server.audience import Filter, Taste, plain
from sessionwire_server.entries import StoredEvent
from sessionwire_server.errors import HubError
from sessionwire_server.ingest import batch_too_large
from sessionwire_server.list_changes import list_changes, list_query
from sessionwire_server.minting import rfc3339
from sessionwire_server.opening import Opening, open_at
from sessionwire_server.presence import Presence
from sessionwire_server.prompt_kept import OpenPrompts
from sessionwire_server.prompt_states import prompts_data
from sessionwire_server.publish_call import SessionDeleted
from sessionwire_server.publishing import verdict_members
from sessionwire_server.query import Query
from sessionwire_server.redaction import redacted_taste
from sessionwire_server.redaction import shown as redacted
from sessionwire_server.rpc_call import read_params
from sessionwire_server.rpc_spelling import RpcSpelling
from sessionwire_server.session_index import SessionQuery
from sessionwire_server.session_resource import session_members
from sessionwire_server.stream_request import StreamRequest
from sessionwire_server.viewer import Viewer
from sessionwire_server.ws_call import Answer, Method, allowed, answer, speaker
from sessionwire_server.ws_commands import COMMAND_METHODS
from sessionwire_server.ws_prompts import PROMPT_METHODS
from sessionwire_server.ws_sender import TransportOutlet
from sessionwire_server.ws_subscription import Subscription

if TYPE_CHECKING:
    from sessionwire_server.ws_connection import Connection

__all__ = ["AUTHENTICATE", "METHODS"]

AUTHENTICATE: Final = "authenticate"
"""The one method that needs no token."""


class _Token(msgspec.Struct):
    token: str


class _Session(msgspec.Struct):
    session_id: str


class _Events(msgspec.Struct):
    session_id: str
    events: msgspec.Raw


class _Place(msgspec.Struct):
    session_id: str
    since_id: str = ""
    after_sequence: int | None = None
    start: str = msgspec.field(name="from", default="")
    types: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class _List(msgspec.Struct):
    status: str = ""
    catalog: str = ""
    q: str = ""


class _Prompts(msgspec.Struct):
    data: msgspec.Raw


_PROMPTS: Final = msgspec.json.Decoder(_Prompts)
_TOKEN: Final = msgspec.json.Decoder(_Token)
_SESSION: Final = msgspec.json.Decoder(_Session)
_EVENTS: Final = msgspec.json.Decoder(_Events)
_PLACE: Final = msgspec.json.Decoder(_Place)
_LIST: Final = msgspec.json.Decoder(_List)


async def authenticate(connection: Connection, params: bytes) -> Answer:
    """Say who speaks, or go on under another token."""
    token = read_params(params, _TOKEN).token
    try:
        principal = await connection.desk.hub.access.of_token(token)
        if principal.expires_at is not None and principal.expires_at <= time.time():
            raise unauthorized()
    except HubError as error:
        if error.status == 401 and connection.principal is None:
            connection.end("unauthorized")
        raise
    try:
        connection.speak_as(principal)
    except HubError:
        if connection.principal is None:
            connection.end("full")
        raise
    ends = principal.expires_at
    return answer({"expires_at": None if ends is None else rfc3339(int(ends * 1000))})


async def ping(_connection: Connection, _params: bytes) -> Answer:
    """Say that the hub is there, to clients that cannot send pings of the protocol."""
    return Answer()


async def publish(connection: Connection, params: bytes) -> Answer:
    """Publish one event or a list of them, all or none."""
    given = read_params(params, _EVENTS)
    sid = given.session_id
    allowed(connection, "publish", sid)
    events = bytes(given.events)
    settings = connection.desk.hub.settings
    if len(events) > settings.max_batch_bytes:
        raise batch_too_large(settings)
    verdicts = await connection.desk.publishing.publish(sid, events)
    return answer({"data": [verdict_members(verdict) for verdict in verdicts]})


async def subscribe(connection: Connection, params: bytes) -> Answer:
    """Follow a session; its events come after the result."""
    given = read_params(params, _PLACE)
    hub = connection.desk.hub
    sid = given.session_id
    allowed(connection, "read", sid)
    if sid in connection.subscriptions:
        raise HubError(409, "already_subscribed", f"the session {sid!r} is followed already")
    if len(connection.subscriptions) >= hub.settings.max_sessions_per_connection:
        raise HubError(429, "too_many_sessions", "the connection follows as many as it may")
    request = StreamRequest.read(Headers({}), _query(given), hub.settings.default_from)
    with ExitStack() as held:
        held.enter_context(hub.watching(sid, speaker(connection)))
        shown = request.filter(await _catalog(connection, sid))
        viewer = _viewer(connection, sid, shown)
        held.callback(_leave, viewer)
        result = await _opened(connection, viewer, request, shown)
        subscription = Subscription(viewer, held.pop_all())
    connection.subscriptions[sid] = subscription
    begin = partial(connection.deliver, sid, subscription)
    return Answer(result, partial(connection.beside, begin))


async def _catalog(connection: Connection, sid: str) -> str:
    try:
        return (await connection.desk.hub.store.look(sid)).catalog or "copilot"
    except SessionDeleted as error:
        # Where a stream says 204: it will never work again.
        raise HubError(410, "session_deleted", f"the session {sid!r} is deleted") from error


def _viewer(connection: Connection, sid: str, shown: Filter) -> Viewer:
    hub, outlet = connection.desk.hub, connection.outlet
    taste = Taste(shown, RpcSpelling(sid, outlet.framing), True, plain)
    if hub.redacts(speaker(connection)):
        taste = redacted_taste(taste)
    sender = outlet if isinstance(outlet, TransportOutlet) else None
    return Viewer(hub.feed.channel(sid), taste, hub.pages, sender)


def _leave(viewer: Viewer) -> None:
    viewer.channel.leave(viewer, anyio.current_time())


async def _opened(
    connection: Connection, viewer: Viewer, request: StreamRequest, shown: Filter
) -> bytes:
    """Give the viewer its place and spell the result. Subscribed before anything is read."""
    hub, sid = connection.desk.hub, viewer.channel.sid
    await hub.feed.confirm(viewer.channel)
    opening = await open_at(hub.store, sid, request.start, now_ms=int(time.time() * 1000))
    lasts = await hub.pages.lasts(sid)
    life = viewer.channel.states.life
    record, prompts = await hub.store.session(sid), await hub.prompts.open(sid)
    presence = await hub.presence.of(sid)
    hub.states.learn(viewer.channel, prompts, life)
    viewer.begin(opening, ephemeral_replay=True, snapshot_sent=True)
    if opening.gap is not None:
        hub.fan_out.stats.gaps += 1
    return msgspec.json.encode(
        {
            **_place_members(opening),
            "prompts": _spelled(connection, sid, prompts, presence),
            "last": [msgspec.Raw(event.body) for event in _seen(connection, lasts, shown)],
            "session": session_members(record, viewers=presence.viewers),
        }
    )


def _seen(
    connection: Connection, lasts: Sequence[StoredEvent], wanted: Filter
) -> list[StoredEvent]:
    """Pick the last values that the speaker wants and may be shown, as it may be shown them."""
    admitted = [event for event in lasts if wanted.admits(event)]
    if not connection.desk.hub.redacts(speaker(connection)):
        return admitted
    return [seen for event in admitted if (seen := redacted(event)) is not None]


def _spelled(
    connection: Connection, sid: str, found: OpenPrompts, presence: Presence
) -> msgspec.Raw:
    """Spell the open prompts as the state that follows tells them, within the same bounds."""
    hub = connection.desk.hub
    data = prompts_data(
        sid,
        found,
        unattended=presence.can_answer == 0,
        redacted=hub.redacts(speaker(connection)),
        max_bytes=hub.settings.page_bytes,
    )
    return _PROMPTS.decode(data).data


def _place_members(opening: Opening) -> dict[str, Any]:
    epoch, head = opening.outlook.epoch, opening.outlook.head
    return {
        "cursor": str(opening.cursor),
        "head": f"{epoch}.{head.sequence}.{head.offset}.{head.check}",
        "epoch": epoch,
        "resumed": opening.resumed,
        "gap": None if opening.gap is None else opening.gap.members(),
    }


async def unsubscribe(connection: Connection, params: bytes) -> Answer:
    """Stop following a session, also one that is not followed."""
    connection.drop(read_params(params, _SESSION).session_id)
    return Answer()


async def subscribe_list(connection: Connection, params: bytes) -> Answer:
    """Follow the list of sessions; again with other filters replaces the first."""
    given = read_params(params, _LIST)
    speaker(connection).require("read")
    query = Query(QueryParams(msgspec.to_builtins(given)))
    wanted = list_query(query, lambda sid: speaker(connection).sees(sid))
    _stop_list(connection)
    scope = connection.listing = anyio.CancelScope()
    begin = partial(_tell_list, connection, wanted, scope)
    return Answer(then=partial(connection.beside, begin))


async def unsubscribe_list(connection: Connection, _params: bytes) -> Answer:
    """Stop following the list."""
    _stop_list(connection)
    return Answer()


def _stop_list(connection: Connection) -> None:
    if connection.listing is not None:
        connection.listing.cancel()
        connection.listing = None


async def _tell_list(
    connection: Connection, wanted: SessionQuery, scope: anyio.CancelScope
) -> None:
    hub = connection.desk.hub
    with scope:
        changes = list_changes(hub, wanted, lambda: hub.settings.heartbeat_s)
        async with aclosing(changes):
            async for told in changes:
                if told is not None and not scope.cancel_called:
                    name, data = told
                    await connection.notify(f"sessions.{name.removeprefix('session.')}", data)


def _query(given: _Place) -> QueryParams:
    """Spell a place as a stream's query, which is read in one way only."""
    after = [] if given.after_sequence is None else [("after_sequence", str(given.after_sequence))]
    filters = {"types": given.types, "exclude": given.exclude, "agents": given.agents}
    return QueryParams(
        [
            ("since_id", given.since_id),
            ("from", given.start),
            ("control", "1"),
            *after,
            *((name, value) for name, values in filters.items() for value in values),
        ]
    )


METHODS: Final[Mapping[str, Method]] = {
    **COMMAND_METHODS,
    **PROMPT_METHODS,
    AUTHENTICATE: authenticate,
    "ping": ping,
    "session.publish": publish,
    "session.subscribe": subscribe,
    "session.unsubscribe": unsubscribe,
    "sessions.subscribe": subscribe_list,
    "sessions.unsubscribe": unsubscribe_list,
}
