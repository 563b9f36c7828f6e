"""The plugin that turns skips into failures, run in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

IN_A_TEST = "import pytest\ndef test_it():\n    pytest.skip('no such tool here')\n"
IN_A_MODULE = "import pytest\npytest.skip('no such tool here', allow_module_level=True)\n"
AN_XFAIL = "import pytest\n@pytest.mark.xfail\ndef test_it():\n    assert False\n"


def _run(folder: Path, source: str, *, no_skips: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_one.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "no:cacheprovider", "-ra"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "SESSIONWIRE_NO_SKIPS": no_skips,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_skip_fails_the_run_and_names_its_reason(tmp_path: Path) -> None:
    ran = _run(tmp_path, IN_A_TEST, no_skips="1")
    assert ran.returncode == 1
    assert "1 failed" in ran.stdout
    assert "no such tool here" in ran.stdout


def test_a_skipped_module_fails_the_run(tmp_path: Path) -> None:
    ran = _run(tmp_path, IN_A_MODULE, no_skips="1")
    assert ran.returncode != 0
    assert "no such tool here" in ran.stdout


def test_an_expected_failure_is_not_a_skip(tmp_path: Path) -> None:
    assert _run(tmp_path, AN_XFAIL, no_skips="1").returncode == 0


def test_without_the_switch_a_skip_is_one_line(tmp_path: Path) -> None:
    ran = _run(tmp_path, IN_A_TEST, no_skips="")
    assert ran.returncode == 0
    assert "SKIPPED [1] test_one.py:3: no such tool here" in ran.stdout
