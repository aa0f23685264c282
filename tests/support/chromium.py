"""Chromium: a browser without a screen, driven by selenium, for tests that need a real browser.

    with chromium() as browser:
        browser.get(url)
        browser.find_element(By.ID, "live")
        said(browser)               the lines of its console: errors, breaches of the policy
        text(browser)               the text that a person sees

    with chromium(has_requests=True) as browser:
        requests(browser)           the URLs that it has requested

It uses Debian's browser and driver (chromium, chromium-driver); nothing is downloaded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pytest

PROGRAM, DRIVER = "chromium", "chromedriver"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--window-size=1360,900",
    "--lang=en", "--force-prefers-reduced-motion",
    # A window without tabs and address line. A new page uses the frame of the page before, no pages
    # are kept for going back, and no process is kept ready for another site.
    "--app=about:blank",
    "--disable-features=RenderDocument,BackForwardCache,SpareRendererForSitePerProcess",
)  # fmt: skip
# The text without hidden elements. The driver's own call for this costs 50 ms a page.
TEXT = "return document.querySelector(arguments[0])?.innerText ?? ''"


@contextmanager
def chromium(*options: str, has_requests: bool = False) -> Iterator[Any]:
    """A browser for the block; skips the test if there is none. has_requests: for requests(); the
    browser then reports each request to its driver, which costs a tenth of the time of a page."""
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
    logs = {"browser": "ALL", **({"performance": "ALL"} if has_requests else {})}
    chosen.set_capability("goog:loggingPrefs", logs)
    browser = webdriver.Chrome(options=chosen, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def said(browser: Any) -> list[str]:
    """The lines of the browser's console since the last call."""
    return [each["message"] for each in browser.get_log("browser")]


def text(browser: Any, selector: str = "main") -> str:
    """The text that a person sees there now; empty between two pages."""
    return str(browser.execute_script(TEXT, selector))


def requests(browser: Any) -> list[SplitResult]:
    """The URLs that the browser has requested since the last call, from any server."""
    events = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    return [urlsplit(event["params"]["request"]["url"])
            for event in events if event["method"] == "Network.requestWillBeSent"]  # fmt: skip
