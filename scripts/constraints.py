"""Write `constraints.txt`: the exact versions that this virtual environment runs the project with.

    .venv/bin/python scripts/constraints.py > constraints.txt

Names and versions only, of what `pyproject.toml` asks for and everything below it; what else lies
in the environment stays out.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _roots() -> list[Requirement]:
    """Read every requirement that the project states itself."""
    project = tomllib.loads(PYPROJECT.read_text())
    texts: list[str] = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        texts += extra
    for group in project["dependency-groups"].values():
        texts += [line for line in group if isinstance(line, str)]
    return [Requirement(text) for text in texts]


def pinned(roots: Iterable[Requirement]) -> dict[str, str]:
    """Follow the requirements through what is installed; missing ones are left out."""
    found: dict[str, str] = {}
    todo = [(_normal(r.name), frozenset(r.extras)) for r in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen or name == "sessionwire":
            continue
        seen.add((name, extras))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[name] = distribution.version
        for text in distribution.requires or []:
            below = Requirement(text)
            marker = below.marker
            wanted = marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras))
            if wanted:
                todo.append((_normal(below.name), frozenset(below.extras)))
    return found


if __name__ == "__main__":
    for name, version in sorted(pinned(_roots()).items()):
        sys.stdout.write(f"{name}=={version}\n")
