"""The browser client and the console's modules without a browser: their tests under Node.js' own
runner, and the client's types by the TypeScript compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "browser"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what the tests need to where a package.json says that `.js` means modules."""
    folder = tmp_path_factory.mktemp("modules")
    parts = (
        "tests/browser",
        "tests/data",
        "server/sessionwire_server/console",
        "client/sessionwire/browser",
    )
    for part in parts:
        shutil.copytree(ROOT / part, folder / part)
    # Where the hub serves the client, beside the console.
    served = folder / "server/sessionwire_server/console/console"
    served.mkdir()
    (served / "client").symlink_to(folder / "client/sessionwire/browser")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.test.mjs")), ids=lambda file: file.name)
def test_the_modules_pass_their_own_tests(file: Path, copied: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    ran = subprocess.run(
        [node, "--test", "--test-reporter=spec", copied / "tests" / "browser" / file.name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "tests 0" not in ran.stdout


def test_the_browser_client_is_typed_strictly() -> None:
    node = shutil.which("node")
    compiler = ROOT / "tests/e2e/node/node_modules/typescript/bin/tsc"
    if node is None or not compiler.exists():
        pytest.skip("typescript is not installed")
    ran = subprocess.run(
        [node, compiler, "-p", ROOT / "client/sessionwire/browser"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
