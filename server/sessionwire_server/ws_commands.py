"""Commands and the host's lease over a WebSocket (protocol.md §7.2, §9).

Each does what its HTTP route does, with the same refusals; what a command says is read by the same
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from sessionwire_server.bodies import model_of
from sessionwire_server.commands import Acknowledge, CommandCursor
from sessionwire_server.errors import HubError
from sessionwire_server.rpc_call import other_params, read_params
from sessionwire_server.steering import taken, written_command
from sessionwire_server.ws_call import Answer, Method, allowed, answer
from sessionwire_server.ws_host import HostedSession

if TYPE_CHECKING:
    from sessionwire_server.ws_connection import Connection

__all__ = ["COMMAND_METHODS"]

MAX_HOST_ID: Final = 256


class _Command(msgspec.Struct):
    session_id: str
    command: msgspec.Raw


class _Acknowledged(msgspec.Struct):
    session_id: str
    id: str


class _Attach(msgspec.Struct):
    session_id: str
    since: str = ""
    takeover: bool = False
    host_id: str = ""


class _Session(msgspec.Struct):
    session_id: str


_COMMAND: Final = msgspec.json.Decoder(_Command)
_ACKNOWLEDGED: Final = msgspec.json.Decoder(_Acknowledged)
_ATTACH: Final = msgspec.json.Decoder(_Attach)
_SESSION: Final = msgspec.json.Decoder(_Session)


async def send(connection: Connection, params: bytes) -> Answer:
    """Send a command, and tell what becomes of it until it is finished."""
    given = read_params(params, _COMMAND)
    sid = given.session_id
    sender = allowed(connection, "steer", sid)
    command = written_command(bytes(given.command), sender)
    with connection.sent_commands.place():
        receipt = await connection.desk.hub.commands.send(sid, command)
    return answer(taken(receipt), partial(connection.sent_commands.watch, sid, receipt))


async def acknowledge(connection: Connection, params: bytes) -> Answer:
    """Say what the host made of a command."""
    given = read_params(params, _ACKNOWLEDGED)
    allowed(connection, "publish", given.session_id)
    said = model_of(other_params(params, "session_id", "id"), Acknowledge)
    receipt = await connection.desk.hub.commands.acknowledge(given.session_id, given.id, said)
    return answer(receipt.members())


async def attach(connection: Connection, params: bytes) -> Answer:
    """Become the host of a session; its commands come after the result."""
    given = read_params(params, _ATTACH)
    sid = given.session_id
    host = allowed(connection, "publish", sid)
    if len(given.host_id.encode(errors="replace")) > MAX_HOST_ID:
        raise HubError(
            400,
            "invalid_parameter",
            f"host_id must be of at most {MAX_HOST_ID} bytes",
            parameter="host_id",
        )
    cursor = CommandCursor.parse(given.since) if given.since else None
    if sid in connection.hosted:
        raise HubError(409, "already_attached", f"the connection is the host of {sid!r} already")
    if len(connection.hosted) >= connection.desk.hub.settings.max_sessions_per_connection:
        raise HubError(429, "too_many_sessions", "the connection hosts as many as it may")
    hosted = HostedSession(connection, sid)
    run = partial(hosted.run, given.host_id or host.id, given.takeover, cursor)
    return answer(await connection.started(run), hosted.begin)


async def detach(connection: Connection, params: bytes) -> Answer:
    """Stop being the host of a session, also of one that is not hosted; the lease is free then."""
    hosted = connection.hosted.get(read_params(params, _SESSION).session_id)
    if hosted is not None:
        await hosted.leave()
    return Answer()


COMMAND_METHODS: Final[Mapping[str, Method]] = {
    "command.ack": acknowledge,
    "command.send": send,
    "host.attach": attach,
    "host.detach": detach,
}
