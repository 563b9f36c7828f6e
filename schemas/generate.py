"""Generate the catalogs' models, tables and JSON Schemas from `schemas/pinned/`.

    python schemas/generate.py            write them
    python schemas/generate.py --check    exit 1 if what is written differs

The output depends on the pinned files and the generator alone, so that a difference is a change.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from _generator.everruns import definitions_of
from _generator.models import render_models
from _generator.pinned import Pinned, load
from _generator.tables import copilot_types, everruns_types, render_tables
from _generator.validation import render_schema
from sessionwire_schemas.deltas import DELTAS

__all__ = ["main", "outputs"]

PACKAGE = Path(__file__).resolve().parent / "sessionwire_schemas"


def outputs(pinned: Pinned) -> dict[str, str]:
    """Make every generated file: name below the package to its text."""
    copilot = pinned.copilot["definitions"]
    everruns = definitions_of(pinned.everruns)
    return {
        "_copilot.py": render_models("copilot", copilot, copilot_types(pinned), pinned.digests),
        "_copilot.schema.json": render_schema(
            "Copilot event", copilot, frozenset(DELTAS["copilot"])
        ),
        "_everruns.py": render_models("everruns", everruns, everruns_types(pinned), pinned.digests),
        "_everruns.schema.json": render_schema(
            "Everruns event", everruns, frozenset(DELTAS["everruns"])
        ),
        "_tables.py": render_tables(pinned),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; returns the exit code."""
    parser = argparse.ArgumentParser(description="Generate the catalogs from schemas/pinned/.")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="folder to write or check")
    given = parser.parse_args(arguments)
    stale = [
        (path, text)
        for name, text in outputs(load()).items()
        if not (path := given.package / name).is_file() or path.read_text() != text
    ]
    for path, text in stale:
        if given.check:
            print(f"{path} is stale: run python schemas/generate.py", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"wrote {path}")
    return 1 if given.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
