"""Every error code is one that `docs/protocol.md` lists, with that status."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sessionwire_server

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(sessionwire_server.__file__).parent
CODE = re.compile(r"[a-z][a-z_]+")
STATUS_OF = {"refuse": 422, "_full": 429}
"""Functions that raise errors of one status, whose first argument is the code."""


def documented() -> set[tuple[int, str]]:
    table = (ROOT / "docs/protocol.md").read_text().partition("## 12. Errors")[2]
    rows = re.findall(r"^\| ([45]\d\d) \| ([^|]+) \|", table, re.MULTILINE)
    return {(int(status), code) for status, codes in rows for code in re.findall(r"`(.+?)`", codes)}


def used() -> Iterator[tuple[str, int, str]]:
    """Where, status and code of every error that the source builds."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            words = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
            where = f"{path.name}:{node.lineno}"
            match words:
                case [int(status), str(code)] if 400 <= status < 600 and CODE.fullmatch(code):
                    yield where, status, code
                case [str(code), *_] if name in STATUS_OF:
                    yield where, STATUS_OF[name], code
                case _:
                    pass


def test_every_error_of_the_source_is_documented() -> None:
    known = documented()
    found = list(used())
    assert len(found) > 40
    missing = [
        (where, status, code) for where, status, code in found if (status, code) not in known
    ]
    assert missing == []


def test_errors_of_the_framework_are_documented() -> None:
    known = documented()
    for status, code in ((400, "bad_request"), (404, "not_found"), (405, "method_not_allowed")):
        assert (status, code) in known
