"""The prompts of sessions: read, answered, claimed and watched (protocol.md §8).

Owns the record as clients have it and the requests. An answer carries an idempotency key, so that
sending it again after a lost reply is the same answer. Decides nothing about who was first.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

import anyio
import httpx2

from sessionwire._follow import Start, Wanted, follow
from sessionwire._http import connection_failed, json_object, rejected_async, session_path
from sessionwire._items import Prompts
from sessionwire._reconnect import Outcome, Reconnection, classify_error
from sessionwire._session_list import watch_sessions
from sessionwire.errors import ProtocolError, Unavailable, UnknownSession
from sessionwire_schemas.catalog import CATALOGS, detect
from sessionwire_schemas.prompts import Asked, asked

__all__ = [
    "STATUSES",
    "PromptClaim",
    "PromptRecord",
    "answer",
    "claim",
    "prompt",
    "prompts",
    "release",
    "watch_prompts",
]

PAGE: Final = 200
"""Prompts, or sessions with prompts, in one answer of the hub."""

TRIES: Final = 8
"""Times that an answer is sent before its hub counts as out of reach."""

OPEN: Final = ("pending", "claimed", "answered")
"""The states of a prompt that something can still happen to."""

STATUSES: Final = (
    *OPEN,
    "completed",
    "expired",
    "cancelled",
    "orphaned",
    "withdrawn",
    "rewound",
)
"""All states: the open ones, and how a prompt is closed."""

_RARE: Final = {"copilot": "session.shutdown", "everruns": "turn.sealed"}
"""A type that hardly ever comes: with it alone a stream brings the prompts and few events."""


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """A prompt as the hub shows it. Times are RFC 3339.

    Attributes:
        request_id: names it within its session.
        session_id: the session.
        kind: what is asked: `permission`, `user_input` …
        status: `pending`, `claimed`, `answered`, or how it ended.
        event: the event that opened it; None once the prompt is closed.
        opened_at: since when it waits.
        expires_at: its deadline, None for none.
        claim: who is at it, `by` and `expires_at`; None for nobody.
        answer: the answer, None while there is none and where the host's event was it.
        answered_by: who gave it: `name`, `human`, `via`, or `host`; None for nobody.
        answered_at: when.
        unattended: nobody who could answer is connected; None where that is not known.
        members: all of it, as the hub said it.
    """

    request_id: str
    session_id: str
    kind: str
    status: str
    event: Mapping[str, Any] | None
    opened_at: str
    expires_at: str | None
    claim: Mapping[str, Any] | None
    answer: Any
    answered_by: Mapping[str, Any] | None
    answered_at: str | None
    unattended: bool | None
    members: Mapping[str, Any]

    @classmethod
    def read(cls, members: Mapping[str, Any]) -> PromptRecord:
        """Read what the hub said.

        Raises:
            ProtocolError: it is no prompt.
        """
        named = cls.__dataclass_fields__.keys() - {"members"}
        given = {name: members.get(name) for name in named}
        lacks = [name for name in _SPELLED if not isinstance(given[name], str)]
        if lacks:
            raise ProtocolError(f"a prompt without {lacks[0]!r}")
        return cls(**cast("Any", given), members=members)

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer, or for its host to take one."""
        return self.status in OPEN

    @property
    def waits(self) -> bool:
        """Whether an answer would be taken."""
        return self.status in ("pending", "claimed")

    def asked(self) -> Asked | None:
        """Return what is asked, taken out of the opener; None without one that is known."""
        catalog = None if self.event is None else detect(self.event)
        if self.event is None or catalog is None:
            return None
        return asked(CATALOGS[catalog], self.event, self.request_id)


_SPELLED: Final = ("request_id", "session_id", "kind", "status", "opened_at")


@dataclass(frozen=True, slots=True)
class PromptClaim:
    """A prompt that is ours until `expires_at`; `claim_id` renews it, and goes with the answer."""

    claim_id: str
    expires_at: str


async def prompts(
    http: httpx2.AsyncClient, session_id: str = "", *, statuses: Sequence[str] = ()
) -> AsyncGenerator[PromptRecord]:
    """Yield the prompts of a session, or the open ones of every session that the key may read.

    Args:
        http: with the hub as its base URL, and a key with `read`.
        session_id: the session; empty for all.
        statuses: only prompts in one of these states; empty for the open ones.

    Raises:
        HubError: the hub does not say.
    """
    async with aclosing(_listed(http, session_id, statuses, 1)) as found:
        async for one in found:
            yield one


