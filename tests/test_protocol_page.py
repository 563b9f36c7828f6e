"""The protocol page is complete: every error the hub can raise is in its list, with its status."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "protocol.md").read_text()


def _listed() -> set[tuple[int, str]]:
    """Read the table of §12."""
    table = PAGE.partition("## 12. Errors")[2]
    rows = re.findall(r"^\| (\d{3}) \| ([^|]+) \|", table, re.MULTILINE)
    return {(int(status), code) for status, cell in rows for code in re.findall(r"`(\w+)`", cell)}


def _raised() -> Iterator[tuple[str, int, str]]:
    """Find the errors that the server's sources build with a status and a code in place."""
    for path in sorted((ROOT / "server").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="HubError"),
                    args=[ast.Constant(value=int(status)), ast.Constant(value=str(code)), *_],
                ):
                    yield f"{path.name}:{node.lineno}", status, code
                case ast.Call(
                    func=ast.Name(id="refuse") | ast.Attribute(attr="refuse"),
                    args=[ast.Constant(value=str(code)), *_],
                ):
                    yield f"{path.name}:{node.lineno}", 422, code
                case _:
                    pass


def test_every_error_of_the_hub_is_listed() -> None:
    listed = _listed()
    assert len(listed) > 30
    raised = list(_raised())
    assert len(raised) > 20
    assert [each for each in raised if each[1:] not in listed] == []


def test_every_section_of_the_page_is_in_its_contents() -> None:
    headings = re.findall(r"^## (\d+\. .+)$", PAGE, re.MULTILINE)
    contents = re.findall(r"^(\d+)\. \[(.+?)\]\(", PAGE, re.MULTILINE)
    assert [f"{number}. {title}" for number, title in contents] == headings
