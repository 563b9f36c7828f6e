"""Every setting of the hub, with its unit and what 0 means. Built once, passed down.

The environment is read in one place, `Settings.from_env`; each field `x` is `SESSIONWIRE_X` there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Settings"]


def _default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "sessionwire"


class Settings(BaseModel):
    """The hub's settings, immutable. Sizes in bytes, durations in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8787, ge=0, le=65535)
    redis_url: str = ""
    """Empty: an embedded Valkey in `data_dir`."""
    data_dir: Path = Field(default_factory=_default_data_dir)
    keys_file: Path | None = None
    key: str = Field(default="", repr=False)
    """One key with every scope, `human` and `secrets`."""
    allow_origins: tuple[str, ...] = ()
    workers: int = Field(default=1, ge=1)

    validation: Literal["lenient", "strict", "off"] = "lenient"
    create_on_publish: bool = True
    redact: bool = False
    default_from: Literal["start", "now"] = "start"
    metrics_open: bool = False
    access_log: bool = False
    """Log each request, without its query."""

    max_event_bytes: int = Field(default=8 * 2**20, ge=1024)
    max_batch_bytes: int = Field(default=16 * 2**20, ge=1024)
    max_batch_events: int = Field(default=256, ge=1, le=256)

    log_max_events: int = Field(default=100_000, ge=0)
    """Durable events kept per session; 0 keeps all."""
    log_max_age_s: float = Field(default=30 * 86_400, ge=0)
    """Age at which durable events are trimmed; 0 keeps them."""
    tail_max: int = Field(default=2_000, ge=1)
    tail_ttl_s: int = Field(default=300, ge=1)
    tail_inline_bytes: int = Field(default=4_096, ge=0)
    """A durable event above this stands in the tail without its body."""
    live_message_bytes: int = Field(default=65_536, ge=1024)
    """A live message above this carries only its header."""
    session_ttl_s: float = Field(default=0, ge=0)
    """Idle time after which a session's state is removed; 0 keeps it."""
    sweep_every_s: float = Field(default=3_600, gt=0)

    page_events: int = Field(default=512, ge=1, le=4_096)
    page_bytes: int = Field(default=256 * 1024, ge=1024, le=2**20)
    """A slow viewer holds about two pages at a time, so this bounds its memory."""
    ring_events: int = Field(default=512, ge=1)
    ring_bytes: int = Field(default=2**20, ge=1024)
    rings_bytes: int = Field(default=64 * 2**20, ge=1024)
    """All rings of the process together."""
    channel_linger_s: float = Field(default=10, ge=0)
    """How long a session stays subscribed after its last viewer left."""

    heartbeat_s: float = Field(default=15, gt=0)
    send_timeout_s: float = Field(default=30, gt=0)
    max_connection_s: float = Field(default=0, ge=0)
    """Connections are cycled after this ±20 %; 0 never."""
    drain_s: float = Field(default=10, ge=0)
    filtered_cursor_every: int = Field(default=100, ge=1)
    stream_wait_s: float = Field(default=30, gt=0)
    """How long a stream asked for while Redis is away waits for it."""
    send_mode: Literal["auto", "portable"] = "auto"
    """`auto` writes to the server's transport where it can; `portable` never does."""

    pong_timeout_s: float = Field(default=30, gt=0)
    """A WebSocket is pinged every `heartbeat_s`; one that does not answer for so long is ended."""
    authenticate_s: float = Field(default=10, gt=0)
    """How long a WebSocket without a token may take to `authenticate`."""
    max_message_bytes: int = Field(default=17 * 2**20, ge=1024)
    """A WebSocket message; above `max_batch_bytes`, so that a whole batch fits."""
    max_sessions_per_connection: int = Field(default=1_000, ge=1)
    max_calls_per_s: float = Field(default=200, ge=1)
    """Calls that one WebSocket may make a second."""

    max_viewers_per_session: int = Field(default=10_000, ge=1)
    max_connections_per_token: int = Field(default=20_000, ge=1)

    commands_max: int = Field(default=1_000, ge=1)
    """Commands of one session that may wait for its host; answers to prompts are exempt."""
    prompts_max: int = Field(default=1_000, ge=1, le=1_000)
    """Prompts of one session that may be open."""
    orphan_after_s: float = Field(default=0, ge=0)
    """How long a host that had attached may be gone before open prompts are orphaned; 0 never."""
    host_lease_s: float = Field(default=30, gt=0)
    """How long a session's host stays the host without a sign of its stream."""

    presence_s: float = Field(default=60, gt=0)
    """How long a hub's viewers are counted without a sign of that hub."""

    list_scan_s: float = Field(default=5, gt=0)
    max_scans: int = Field(default=4, ge=1)
    redis_timeout_s: float = Field(default=5, gt=0)
    probe_s: float = Field(default=5, gt=0)
    """Silence after which the live path is probed."""
    head_check_s: float = Field(default=30, gt=0)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **given: Any) -> Self:
        """Build settings from `SESSIONWIRE_…` variables; `given` members that are not None win.

        Tuples are comma-separated. `SESSIONWIRE_ALLOW_ORIGIN` is taken for `allow_origins` and
        `SESSIONWIRE_KEYS` for `keys_file`, as the options of `sessionwire serve` are called.

        Raises:
            pydantic.ValidationError: a value does not fit; the error names the field.
        """
        env = os.environ if environ is None else environ
        spelled = {"allow_origins": "ALLOW_ORIGIN", "keys_file": "KEYS"}
        values: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            text = env.get(f"SESSIONWIRE_{spelled.get(name, name.upper())}", "")
            if not text:
                continue
            is_tuple = field.annotation == tuple[str, ...]
            values[name] = [p.strip() for p in text.split(",") if p.strip()] if is_tuple else text
        values.update({name: value for name, value in given.items() if value is not None})
        return cls(**values)
