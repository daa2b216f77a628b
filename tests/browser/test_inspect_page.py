"""The page of `hudilab inspect --html` in a real Chromium, without a network.

Needs a Chromium on PATH (Debian: apt-get install chromium). Screenshots go where those of
JupyterLab go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chromium import Scheme, launched, opened
from playwright.sync_api import Browser
from unit.handmade import HandMade, at

from hudi_inspect import inspect

PROJECT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("HUDILAB_SCREENSHOTS", PROJECT / ".lab" / "screenshots"))
A, B = "aaaaaaaa-0000-0000-0000-000000000000-0", "bbbbbbbb-0000-0000-0000-000000000000-0"

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a table with concurrent writes, a compaction, a clean and a pending commit."""
    folder = tmp_path_factory.mktemp("page")
    table = HandMade(folder / f"t_{'x' * 60}", table__type="MERGE_ON_READ")
    extra = {"hudilab.query_id": "</script><b>q", "hudilab.batch_id": "0"}
    table.commit(10, 12, {A: 5, B: 7}, action="deltacommit", extra=extra)
    table.commit(20, 26, {A: 2}, action="deltacommit", logs=True)
    table.commit(22, 24, {B: 2}, action="deltacommit", logs=True)
    table.commit(30, 34, {A: 6}, started="compaction", operation="COMPACT", size=900)
    table.clean(40, 41, at(20))
    table.commit(50, None, {A: 1}, action="deltacommit", logs=True)
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    file = folder / "page.html"
    file.write_text(inspect(str(table.root), now=now).to_html(), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("wide", 1400, "light"), ("dark", 1400, "dark"), ("phone", 390, "light")],
)
def test_it_is_shown(
    browser: Browser, page_file: Path, name: str, width: int, scheme: Scheme
) -> None:
    page, wrong = opened(browser, page_file.as_uri(), width, scheme)
    bars = page.locator("#line rect[data-i]")
    assert bars.count() == 6
    assert page.locator("#files rect[data-s]").count() == 3
    # Two writes that overlap are on two lanes.
    tops = {bar.get_attribute("y") for bar in bars.all()}
    assert len(tops) == 4
    bars.nth(4).tap() if width < 500 else bars.nth(4).hover()
    output = page.locator("#told").inner_text()
    assert "deltacommit" in output
    assert "rows: 2 written" in output
    before = bars.nth(5).bounding_box()
    page.get_by_label("Zoom in").click()
    after = page.locator("#line rect[data-i]").last.bounding_box()
    assert before != after
    page.get_by_text("Evenly").click()
    page.locator("#all > summary").click()
    page.locator("details.one > summary").last.click()
    page.get_by_text("</script><b>q").last.wait_for(timeout=5000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"inspect-{name}.png", full_page=True)
    assert wrong == []


def test_without_colour_each_kind_has_its_letter(browser: Browser, page_file: Path) -> None:
    page, _ = opened(browser, page_file.as_uri(), 1400, "light")
    page.get_by_text("Evenly").click()
    letters = page.locator("#line text.in").all_text_contents()
    assert sorted(set(letters)) == ["D", "M", "X"]
    assert "pending" in page.locator("#legend").inner_text()


def test_odd_operations_and_many_instants(browser: Browser, tmp_path: Path) -> None:
    """Names of JavaScript's own properties are names like any other; lists have pages."""
    table = HandMade(tmp_path / "t")
    names = ("constructor", "__proto__", "toString", "<img src=x onerror=alert(1)>", "\u202ex")
    for i in range(2500):
        content = {"operationType": names[i % len(names)], "extraMetadata": {names[i % 5]: "x"}}
        data = json.dumps(content).encode()
        table.instant(2 * i, 2 * i + 1, "commit", data, inflight=False)
    file = tmp_path / "page.html"
    file.write_text(inspect(str(table.root)).to_html(), encoding="utf-8")
    page, wrong = opened(browser, file.as_uri(), 1400, "light")
    page.get_by_role("button", name="Fit").click()
    assert 0 < page.locator("#line rect[data-i]").count() < 2500
    page.locator("#all > summary").click()
    assert page.locator("details.one").count() == 200
    page.get_by_label("Next page").click()
    assert "201 to 400 of 2,500" in page.locator("#instants .soft").first.inner_text()
    page.locator("details.one > summary").first.click()
    for name in ("constructor", "__proto__", r"\u202ex"):
        assert page.locator("details.one > summary", has_text=name).count() == 40
    assert wrong == []
