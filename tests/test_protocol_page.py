"""The protocol page and the README name what is served; the page has the sections it lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.routing import Route

from sessionwire_server.routes import route_table

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "protocol.md").read_text()


def _served() -> list[str]:
    """List the paths of the API; the console's files are nobody's contract."""
    paths = [route.path for route in route_table() if isinstance(route, Route)]
    return sorted({path for path in paths if path.startswith("/v1/") or "." not in path})


@pytest.mark.parametrize("page", ["README.md", "docs/protocol.md"])
def test_every_path_that_is_served_is_named(page: str) -> None:
    named = set(re.findall(r"`(/[^`]*)`", (ROOT / page).read_text()))
    served = _served()
    assert len(served) > 10
    assert [path for path in served if path not in named] == []


def test_every_section_of_the_page_is_in_its_contents() -> None:
    headings = re.findall(r"^## (\d+\. .+)$", PAGE, re.MULTILINE)
    contents = re.findall(r"^(\d+)\. \[(.+?)\]\(", PAGE, re.MULTILINE)
    assert [f"{number}. {title}" for number, title in contents] == headings


def test_every_section_that_the_sources_name_is_there() -> None:
    numbers = set(re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", PAGE, re.MULTILINE))
    named: dict[str, str] = {}
    for folder in ("schemas", "server", "client", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for line in path.read_text().splitlines():
                for refs in re.findall(r"protocol(?:\.md)? (§[§\d.,\- ]+(?:and §[\d.]+)?)", line):
                    named |= {n.rstrip("."): path.name for n in re.findall(r"§([\d.]+)", refs)}
    assert len(named) > 10
    assert {number: name for number, name in named.items() if number not in numbers} == {}
