"""Turns the pinned catalogs into models, tables and JSON Schemas. Run by `schemas/generate.py`."""

from __future__ import annotations
