"""A headless browser, for tests that look at a page as a person would."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="drives a browser with selenium")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs chromium and chromedriver"
)
#: How long a browser on a busy machine may take for one thing, s.
DRAWN_S = 300.0
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def open_browser(folder: Path, address: str, size: tuple[int, int]) -> Any:
    """A driver with the page loaded; its window has that width and height, px."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--window-size={size[0]},{size[1]}", f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver: Any = webdriver.Chrome(service=webdriver.ChromeService(DRIVER), options=options)
    driver.command_executor.client_config.timeout = DRAWN_S
    driver.set_script_timeout(DRAWN_S)
    driver.get(address)
    return driver
