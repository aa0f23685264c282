"""Chromium without a screen, driven by selenium, for the few tests that need a real browser.

    with chromium() as browser:
        browser.get(url)
        browser.find_element(By.ID, "live")
        said(browser)               what its console holds: errors, breaches of the policy

Debian's browser and driver (chromium, chromium-driver); nothing is downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PROGRAM, DRIVER = "chromium", "chromedriver"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--window-size=1360,900",
    "--lang=en", "--force-prefers-reduced-motion",
)  # fmt: skip


@contextmanager
def chromium(*options: str) -> Iterator[Any]:
    """Skips where there is none."""
    selenium = pytest.importorskip("selenium", reason="the package selenium is not installed")
    del selenium
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = shutil.which(PROGRAM), shutil.which(DRIVER)
    if program is None or driver is None:
        pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = program
    for option in (*OPTIONS, *options):
        chosen.add_argument(option)
    chosen.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=chosen, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def said(browser: Any) -> list[str]:
    """Lines of its console since the last question."""
    return [each["message"] for each in browser.get_log("browser")]
