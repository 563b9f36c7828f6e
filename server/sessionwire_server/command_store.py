"""The commands of all sessions, in Redis: sent, read by the host, acknowledged (protocol.md §9).

Runs one script per operation and turns its refusals into errors. A session's state is in Redis
alone, so it does not matter which hub takes a command, hands it out or hears its acknowledgement.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sessionwire_server import scripts
from sessionwire_server.commands import (
    RECEIPT_KEPT_MS,
    RECEIPTS_KEPT,
    Acknowledge,
    CommandCursor,
    NewCommand,
    Receipt,
    command_refusal,
    read_receipt,
)
from sessionwire_server.deadlines import Deadlines
from sessionwire_server.errors import HubError
from sessionwire_server.keys import SessionKeys
from sessionwire_server.minting import rfc3339
from sessionwire_server.publish_call import SessionDeleted, session_not_found
from sessionwire_server.redis_link import RedisLink, Reply, Word
from sessionwire_server.settings import Settings

__all__ = ["CommandStore", "Handed", "LeaseLost", "session_gone"]

TAKE: Final = 16
"""Commands handed out in one call."""

TAKE_BYTES: Final = 2**20


class LeaseLost(HubError):
    """Somebody else became the host of the session."""

    def __init__(self) -> None:
        super().__init__(409, "lease_lost", "another host has taken the session over")


@dataclass(frozen=True, slots=True)
class Handed:
    """Commands handed to a host.

    Attributes:
        frames: what the host is told, by the cursor after each.
        after: number up to which commands were looked at.
        more: whether more are waiting after it.
    """

    frames: Sequence[tuple[CommandCursor, bytes]]
    after: int
    more: bool


def session_gone(sid: str, reply: Sequence[Reply], *, writing: bool) -> None:
    """Raise if a script found no session.

    Raises:
        HubError: 404 `session_not_found`; of a deleted one 410 `session_deleted` where writing.
    """
    if not reply:
        raise session_not_found(sid)
    if reply[0] == b"deleted":
        if writing:
            raise HubError(410, "session_deleted", f"session {sid!r} was deleted")
        raise SessionDeleted(sid)


class CommandStore:
    """Takes commands and hands them out.

    Every method raises `StoreUnavailable` while Redis is away, and 404 `session_not_found` where
    there is no session.
    """

    def __init__(
        self,
        link: RedisLink,
        settings: Settings,
        deadlines: Deadlines,
        rejected: Callable[[str, str, str], Awaitable[None]] | None = None,
    ) -> None:
        """Set up.

        Args:
            link: the link to Redis.
            settings: the hub's.
            deadlines: where expiry is noted.
            rejected: is told which prompt's answer the host rejected, and why: session, request id
                and the host's words.
        """
        self._link = link
        self._settings = settings
        self._deadlines = deadlines
        self._rejected = rejected

    async def _run(self, script: str, keys: Sequence[str], *words: Word) -> list[Reply]:
        reply: list[Reply] = await self._link.run(scripts.load(script), keys, words)
        return reply

    async def send(self, sid: str, command: NewCommand) -> Receipt:
        """Take a command, or find the same one.

        Raises:
            HubError: 409 `command_id_reused`, `not_steerable`; 410 `session_deleted`; 429
                `commands_full`.
            StoreUnavailable: also when the reply was lost; sending the same id again is safe.
        """
        expires_ms = 0
        if command.expires_in_s is not None:
            expires_ms = max(1, math.ceil(command.expires_in_s * 1000))
            await self._deadlines.note(sid, expires_ms)
        keys = SessionKeys.of(sid)
        reply = await self._run(
            "command_send",
            keys.steering(),
            keys.live,
            command.id,
            command.hash(),
            command.body(),
            command.about(),
            expires_ms,
            0 if command.is_answer else self._settings.commands_max,
            int(command.is_answer),
        )
        session_gone(sid, reply, writing=True)
        match reply[0]:
            case b"reused":
                raise command_refusal("reused", command.id)
            case b"not_steerable":
                raise command_refusal("not_steerable")
            case b"full":
                raise command_refusal("full", str(self._settings.commands_max))
            case _:
                return _receipt(command.id, reply[1:])

    async def look(self, sid: str, command_id: str) -> Receipt:
        """Read what became of a command.

        Raises:
            HubError: 404 `command_not_found`.
        """
        keys = SessionKeys.of(sid)
        reply = await self._run("command_look", (keys.meta, keys.receipts), command_id)
        session_gone(sid, reply, writing=False)
        if not reply[2]:
            raise _unknown(command_id)
        return _receipt(command_id, reply)

    async def take(self, sid: str, lease: int, after: int) -> Handed:
        """Hand out the next commands to the holder of a lease, in order.

        Args:
            sid: the session.
            lease: the fencing number.
            after: number of the command after which to go on.

        Raises:
            LeaseLost: the lease is another's.
        """
        keys = SessionKeys.of(sid)
        words = (lease, after, TAKE, TAKE_BYTES, RECEIPT_KEPT_MS, RECEIPTS_KEPT)
        reply = await self._run("command_take", keys.steering(), keys.live, *words)
        session_gone(sid, reply, writing=False)
        if reply[0] == b"lost":
            raise LeaseLost
        _, epoch, last, more, *entries = reply
        epoch = str(epoch, "ascii")
        frames = [_told(epoch, *entry) for entry in entries]
        return Handed(frames, int(last), bool(more))

    async def acknowledge(self, sid: str, command_id: str, said: Acknowledge) -> Receipt:
        """End a command as its host says; saying the same again is fine.

        Raises:
            LeaseLost: the lease that is given is not the newest one.
            HubError: 404 `command_not_found`; 409 `already_acknowledged` with another outcome; 410
                `expired`, `session_deleted`.
        """
        keys = SessionKeys.of(sid)
        reply = await self._run(
            "command_ack",
            keys.steering(),
            keys.live,
            command_id,
            said.outcome,
            said.spelled(),
            "" if said.lease is None else said.lease,
            RECEIPT_KEPT_MS,
            RECEIPTS_KEPT,
        )
        session_gone(sid, reply, writing=True)
        if reply[0] == b"unknown":
            raise _unknown(command_id)
        if reply[0] == b"lost":
            raise LeaseLost
        receipt = _receipt(command_id, reply[1:])
        if receipt.status == "expired":
            raise HubError(410, "expired", "the command expired before a host had read it")
        if receipt.status != said.outcome:
            detail = f"the command was acknowledged before, as {receipt.status}"
            raise HubError(409, "already_acknowledged", detail, outcome=receipt.status)
        if receipt.status == "rejected" and receipt.request_id and self._rejected is not None:
            # Also when it is said again: whoever heard it first may have died before this.
            await self._rejected(sid, receipt.request_id, receipt.detail or "")
        return receipt


def _receipt(command_id: str, words: Sequence[Reply]) -> Receipt:
    epoch, now, text = words
    return read_receipt(command_id, str(epoch, "ascii"), int(now), text)


def _told(
    epoch: str, n: int, command_id: bytes, attempt: int, created_ms: int, body: bytes
) -> tuple[CommandCursor, bytes]:
    cursor = CommandCursor(epoch, n)
    # Printable ASCII, but it may hold a quote or a backslash.
    spelled = command_id.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    data = b'{"id":"%b","cursor":"%b",%b,"created_at":"%b","attempt":%d}'
    created = rfc3339(created_ms).encode()
    return cursor, data % (spelled, str(cursor).encode(), body, created, attempt)


def _unknown(command_id: str) -> HubError:
    return HubError(404, "command_not_found", f"there is no command {command_id!r}")
