"""Turn a skipped test into a failure where every tool is there to run it.

A pytest plugin (`-p tests.skips`), switched on by `SESSIONWIRE_NO_SKIPS=1`: elsewhere a missing
tool is told in one line a file, in CI the same line fails the run. Expected failures (`xfail`) are
not skips.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import cast

import pytest

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    file, line, reason = cast("tuple[str, int, str]", report.longrepr)
    if os.environ.get("SESSIONWIRE_NO_SKIPS") == "1":
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here: {file}:{line}: {reason}"
    elif reason.endswith("is not installed"):
        # pytest folds skips of one place: a missing tool is one line a file, not one a test.
        report.longrepr = (file, 1, reason)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test's skip count as its failure."""
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a module's skip count as its failure."""
    report = yield
    _judge(report)
    return report
