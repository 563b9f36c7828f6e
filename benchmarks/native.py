"""Compiles the C programs into `out/`, again only when a source is newer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["HERE", "OUT", "CompilerMissing", "floor", "generator"]

HERE = Path(__file__).parent
OUT = HERE / "out"

_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")


class CompilerMissing(Exception):
    """There is no C compiler on the PATH."""


def _build(name: str, folder: Path, pattern: str) -> Path:
    sources = sorted(folder.glob(pattern))
    newest = max(path.stat().st_mtime for path in [*sources, *folder.glob("*.h")])
    program = OUT / name
    if program.exists() and program.stat().st_mtime > newest:
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise CompilerMissing("the benchmarks need a C compiler called cc on the PATH")
    OUT.mkdir(exist_ok=True)
    subprocess.run([compiler, *_FLAGS, "-o", str(program), *map(str, sources)], check=True)
    return program


def generator() -> Path:
    """Compile the load generator; returns the program."""
    return _build("load", HERE / "load", "*.c")


def floor() -> Path:
    """Compile the floor server; returns the program."""
    return _build("floor", HERE / "servers", "floor.c")
