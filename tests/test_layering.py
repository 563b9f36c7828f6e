"""The three packages keep apart (docs/design.md): schemas know nobody, the others only schemas.

Imports are read from the sources; what an import really loads is seen in a fresh interpreter.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("sessionwire", "sessionwire_server", "sessionwire_schemas")

DOES_IO = frozenset(
    {
        *("anyio", "asyncio", "multiprocessing", "subprocess", "threading", "trio", "uvloop"),
        *("aiohttp", "http", "httpx", "httpx2", "requests", "urllib", "websockets"),
        *("select", "selectors", "socket", "socketserver", "ssl"),
        *("httptools", "redis", "sse_starlette", "starlette", "uvicorn", "valkey"),
    }
)
"""What a pure package has no business with."""

RUNS_HUBS = frozenset({"cli", "testing.py"})
"""What of the client may load the server inside a function, to run it."""


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}"
            yield node.module or "", node


def _modules(package: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(_folder(package).rglob("*.py")):
        yield path, ast.parse(path.read_text(), str(path))


def _offenders(package: str, banned: frozenset[str]) -> list[str]:
    return [
        f"{path.name}:{node.lineno} imports {name}"
        for path, tree in _modules(package)
        for name, node in _imports(tree)
        if name.partition(".")[0] in banned
    ]


def test_schemas_know_neither_client_nor_server_and_do_no_io() -> None:
    banned = DOES_IO | {"sessionwire", "sessionwire_server"}
    assert _offenders("sessionwire_schemas", banned) == []


def test_the_server_never_imports_the_client() -> None:
    assert _offenders("sessionwire_server", frozenset({"sessionwire"})) == []


def test_the_client_loads_the_server_only_inside_functions_that_run_one() -> None:
    offenders: list[str] = []
    for path, tree in _modules("sessionwire"):
        late = {
            id(statement)
            for block in ast.walk(tree)
            if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef) or _is_for_types(block)
            for statement in ast.walk(block)
        }
        for name, node in _imports(tree):
            if name.partition(".")[0] != "sessionwire_server":
                continue
            if not RUNS_HUBS & {path.parent.name, path.name} or id(node) not in late:
                offenders.append(f"{path.name}:{node.lineno} imports {name}")
    assert offenders == []


def _is_for_types(block: ast.AST) -> bool:
    return (
        isinstance(block, ast.If)
        and isinstance(block.test, ast.Name)
        and block.test.id == "TYPE_CHECKING"
    )


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        pytest.param(
            "import sessionwire.cli",
            ("sessionwire_server", "starlette", "redis", "uvicorn"),
            id="the client loads no server",
        ),
        pytest.param(
            "import sessionwire_server.app",
            ("sessionwire", "typer", "rich"),
            id="the server loads no client",
        ),
        pytest.param(
            "import sessionwire_schemas.catalog as c; c.COPILOT.types; c.EVERRUNS.types",
            ("pydantic", "sessionwire_schemas._copilot", "sessionwire_schemas._everruns"),
            id="the catalog tables load no models",
        ),
    ],
)
def test_an_import_loads_only_its_own_layer(statement: str, absent: tuple[str, ...]) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()
    assert [name for name in absent if name in loaded] == []


def test_every_package_says_that_it_is_typed() -> None:
    assert [name for name in PACKAGES if not (_folder(name) / "py.typed").is_file()] == []
