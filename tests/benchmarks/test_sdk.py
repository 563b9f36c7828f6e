"""The measuring of the SDK measures."""

from __future__ import annotations

import subprocess
import sys


def test_every_reader_reads_the_session_to_its_end() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.sdk", "--events", "300", "--reps", "1"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rows = [line.split("|")[1].strip() for line in ran.stdout.splitlines() if "µs |" in line]
    assert len(rows) == 6
    assert all(row for row in rows)
