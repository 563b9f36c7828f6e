"""`compose.yaml` does what docs/operations.md promises: no default key, nothing open, all kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionwire_server.settings import Settings

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    parsed = yaml.safe_load((ROOT / "compose.yaml").read_text())
    found: dict[str, Any] = parsed["services"]
    return found


def test_without_a_key_it_refuses_and_says_how_to_make_one(services: dict[str, Any]) -> None:
    key = services["hub"]["environment"]["SESSIONWIRE_KEY"]
    match = re.fullmatch(r"\$\{SESSIONWIRE_KEY:\?(.+)\}", key)
    assert match is not None
    assert "secrets.token_urlsafe" in match[1]


def test_every_port_is_on_loopback(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_every_service_says_when_it_is_healthy(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "healthcheck" not in service] == []
    assert services["hub"]["depends_on"]["redis"]["condition"] == "service_healthy"


def test_redis_keeps_everything_and_gives_slow_hubs_room(services: dict[str, Any]) -> None:
    command = services["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options == {
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--maxmemory-policy": "noeviction",
        "--client-output-buffer-limit": "pubsub 256mb 64mb 60",
    }


def test_the_hub_is_given_time_to_say_goodbye(services: dict[str, Any]) -> None:
    grace_s = int(services["hub"]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= 2 * Settings().drain_s


def test_every_variable_of_the_hub_is_a_setting(services: dict[str, Any]) -> None:
    environment = {
        name: "x" if "KEY" in name else value
        for name, value in services["hub"]["environment"].items()
    }
    settings = Settings.from_env(environment)
    assert settings.host == "0.0.0.0"
    assert settings.redis_url == "redis://redis:6379/0"
