"""What docs/operations.md says of options and settings is what the hub has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from sessionwire.cli import app
from sessionwire_server.settings import Settings

PAGE = (Path(__file__).parent.parent / "docs" / "operations.md").read_text()
SPELLED = {"KEYS": "keys_file", "ALLOW_ORIGIN": "allow_origins"}
"""Variables that are called as the option is, not as the setting."""


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_table_of_options_is_that_of_the_command() -> None:
    rows = re.findall(r"^\| `(--[a-z-]+)` \| `SESSIONWIRE_([A-Z_]+)` \|", PAGE, re.MULTILINE)
    group: Any = typer.main.get_command(app)
    params: list[Any] = group.commands["serve"].params
    options = {name for each in params for name in each.opts if name.startswith("--")}
    assert {option for option, _ in rows} == options - {"--help"}
    for option, variable in rows:
        assert variable == option.removeprefix("--").replace("-", "_").upper()


def test_every_variable_that_is_named_is_a_setting() -> None:
    named = set(re.findall(r"\bSESSIONWIRE_([A-Z_]+)", PAGE))
    assert "METRICS_OPEN" in named
    fields = {SPELLED.get(name, name.lower()) for name in named}
    assert fields - set(Settings.model_fields) == set()


def test_the_limits_of_retention_are_settings_with_those_defaults() -> None:
    settings = Settings()
    names = re.findall(r"`([a-z_]+)`", _section("Retention").partition("\n\nTrimming")[0])
    assert set(names) <= set(Settings.model_fields)
    assert (settings.log_max_events, settings.log_max_age_s) == (100_000, 30 * 86_400)
    assert (settings.tail_max, settings.tail_ttl_s) == (2_000, 300)
    assert settings.session_ttl_s == 0
