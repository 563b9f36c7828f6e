"""What hub and clients agree on: catalogs, cursors, frames, error codes. Pure, no I/O."""

from __future__ import annotations

from sessionwire_schemas.catalog import CATALOGS, COPILOT, EVERRUNS, Catalog, detect
from sessionwire_schemas.cursor import Cursor, CursorError

__all__ = ["CATALOGS", "COPILOT", "EVERRUNS", "Catalog", "Cursor", "CursorError", "detect"]
