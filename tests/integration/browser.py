"""A headless browser that cannot reach anything, for looking at pages as a person would."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")


@contextmanager
def open_browser() -> Iterator[Any]:
    """Skips the test where there is no browser: STEPSCOPE_BROWSER names one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("STEPSCOPE_BROWSER") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium, or STEPSCOPE_BROWSER=…")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Seen:
    """A page and all that went on in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.troubles: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


@contextmanager
def opened(
    browser: Any, file: Path, size: str, theme: Literal["light", "dark"] = "light"
) -> Iterator[Seen]:
    """The page as it is after loading; whatever it asks for is written down, and refused."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, has_touch=size == "phone"
    )
    seen = Seen(context.new_page())
    allowed = file.resolve().as_uri()
    context.route(
        "**/*", lambda route: route.continue_() if route.request.url == allowed else route.abort()
    )
    seen.page.goto(allowed, wait_until="load")
    try:
        yield seen
    finally:
        context.close()


def screenshots_folder(fallback: Path) -> Path:
    """STEPSCOPE_SCREENSHOTS, where CI keeps them, or the test's own folder."""
    folder = Path(os.environ.get("STEPSCOPE_SCREENSHOTS") or fallback)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
