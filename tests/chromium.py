"""The system's Chromium, headless, driven through Playwright; tests without one are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright

__all__ = ["WAIT_MS", "headless"]

WAIT_MS = 15_000
"""How long a page may take to show something: a busy machine is slow, a hanging test slower."""


@asynccontextmanager
async def headless() -> AsyncGenerator[Browser]:
    """Run a browser for the block."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed")
    # Its sandbox refuses to run as root, as CI does; the pages are the test's own.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            await browser.close()
