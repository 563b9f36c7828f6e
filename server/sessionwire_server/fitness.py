"""Whether a Redis is fit to hold sessions: what its version and settings mean for them. Pure.

Used by `sessionwire check`, and logged as warnings when a hub starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["SETTINGS", "Finding", "findings"]

SETTINGS = ("maxmemory", "maxmemory-policy", "appendonly", "client-output-buffer-limit")
"""The settings of Redis that are looked at."""

PUBSUB_BYTES = 256 * 2**20
"""Redis drops a listener that is further behind than its hard limit; a hub pauses for less."""

UNITS = {"kb": 1024, "mb": 1024**2, "gb": 1024**3, "k": 1000, "m": 1000**2, "g": 1000**3}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        subject: what it is about, a word or the name of a setting.
        level: `ok`; `warning`, something can be lost in a bad moment; `error`, the hub cannot work.
        detail: a sentence for people, with what to do where it is not `ok`.
    """

    subject: str
    level: Literal["ok", "warning", "error"]
    detail: str


def findings(info: Mapping[str, str], config: Mapping[str, str] | None) -> list[Finding]:
    """Judge a server by its `INFO` and its settings; `config` is None where it hides them."""
    found = [_version(info), _role(info)]
    if config is None:
        hidden = (
            "the server does not show its settings; see docs/operations.md for those that matter"
        )
        return [*found, Finding("settings", "warning", hidden)]
    return [*found, _policy(config), _append_only(config), _pubsub(config)]


def _version(info: Mapping[str, str]) -> Finding:
    compatible = info.get("redis_version", "0")
    valkey = info.get("valkey_version")
    name = f"Valkey {valkey}" if valkey else f"Redis {compatible}"
    if int(compatible.partition(".")[0]) < 7:
        return Finding("version", "error", f"{name} is too old: Redis 7.0, Valkey, or newer")
    return Finding("version", "ok", name)


def _role(info: Mapping[str, str]) -> Finding:
    if info.get("cluster_enabled", "0") == "1":
        return Finding("role", "error", "a cluster; name a single server or its primary")
    if info.get("role", "master") != "master":
        return Finding("role", "error", "a replica, which takes no events; name the primary")
    return Finding("role", "ok", "primary")


def _policy(config: Mapping[str, str]) -> Finding:
    policy = config.get("maxmemory-policy", "")
    if policy == "noeviction":
        return Finding("maxmemory-policy", "ok", policy)
    detail = f"{policy}: Redis drops sessions when memory is full; set it to noeviction"
    return Finding("maxmemory-policy", "warning", detail)


def _append_only(config: Mapping[str, str]) -> Finding:
    if config.get("appendonly") == "yes":
        return Finding("appendonly", "ok", "yes")
    detail = "no: events are lost when Redis restarts; set appendonly yes"
    return Finding("appendonly", "warning", detail)


def _pubsub(config: Mapping[str, str]) -> Finding:
    name = "client-output-buffer-limit"
    words = config.get(name, "").split()
    hard = words[words.index("pubsub") + 1] if "pubsub" in words else "0"
    if _bytes(hard) == 0 or _bytes(hard) >= PUBSUB_BYTES:
        return Finding(name, "ok", f"pubsub {hard}")
    detail = f"pubsub {hard}: a busy hub may be cut off; set pubsub 256mb 64mb 60"
    return Finding(name, "warning", detail)


def _bytes(text: str) -> int:
    for unit, factor in UNITS.items():
        if text.lower().endswith(unit):
            return int(text[: -len(unit)]) * factor
    return int(text)