async def _listed(
    http: httpx2.AsyncClient, session_id: str, statuses: Sequence[str], tries: int
) -> AsyncGenerator[PromptRecord]:
    path = session_path(session_id, "prompts") if session_id else "/v1/prompts"
    params = [("limit", str(PAGE)), *(("status", status) for status in statuses)]
    token: object = None
    while True:
        more = [("page_token", token)] if isinstance(token, str) else []
        page = await _got(http, path, [*params, *more], tries=tries)
        for members in _objects(page.get("data")):
            yield PromptRecord.read(members)
        token = page.get("next_page_token")
        if not token:
            return


async def prompt(
    http: httpx2.AsyncClient,
    session_id: str,
    request_id: str,
    *,
    wait_s: int = 0,
    secrets: bool = False,
) -> PromptRecord:
    """Look at one prompt.

    Args:
        http: see `prompts`.
        session_id: the session.
        request_id: the prompt's id, whatever characters it has.
        wait_s: wait up to so many seconds, at most 30, for its next change.
        secrets: with what was cut out of it, in `members["secrets"]`; needs a key marked so.

    Raises:
        HubError: there is none, or the hub does not say.
    """
    given = (("wait_s", str(wait_s) if wait_s else ""), ("secrets", "1" if secrets else ""))
    params = [(name, value) for name, value in given if value]
    return PromptRecord.read(await _got(http, _path(session_id, request_id), params, wait_s))


async def answer(
    http: httpx2.AsyncClient,
    session_id: str,
    request_id: str,
    answer: object,
    *,
    comment: str = "",
    claim_id: str = "",
    key: str = "",
    tries: int = TRIES,
) -> PromptRecord:
    """Answer a prompt. A reply that is lost is asked for again: it is the same answer.

    Args:
        http: with a key that has `answer`.
        session_id: the session.
        request_id: the prompt's id.
        answer: a JSON value in the vocabulary of the prompt's kind.
        comment: a remark that is kept beside it.
        claim_id: the claim that it is given under.
        key: idempotency key: the same one with the same answer is taken once; empty makes one.
        tries: times that it is sent while the hub is away.

    Returns: the prompt, as the answer left it.

    Raises:
        Conflict: somebody else was first, or has claimed it; `extra` says who and when.
        Gone: it ended without an answer; `code` says how.
        InvalidRequest: the answer does not fit; `extra["faults"]` says where.
        HubError: the hub refuses otherwise, or stays away.
    """
    said = {"answer": answer, "comment": comment or None, "claim_id": claim_id or None}
    body = {name: value for name, value in said.items() if name == "answer" or value is not None}
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    path = f"{_path(session_id, request_id)}/answer"

    async def post() -> httpx2.Response:
        return await http.post(path, json=body, headers=headers)

    return PromptRecord.read(await _again(http, post, tries))


async def claim(
    http: httpx2.AsyncClient,
    session_id: str,
    request_id: str,
    *,
    lease_s: float = 30.0,
    claim_id: str = "",
) -> PromptClaim:
    """Take a prompt that a program answers, or renew that with its `claim_id`.

    Args:
        http: with a key that has `answer`.
        session_id: the session.
        request_id: the prompt's id.
        lease_s: how long it is ours, at most 300 s.
        claim_id: the claim to renew.

    Raises:
        Conflict: somebody else has it, or has answered; or its kind is for people.
        Gone: it ended.
        HubError: the hub refuses otherwise, or is away.
    """
    body = {"lease_s": lease_s, **({"claim_id": claim_id} if claim_id else {})}
    path = f"{_path(session_id, request_id)}/claim"
    answer = await _again(http, lambda: http.post(path, json=body), 1)
    return PromptClaim(str(answer.get("claim_id")), str(answer.get("expires_at")))


async def release(
    http: httpx2.AsyncClient, session_id: str, request_id: str, claim_id: str
) -> None:
    """Give a claim back; one that has lapsed is given back as well.

    Raises:
        HubError: the hub refuses, or is away.
    """
    path = f"{_path(session_id, request_id)}/claim"
    try:
        response = await http.delete(path, params={"claim_id": claim_id})
    except httpx2.HTTPError as exc:
        raise connection_failed(http.base_url, exc) from exc
    if response.status_code != 204:
        raise await rejected_async(response)


