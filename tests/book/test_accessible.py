"""Each page of the book, in light and dark, keeps the rules of WCAG 2 (A and AA) that axe checks.

The lessons are shown as this run's gates ran them, or as git keeps them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import book
import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from chromium import Scheme, opened
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.deep
WCAG = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa"]},
    "resultTypes": ["violations"],
    "preload": False,  # none of these rules needs to fetch the style sheets once more
}
# Pages of the reference differ in their words only.
REFERENCE = {"index", "hudi_sink.sink", "hudilab.table"}


@pytest.fixture(scope="module")
def site() -> Path:
    assert book.main(["--as-committed"]) == 0
    return book.OUT


def violations(page: Page) -> list[str]:
    """What axe finds: rule, element, and what is wrong with it."""
    response: dict[str, Any] = Axe().run(page, options=WCAG).response
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
        for rule in response["violations"]
        for node in rule["nodes"]
    ]


def pages(site: Path) -> list[Path]:
    paths = sorted(site.rglob("*.html"))
    return [page for page in paths if page.parent.name != "reference" or page.stem in REFERENCE]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_breaks_a_rule(browser: Browser, site: Path, scheme: Scheme) -> None:
    site_pages = pages(site)
    assert len(site_pages) >= 40
    broken = {}
    for file in site_pages:
        page, _ = opened(browser, file.as_uri(), 1300, scheme, site.as_uri())
        if problems := violations(page):
            broken[file.relative_to(site).as_posix()] = problems
        page.context.close()
    assert broken == {}


def test_each_picture_says_what_it_shows(site: Path) -> None:
    results = list[str]()
    for file in pages(site):
        for picture in BeautifulSoup(file.read_text("utf-8"), "html.parser").select("img"):
            text = str(picture.get("alt", ""))
            assert len(text) > 12, f"{file.name}: {picture}"
            assert not text.endswith((".png", ".svg")), f"{file.name}: {picture}"
            results.append(text)
    assert len(results) > 50


def test_wide_tables_scroll_on_a_phone(browser: Browser, site: Path) -> None:
    """No page is wider than the screen, because what is wider scrolls within it."""
    scrolled = 0
    for file in pages(site):
        page, _ = opened(browser, file.as_uri(), 390, "light", site.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, file.name
        scrolled += page.evaluate(
            """[...document.querySelectorAll("table")].filter(it => {
                const box = it.closest(".table-wrapper, .cell_output");
                return box && box.scrollWidth > box.clientWidth;
            }).length"""
        )
        page.context.close()
    assert scrolled > 5
