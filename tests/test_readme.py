"""The pages tell the truth: links lead somewhere, snippets are tested files, no private names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from sessionwire.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)

NOT_OURS = {
    "a path of somebody's machine": re.compile(r"(?<![\w.~-])/(?:work|home|Users|root)/[\w.]"),
    "a package registry's host": re.compile(
        r"\b(?:files\.python[h]osted|p[y]pi|registry\.npm[j]s|registry\.yarn[p]kg|deb\.[d]ebian"
        r"|security\.[d]ebian|proxy\.[g]olang|static\.[c]rates)\.(?:org|com|io)\b"
    ),
    "a folder beside the repository": re.compile(r"(?<![\w.])\.\./shared\b"),
}
SAMPLES = ("tests/data/", "schemas/pinned/")
"""Events that are kept as they were met; paths in them are part of the sample."""


def _slug(heading: str) -> str:
    text = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def _tracked() -> Iterator[Path]:
    """Walk the sources as a checkout has them, whether or not git is there to ask."""
    made = {"__pycache__", "node_modules", "dist", "build", "out", "artifacts"}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in {".ci", ".gitignore"} for part in parts)
        if path.is_file() and not hidden and not made.intersection(parts):
            yield path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text())
    broken: list[str] = []
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        where, _, anchor = target.partition("#")
        file = (page.parent / where).resolve() if where else page
        if not file.exists():
            broken.append(target)
        elif anchor and file.suffix == ".md":
            headings = _HEADING.findall(_FENCE.sub("", file.read_text()))
            if anchor not in {_slug(each) for each in headings}:
                broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_snippet_of_a_page_stands_in_an_example(page: Path) -> None:
    examples = [_flat(path.read_text()) for path in ROOT.glob("examples/*.py")]
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    absent = [each for each in snippets if not any(_flat(each) in text for text in examples)]
    assert absent == []


def _flat(program: str) -> str:
    """Take away how far lines are indented and spaced: a page shows a part by itself."""
    return "\n".join(line.strip() for line in program.splitlines() if line.strip())


def test_every_make_target_of_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(
            re.findall(
                r"\bmake ([a-z]+)\b(?=[`\s])",
                "\n".join(
                    re.findall(r"`[^`]+`|^```.*?^```", page.read_text(), re.MULTILINE | re.DOTALL)
                ),
            )
        )
        assert named <= targets, page


def test_the_table_of_commands_is_that_of_the_command_line() -> None:
    group: Any = typer.main.get_command(app)
    rows = re.findall(r"^\| `sessionwire ([a-z]+)[^`]*` \|", (ROOT / "README.md").read_text(), re.M)
    assert sorted(rows) == sorted(group.commands)


def test_the_repository_names_no_place_of_anybodys_own() -> None:
    found: list[str] = []
    for path in _tracked():
        name = str(path.relative_to(ROOT))
        if name.startswith(SAMPLES):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for what, pattern in NOT_OURS.items():
            if match := pattern.search(text):
                found.append(f"{name}: {what}: {match[0]!r}")
    assert found == []