async def watch_prompts(
    http: httpx2.AsyncClient, session_id: str = ""
) -> AsyncGenerator[tuple[PromptRecord, ...]]:
    """Yield the open prompts, the oldest first, and again all of them whenever one changes.

    Reconnects for ever. Ends when the session is deleted; for all sessions never.

    Args:
        http: with the hub as its base URL, and a key with `read`.
        session_id: the session; empty for every one that the key may read.

    Raises:
        HubError: refused for good, or unreachable before the first connection.
    """
    watched = _of_session(http, session_id) if session_id else _of_all(http)
    before: tuple[PromptRecord, ...] | None = None
    async with aclosing(watched) as lists:
        async for found in lists:
            if found != before:
                before = found
                yield found


async def _of_session(
    http: httpx2.AsyncClient, session_id: str
) -> AsyncGenerator[tuple[PromptRecord, ...]]:
    session = await _got(http, session_path(session_id), ())
    rare = _RARE.get(str(session.get("catalog")))
    wanted = Wanted(types=[rare] if rare else [])
    start = Start(from_="now")
    async with follow(http, session_id, start=start, wanted=wanted, connect_retries=0) as items:
        async for item in items:
            if isinstance(item, Prompts):
                yield tuple(PromptRecord.read(members) for members in item.prompts)


async def _of_all(http: httpx2.AsyncClient) -> AsyncGenerator[tuple[PromptRecord, ...]]:
    """Read the sessions that may have prompts again whenever they change."""
    known: dict[str, list[PromptRecord]] = {}
    async with aclosing(watch_sessions(http, {})) as frames:
        async for name, members in frames:
            sid = str(members.get("id"))
            if name == "snapshot":
                known = {}
                for found in await _open_ones(http, ""):
                    known.setdefault(found.session_id, []).append(found)
            elif name == "session.deleted":
                known.pop(sid, None)
            elif sid in known or members.get("pending_prompts"):
                known[sid] = await _open_ones(http, sid)
            known = {sid: found for sid, found in known.items() if found}
            every = [found for several in known.values() for found in several]
            yield tuple(sorted(every, key=lambda found: found.opened_at))


async def _open_ones(http: httpx2.AsyncClient, session_id: str) -> list[PromptRecord]:
    try:
        return [found async for found in _listed(http, session_id, (), TRIES)]
    except UnknownSession:
        # Deleted meanwhile; the list says so next.
        return []


def _path(session_id: str, request_id: str) -> str:
    return session_path(session_id, "prompts", quote(request_id, safe=""))


async def _got(
    http: httpx2.AsyncClient,
    path: str,
    params: Sequence[tuple[str, str]],
    wait_s: float = 0,
    tries: int = 1,
) -> dict[str, Any]:
    # Of the client's own patience nothing is left for a long poll.
    timeout = http.timeout if not wait_s else httpx2.Timeout(wait_s + 30.0)

    async def get() -> httpx2.Response:
        return await http.get(path, params=list(params), timeout=timeout)

    return await _again(http, get, tries)


async def _again(
    http: httpx2.AsyncClient, send: Callable[[], Awaitable[httpx2.Response]], tries: int
) -> dict[str, Any]:
    """Send a request, and again while the hub is away; only for what may be repeated."""
    reconnection = Reconnection()
    for left in range(tries - 1, -1, -1):
        after_s: float | None = None
        try:
            response = await send()
        except httpx2.HTTPError as exc:
            if not left or classify_error(exc) is Outcome.FATAL:
                raise connection_failed(http.base_url, exc) from exc
        else:
            if response.status_code == 200:
                return json_object(response)
            refusal = await rejected_async(response)
            if not left or not isinstance(refusal, Unavailable) or refusal.status == 507:
                raise refusal
            after_s = refusal.retry_after_s
        await anyio.sleep(reconnection.delay_s(after_s))
    raise AssertionError("no try was left")


def _objects(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise ProtocolError("a list of prompts without 'data'")
    return cast("list[Mapping[str, Any]]", value)
