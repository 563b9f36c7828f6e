"""Telling this machine's clients where the hub is: `hub.json` in the data folder (protocol.md §10).

Owns writing and removing it; its shape is `{url, pid}`, and `key` where the hub made one up.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["hub_file"]

NAME = "hub.json"


@contextmanager
def hub_file(data_dir: Path, url: str, key: str = "") -> Generator[Path]:
    """Keep the file while the hub serves, readable by its owner alone.

    It appears whole or not at all, and what is removed at the end is our own, not that of a hub
    that has taken the folder since.

    Raises:
        OSError: the folder cannot be written.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = data_dir / NAME
    members = {"url": url, "pid": os.getpid(), **({"key": key} if key else {})}
    text = json.dumps(members)
    descriptor, name = tempfile.mkstemp(prefix=".hub-", dir=data_dir)  # mode 0600 from the start
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    try:
        yield path
    finally:
        with suppress(OSError):
            if path.read_text().strip() == text:
                path.unlink()
