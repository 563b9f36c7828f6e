"""The generator: what is committed is what it writes, from the files that were pinned."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def generate(folder: Path, *arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "generate.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the folder, which the test may spoil."""
    folder = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("seed", ["1", "2"])
def test_committed_files_are_what_the_generator_writes(seed: str) -> None:
    checked = generate(SCHEMAS, "--check", seed=seed)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_stale_file_is_found_and_written_anew(copied: Path) -> None:
    stale = copied / "sessionwire_schemas" / "_copilot.py"
    fresh = stale.read_text()
    stale.write_text(fresh.replace("delta_content", "content_delta"))
    checked = generate(copied, "--check")
    assert checked.returncode == 1
    assert "_copilot.py is stale" in checked.stderr
    assert "_everruns.py" not in checked.stderr
    assert "content_delta" in stale.read_text()
    assert generate(copied).returncode == 0
    assert stale.read_text() == fresh


@pytest.mark.parametrize("name", ["_copilot.py", "_everruns.schema.json"])
def test_a_missing_file_is_stale(copied: Path, name: str) -> None:
    (copied / "sessionwire_schemas" / name).unlink()
    checked = generate(copied, "--check")
    assert checked.returncode == 1
    assert f"{name} is stale" in checked.stderr


def test_pinned_files_have_their_pinned_sha256() -> None:
    pinned = json.loads((SCHEMAS / "pinned" / "PINNED.json").read_text())["sha256"]
    files = {path.name for path in (SCHEMAS / "pinned").iterdir()} - {"PINNED.json"}
    assert set(pinned) == files
    for name, digest in pinned.items():
        assert hashlib.sha256((SCHEMAS / "pinned" / name).read_bytes()).hexdigest() == digest


def test_a_pinned_file_that_was_changed_is_refused(copied: Path) -> None:
    changed = copied / "pinned" / "everruns_catalog.json"
    changed.write_text(changed.read_text() + " ")
    checked = generate(copied, "--check")
    assert checked.returncode not in (0, 2)
    assert "everruns_catalog.json: sha256 is" in checked.stderr


def test_generated_files_name_what_they_were_made_from() -> None:
    pinned = json.loads((SCHEMAS / "pinned" / "PINNED.json").read_text())["sha256"]
    for name in ("_copilot.py", "_everruns.py", "_tables.py"):
        text = (SCHEMAS / "sessionwire_schemas" / name).read_text()
        assert "do not edit" in text
        assert all(digest in text for digest in pinned.values())
