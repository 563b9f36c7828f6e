"""What hub and clients agree on: catalogs, cursors, frames, error codes. Pure, no I/O."""

from __future__ import annotations
