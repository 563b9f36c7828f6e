"""The Lua scripts: `lua/*.lua`, loaded once as package data. Runs none of them.

A script is one file and one job. A line `--#include _name.lua` is replaced by that file, so that
scripts can share what they must agree on; Redis only ever sees the whole text. Each begins with
`#!lua`, which makes Redis refuse it before it starts when memory is full.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Script", "load", "names"]

_INCLUDE = re.compile(r"^--#include (_[a-z_]+\.lua)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One script as Redis gets it; `sha` is the name by which Redis knows the text."""

    name: str
    text: str
    sha: str

    @classmethod
    def of(cls, name: str, text: str) -> Script:
        """Name a text."""
        return cls(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(name: str) -> str:
    text = files("sessionwire_server").joinpath("lua", name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: _read(match[1]), text)


@cache
def load(name: str) -> Script:
    """Load the script `lua/<name>.lua`, its includes filled in."""
    return Script.of(name, _read(f"{name}.lua"))


def names() -> list[str]:
    """List the scripts, without the files that are only included."""
    folder = files("sessionwire_server").joinpath("lua")
    stems = (entry.name.removesuffix(".lua") for entry in folder.iterdir())
    return sorted(stem for stem in stems if not stem.startswith(("_", ".")))
