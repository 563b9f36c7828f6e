"""The pinned catalogs: facts copied once, each known by its SHA-256."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PINNED_DIR", "Pinned", "load"]

PINNED_DIR = Path(__file__).resolve().parent.parent / "pinned"


@dataclass(frozen=True, slots=True)
class Pinned:
    """What the generator works from.

    Attributes:
        copilot: the JSON Schema (draft-07) of the copilot events.
        pairs: its pairs, ephemeral classes and rules.
        everruns: type to `{description, ephemeral, data}`, `data` being a JSON Schema.
        digests: file name to SHA-256, as pinned and as found.
    """

    copilot: dict[str, Any]
    pairs: dict[str, Any]
    everruns: dict[str, Any]
    digests: dict[str, str]


def load(folder: Path = PINNED_DIR) -> Pinned:
    """Read the pinned files.

    Raises:
        ValueError: a file is not the one that was pinned.
    """
    digests: dict[str, str] = json.loads((folder / "PINNED.json").read_text())["sha256"]
    loaded: dict[str, Any] = {}
    for name, pinned in digests.items():
        body = (folder / name).read_bytes()
        found = hashlib.sha256(body).hexdigest()
        if found != pinned:
            raise ValueError(f"{name}: sha256 is {found}, pinned is {pinned}")
        loaded[name] = json.loads(body)
    return Pinned(
        copilot=loaded["copilot.schema.json"],
        pairs=loaded["copilot_pairs.json"],
        everruns=loaded["everruns_catalog.json"],
        digests=digests,
    )
