"""API keys: who may do what (protocol.md §10).

Owns the scopes, the session patterns, the keys file and the check that a hub without keys stays on
loopback. A key is forgotten once it is hashed: only its SHA-256 stays in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sessionwire_server.errors import HubError
from sessionwire_server.settings import Settings

__all__ = [
    "SCOPES",
    "ApiKeys",
    "KeysError",
    "Principal",
    "Scope",
    "covers",
    "is_pattern",
    "must_make_key",
]

Scope = Literal["read", "publish", "answer", "steer", "admin"]

SCOPES: Final = frozenset[Scope]({"read", "publish", "answer", "steer", "admin"})
"""`admin` allows what every other scope allows, and what has no scope of its own."""

_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{0,128}\*|[A-Za-z0-9_-]{1,128}")
_KEY: Final = re.compile(r"[!-~]{1,512}")


class KeysError(ValueError):
    """The keys do not make sense; the text names the entry and the member."""


def covers(pattern: str, wanted: str) -> bool:
    """Tell whether every session that `wanted` (an id or a pattern) names is one of `pattern`'s."""
    if pattern.endswith("*"):
        return wanted.startswith(pattern[:-1])
    return wanted == pattern


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from and what it may do.

    Attributes:
        id: names the key it stands on in limits and leases; never the key or its hash.
        scopes: what it may do.
        sessions: patterns of the sessions it may do it to.
        human: a person stands behind it.
        secrets: it may read credentials of prompts; `admin` implies it.
        name: the key's own name, for logs and records.
        expires_at: Unix seconds at which its streams end, None for never.
    """

    id: str
    scopes: frozenset[Scope]
    sessions: tuple[str, ...]
    human: bool = False
    secrets: bool = False
    name: str = ""
    expires_at: float | None = None

    def has(self, scope: Scope) -> bool:
        """Tell whether it has a scope; `admin` has them all."""
        return scope in self.scopes or "admin" in self.scopes

    def sees(self, sid: str) -> bool:
        """Tell whether a session is one of its own."""
        return any(covers(pattern, sid) for pattern in self.sessions)

    def may(self, scope: Scope, sid: str | None = None) -> bool:
        """Tell whether it may do something, to a session where one is named."""
        return self.has(scope) and (sid is None or self.sees(sid))

    def require(self, scope: Scope, sid: str | None = None) -> None:
        """Let it pass or refuse.

        Raises:
            HubError: 403 `forbidden` without the scope; 404 `session_not_found` for a session
                outside its patterns, so that nobody can ask which sessions exist.
        """
        if not self.has(scope):
            raise HubError(403, "forbidden", f"this needs the scope {scope!r}", scope=scope)
        if sid is not None and not self.sees(sid):
            raise HubError(404, "session_not_found", f"no session {sid!r}")


class _Entry(BaseModel):
    """One entry of the keys file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: Annotated[str, Field(pattern=f"^{_KEY.pattern}$", repr=False)]
    scopes: Annotated[list[Scope], Field(min_length=1)]
    sessions: Annotated[list[str], Field(min_length=1)]
    human: bool = False
    secrets: bool = False
    name: str = ""


_ENTRIES: Final = TypeAdapter(list[_Entry])


def _id_of(digest: bytes) -> str:
    # Hashed again, so that an id in a log or a ticket is no help in guessing a weak key faster
    # than the hub itself would let you.
    return hashlib.sha256(b"sessionwire key id\0" + digest).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys of this hub, by hash."""

    principals: dict[bytes, Principal] = field(repr=False)
    by_id: dict[str, Principal] = field(repr=False)

    @classmethod
    def load(cls, settings: Settings) -> ApiKeys:
        """Read the keys that the settings name.

        Raises:
            KeysError: the file cannot be read or an entry is wrong; names entry and member.
        """
        entries = _read(settings.keys_file) if settings.keys_file is not None else []
        if settings.key:
            if not _KEY.fullmatch(settings.key):
                raise KeysError("the key must be 1 to 512 printable ASCII characters, no spaces")
            entries = [
                *entries,
                _Entry(
                    key=settings.key,
                    scopes=sorted(SCOPES),
                    sessions=["*"],
                    human=True,
                    secrets=True,
                    name="key",
                ),
            ]
        return cls._of(entries)

    @classmethod
    def _of(cls, entries: Sequence[_Entry]) -> ApiKeys:
        principals: dict[bytes, Principal] = {}
        for number, entry in enumerate(entries):
            digest = hashlib.sha256(entry.key.encode()).digest()
            if digest in principals:
                raise KeysError(f"entry {number}: key: the same key as an earlier entry's")
            principals[digest] = Principal(
                id=_id_of(digest),
                scopes=frozenset(entry.scopes),
                sessions=tuple(entry.sessions),
                human=entry.human,
                secrets=entry.secrets or "admin" in entry.scopes,
                name=entry.name,
            )
        return cls(principals, {who.id: who for who in principals.values()})

    def find(self, key: str) -> Principal | None:
        """Return who a key belongs to. Takes the same time whichever key is close to it."""
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
        found: Principal | None = None
        for known, principal in self.principals.items():
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def _read(path: Path) -> list[_Entry]:
    try:
        entries = _ENTRIES.validate_python(json.loads(path.read_bytes()))
    except OSError as exc:
        raise KeysError(f"cannot read the keys file {path}: {exc.strerror}") from exc
    except (json.JSONDecodeError, UnicodeDecodeError) as exc:
        raise KeysError(f"{path} is not JSON: {exc}") from exc
    except ValidationError as exc:
        # Never the input itself: it may be the key.
        fault = exc.errors(include_input=False, include_url=False)[0]
        place = [str(part) for part in fault["loc"]]
        where = f"entry {place[0]}: " if place else ""
        member = f"{'.'.join(place[1:])}: " if place[1:] else ""
        raise KeysError(f"{path}: {where}{member}{fault['msg']}") from None
    for number, entry in enumerate(entries):
        for pattern in entry.sessions:
            if not _PATTERN.fullmatch(pattern):
                raise KeysError(
                    f"{path}: entry {number}: sessions: {pattern!r} is neither a session id nor "
                    "a start of one followed by '*'"
                )
    return entries


def is_pattern(text: str) -> bool:
    """Tell whether a text is a session id, or a start of one followed by `*`."""
    return _PATTERN.fullmatch(text) is not None


def must_make_key(settings: Settings) -> bool:
    """Tell whether a key for this run must be made, because none is set.

    Raises:
        KeysError: none is set and the hub would listen beyond this machine.
    """
    if settings.key or settings.keys_file is not None:
        return False
    if not _is_loopback(settings.host):
        raise KeysError(
            f"no keys are set: a hub that listens on {settings.host or 'every address'} needs "
            "--keys FILE or --key KEY"
        )
    return True


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
