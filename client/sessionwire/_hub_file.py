"""Finding the hub that runs on this machine: `hub.json` in its data folder (protocol.md §10).

Reads only; the hub writes it. Its shape: `{url, key?, pid}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from sessionwire._http import HubAddress

__all__ = ["default_data_dir", "read_hub_file"]

NAME = "hub.json"


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder that a hub uses without `--data-dir`, by the hub's own rule."""
    env = os.environ if environ is None else environ
    if env.get("SESSIONWIRE_DATA_DIR"):
        return Path(env["SESSIONWIRE_DATA_DIR"])
    base = env.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "sessionwire"


def read_hub_file(data_dir: Path) -> HubAddress | None:
    """Return the address that a hub left in its data folder.

    Returns: None where there is no such file, or one that does not name a URL.
    """
    try:
        members: Any = json.loads((data_dir / NAME).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(members, dict):
        return None
    known = cast("dict[str, Any]", members)
    url, key = known.get("url"), known.get("key", "")
    return HubAddress(url, key if isinstance(key, str) else "") if isinstance(url, str) else None
