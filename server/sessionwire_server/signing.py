"""Signed tokens of the hub's own: tickets and sign-in cookies (protocol.md §10).

A token is a grant, signed with a secret that lives in Redis, so any hub process on the same Redis
takes it. It names the key it stands on by id and can do nothing that this key cannot do now: when
the key goes, so does the token. The secret is read once and again when a signature does not fit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from typing import Final, TypeAlias

import msgspec

from sessionwire_server.api_keys import ApiKeys, Principal, Scope, covers
from sessionwire_server.keys import SIGNING_SECRET
from sessionwire_server.redis_link import RedisLink

__all__ = ["Grant", "Purpose", "Signer"]

Purpose: TypeAlias = str
"""What a token is for, and nothing else: `ticket`, `sign-in`, or `runtime …` for one end user."""

_SECRET_BYTES: Final = 32
_REFRESH_S: Final = 1.0
"""A wrong signature makes the secret be read again, at most this often: guessing costs no Redis."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """What a token grants, at most: the key still has to allow it."""

    key_id: str
    scopes: tuple[Scope, ...]
    sessions: tuple[str, ...]
    human: bool
    secrets: bool
    expires_at: float
    """Unix seconds after which it opens nothing."""
    ends_at: float | None
    """Unix seconds at which what it opened ends, with its maker; None for never."""


class Signer:
    """Makes and reads tokens."""

    def __init__(self, link: RedisLink, api_keys: ApiKeys) -> None:
        self._link = link
        self._api_keys = api_keys
        self._secret = b""
        self._read_at = 0.0

    async def sign(self, purpose: Purpose, grant: Grant) -> str:
        """Make a token of a grant."""
        # Read anew each time: a Redis that lost its data has another secret now, and a token
        # signed with the old one would be refused by every process that started since.
        await self._read()
        payload = msgspec.json.encode(grant)
        return f"{_spell(payload)}.{_spell(self._mac(purpose, payload))}"

    async def read(self, purpose: Purpose, token: str) -> Principal | None:
        """Return whom a token stands for; None if it is not ours, or over, or its key is gone."""
        payload = await self._verified(purpose, token)
        if payload is None:
            return None
        grant = msgspec.json.decode(payload, type=Grant)
        maker = self._api_keys.by_id.get(grant.key_id)
        if maker is None or time.time() >= grant.expires_at:
            return None
        return Principal(
            id=maker.id,
            scopes=frozenset(scope for scope in grant.scopes if maker.has(scope)),
            sessions=tuple(
                wanted
                for wanted in grant.sessions
                if any(covers(pattern, wanted) for pattern in maker.sessions)
            ),
            human=grant.human and maker.human,
            secrets=grant.secrets and maker.secrets,
            name=maker.name,
            expires_at=grant.ends_at,
        )

    async def _verified(self, purpose: Purpose, token: str) -> bytes | None:
        head, _, mac_text = token.partition(".")
        try:
            payload, mac = _unspell(head), _unspell(mac_text)
        except (binascii.Error, ValueError):
            return None
        if self._secret and hmac.compare_digest(mac, self._mac(purpose, payload)):
            return payload
        if self._secret and time.monotonic() < self._read_at + _REFRESH_S:
            return None
        await self._read()
        return payload if hmac.compare_digest(mac, self._mac(purpose, payload)) else None

    async def _read(self) -> None:
        # The first hub on a Redis makes it, all others find it there.
        fresh = secrets.token_bytes(_SECRET_BYTES)
        words = [("SET", SIGNING_SECRET, fresh, "NX"), ("GET", SIGNING_SECRET)]
        _, kept = await self._link.pipeline(words)
        if not isinstance(kept, bytes) or len(kept) != _SECRET_BYTES:
            raise RuntimeError(f"{SIGNING_SECRET} in Redis is no secret of ours")
        self._secret = kept
        self._read_at = time.monotonic()

    def _mac(self, purpose: Purpose, payload: bytes) -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"\0" + payload, hashlib.sha256)


def _spell(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unspell(text: str) -> bytes:
    raw = text.encode("ascii")
    return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
