"""The console's modules under Node.js' own test runner, without a browser."""

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
    for part in ("tests/browser", "tests/data", "server/sessionwire_server/console"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.test.mjs")), ids=lambda file: file.name)
def test_the_console_modules_pass_their_own_tests(file: Path, copied: Path) -> None:
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
