"""Each requirement has a test that says it proves it, and no test proves what is not required."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract._requirements import REQUIREMENTS

TESTS = Path(__file__).parent.parent
FOLDERS = ("contract", "chaos", "e2e")


def _proofs(path: Path) -> Iterator[str]:
    """Ids in the `@proves(…)` of the test functions of one module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "proves":
                assert node.name.startswith("test_"), f"{path.name}: {node.name} is no test"
                for argument in mark.args:
                    assert isinstance(argument, ast.Constant), ast.unparse(mark)
                    yield str(argument.value)


def test_each_requirement_has_a_test() -> None:
    proven = {
        name
        for folder in FOLDERS
        for path in (TESTS / folder).glob("test_*.py")
        for name in _proofs(path)
    }
    assert sorted(REQUIREMENTS.keys() - proven) == []
    assert sorted(proven - REQUIREMENTS.keys()) == []


def test_sentences_are_whole() -> None:
    for name, requirement in REQUIREMENTS.items():
        assert requirement.sentence.endswith("."), name
