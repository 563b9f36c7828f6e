"""Turn a skipped test into a failure where every tool is there to run it.

A pytest plugin (`-p tests.skips`), switched on by `SESSIONWIRE_NO_SKIPS=1`: elsewhere a test
without its tool is skipped with one line, in CI the same line fails the run. Expected failures
(`xfail`) are not skips.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("SESSIONWIRE_NO_SKIPS") != "1" or not report.skipped:
        return
    if hasattr(report, "wasxfail"):
        return
    reason: Any = report.longrepr
    if isinstance(reason, tuple):
        reason = f"{reason[0]}:{reason[1]}: {reason[2]}"
    report.outcome = "failed"
    report.longrepr = f"nothing may be skipped here: {reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test's skip count as its failure."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a module's skip count as its failure."""
    report = yield
    _fail_if_skipped(report)
    return report
