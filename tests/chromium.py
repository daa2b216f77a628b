"""A real Chromium, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

Scheme = Literal["light", "dark"]
MISSING = "no Chromium on PATH; install it (Debian: apt-get install chromium)"


def find_chromium() -> str | None:
    """The executable, or None if this machine has none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser that asks nothing of the network by itself."""
    browser = find_chromium()
    assert browser, MISSING
    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        yield playwright.chromium.launch(executable_path=browser, args=quiet)


def opened(
    browser: Browser, address: str, width: int, scheme: Scheme, site: str | None = None
) -> tuple[Page, list[str]]:
    """The page, and what goes wrong on it: errors, and requests for anything but it or its site."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 500
    )
    page, wrong = context.new_page(), []
    own = ("data:", site or address)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console", lambda message: wrong.append(message.text) if message.type == "error" else None
    )
    page.on("request", lambda it: None if it.url.startswith(own) else wrong.append(it.url))
    page.goto(address)
    return page, wrong
