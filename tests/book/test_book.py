"""The book: built with warnings as errors, checked, searched, and opened in a Chromium.

Lessons without an executed copy in dist/executed are run first, which takes minutes.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import book
import gates
import pytest
from book import FACES
from bs4 import BeautifulSoup, Tag
from chromium import opened
from playwright.sync_api import Browser

from hudilab.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
# The long ones show what git keeps, unless somebody has run them.
RUN = [
    name for name in LESSONS if gates.gate_of(ROOT / "notebooks" / f"{name}.ipynb") != gates.LONG
]


@pytest.fixture(scope="module")
def site() -> Path:
    """The book of the notebooks that this run's gates have run."""
    book.run_stale([ROOT / "notebooks" / f"{name}.ipynb" for name in RUN], book.EXECUTED)
    assert book.main(["--as-committed"]) == 0
    return book.OUT


def first(page: BeautifulSoup, selector: str) -> Tag:
    """The first element that the selector finds; there must be one."""
    tag = page.select_one(selector)
    assert tag is not None, selector
    return tag


def soup(file: Path) -> BeautifulSoup:
    return BeautifulSoup(file.read_text("utf-8"), "html.parser")


@pytest.fixture(scope="module")
def lessons(site: Path) -> dict[str, BeautifulSoup]:
    return {name: soup(site / "notebooks" / f"{name}.html") for name in LESSONS}


def test_each_lesson_has_its_results(lessons: dict[str, BeautifulSoup]) -> None:
    for name, page in ((name, lessons[name]) for name in RUN):
        ran = first(page, "p.ran")
        assert re.fullmatch(
            r"Run with Python 3\.1\d\.\d+, Spark 3\.5\.\d, Hudi [\d.]+, Java 17[\d.]*\.", ran.text
        ), name
        # Not only in the cells whose outputs git keeps.
        cells, printed = page.select("div.cell"), page.select("div.cell_output")
        assert len(cells) > 15, name
        assert len(printed) > len(cells) / 4, name


def test_solutions_and_checks_are_folded_and_exercises_are_not(
    lessons: dict[str, BeautifulSoup],
) -> None:
    for name, page in lessons.items():
        for tag in ("solution", "check"):
            folded = page.select(f"div.cell.tag_{tag}")
            assert folded, name
            for cell in folded:
                assert cell.find("details", class_="hide"), name
                assert f"Show the {tag}" in cell.text, name
        for cell in page.select("div.cell.tag_exercise"):
            assert not cell.find("details"), name


def test_nothing_of_this_machine_and_no_litter(site: Path) -> None:
    litter = re.compile(
        r"\d(?:batch|round)/s\b|\bWARN\b.*\.java|Traceback \(most|\d%\|| at 0x[0-9a-f]{6,}>"
    )
    for file in sorted((site / "notebooks").glob("*.html")):
        text = file.read_text("utf-8")
        for folder in (str(ROOT), tempfile.gettempdir() + "/tmp", str(Path.home()) + "/"):
            assert folder not in text, f"{folder} in {file.name}"
        for printed in soup(file).select("div.cell_output"):
            assert not litter.search(printed.text), file.name


def test_the_reference_has_the_public_names_and_every_module(site: Path) -> None:
    index = soup(site / "reference" / "index.html")
    table = first(index, "table")
    linked = {link.text: link["href"] for link in table.select("a")}
    faces = {package: import_module(package) for package in FACES}
    assert set(linked) == {name for face in faces.values() for name in face.__all__}
    assert all("#hudi" in address for address in linked.values())
    modules = {
        f"{package}.{path.stem}"
        for package in FACES
        for path in Path(str(faces[package].__file__)).parent.glob("[a-z]*.py")
    }
    assert len(modules) > 20
    assert {path.stem for path in (site / "reference").glob("hudi*.*.html")} == modules


SPHINX_SEES = {
    "[there](gone.md)": "'gone.md' [myst.xref_missing]",
    "[there](glossary.md#gone)": "local id not found in doc 'glossary': 'gone'",
    "{term}`gone`": "term not in glossary: 'gone'",
    "![picture](gone.png)": "image file not readable: gone.png",
}


def test_a_book_that_must_fail(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    body = "\n\n".join(SPHINX_SEES)
    (source / "index.md").write_text(f"# Book\n\n{body}\n\n```{{toctree}}\nglossary\n```\n")
    (source / "glossary.md").write_text("# Words\n\n```{glossary}\nrow\n  A line.\n```\n")
    with pytest.raises(LabError, match="the book has warnings"):
        book.build(source, tmp_path / "out")
    output = capfd.readouterr().err
    assert [warning for warning in SPHINX_SEES.values() if warning not in output] == []
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of a plain server of files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


PARTS = ["1. The first hour", "2. Tables", "3. Sources and streams", "4. Run it", "5. The whole"]


def test_the_first_page_has_a_picture_and_the_parts(site: Path) -> None:
    page = soup(site / "index.html")
    assert (site / "_images" / Path(str(first(page, "article img")["src"])).name).is_file()
    table = first(page, "article table")
    assert [first_cell.text for first_cell in table.select("tbody td:first-child")] == PARTS
    linked = {Path(str(link["href"])).stem for link in page.select("article a[href^=notebooks]")}
    assert linked == set(LESSONS)
    captions = [caption.text for caption in page.select(".sidebar-tree .caption")]
    assert captions[1 : 1 + len(PARTS)] == PARTS


def test_the_code_of_a_lesson_fits_and_can_be_copied(browser: Browser, site: Path) -> None:
    scrolling = """[...document.querySelectorAll("div.cell_input pre")]
        .filter(it => it.scrollWidth > it.clientWidth).map(it => it.textContent)"""
    for name in LESSONS:
        address = (site / "notebooks" / f"{name}.html").as_uri()
        page, wrong = opened(browser, address, 1400, "light", site.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
        assert page.evaluate(scrolling) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= 1400, name
        assert wrong == []
        if name != LESSONS[0]:
            page.context.close()
            continue
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        block = page.locator("div.cell_input div.highlight").nth(1)
        block.hover()
        block.get_by_role("button", name="Copy").click()
        block.get_by_role("button", name="Copied").wait_for()
        code = str(page.evaluate("navigator.clipboard.readText()"))
        assert code.startswith("import math\n")
        assert "Cop" not in code
        assert page.locator("div.cell_output button.copy").count() == 0


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("exactly once", "Is the table right"),
        ("quarantine", "Stream your"),
        ("savepoint", "Rewind"),
        ("bad rows csv", "The keys of a pipeline"),
        ("kill the writer", "Is the table right"),
        ("schema change", "What fails"),
        ("compaction", "Tidy a table"),
        ("checkpoint lost", "Is the table right"),
        ("s3 credentials", "S3"),
        ("read with DuckDB", "Stream your"),
        ("slow batch", "When a batch is slow"),
    ],
)
def test_a_search_shows_manuals_and_lessons_before_functions(
    browser: Browser, site: Path, query: str, wanted: str
) -> None:
    address = f"{site.as_uri()}/search.html?q={query.replace(' ', '+')}"
    page, _ = opened(browser, address, 1300, "light", site.as_uri())
    page.get_by_text("Search finished").wait_for(timeout=20_000)
    results = page.locator("ul.search li a")
    pages = [str(link.get_attribute("href")) for link in results.all()]
    is_function = [link.startswith("reference/") for link in pages]
    assert is_function == sorted(is_function)
    assert str(results.first.text_content()).startswith(wanted)


@pytest.mark.parametrize("way", ["file", "server"])
def test_search_finds_a_term_without_a_network(
    browser: Browser, site: Path, served: str, way: str
) -> None:
    root = site.as_uri() if way == "file" else served
    page, wrong = opened(browser, f"{root}/index.html", 1300, "light", root)
    page.get_by_placeholder("Search").first.fill("compaction")
    page.keyboard.press("Enter")
    page.get_by_text("Search finished").wait_for(timeout=10_000)  # it lists one page after another
    titles = page.locator("ul.search li a").all_text_contents()
    assert any(title.startswith("11 Merge on read") for title in titles)
    assert any("Glossary" in title for title in titles)
    excerpts = page.locator("ul.search li .context").filter(has_text="compaction")
    excerpts.first.wait_for(timeout=10_000)
    page.locator("ul.search li a").first.click()
    page.locator("article h1").first.wait_for()
    assert wrong == []


def test_the_dark_theme(browser: Browser, site: Path) -> None:
    file = site / "notebooks" / f"{LESSONS[1]}.html"
    page, wrong = opened(browser, file.as_uri(), 1300, "light", site.as_uri())
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    toggle = page.locator(".content-icon-container .theme-toggle")
    toggle.click()  # from the system's theme to light, or to dark
    if page.evaluate("document.body.dataset.theme") != "dark":
        toggle.click()
    assert page.evaluate("document.body.dataset.theme") == "dark"
    assert page.evaluate(ground) != light
    picture = page.locator(".cell_output img").first
    assert "invert" in picture.evaluate("it => getComputedStyle(it).filter")
    texts = page.locator("table.dataframe td").first
    assert texts.evaluate("it => getComputedStyle(it).color") != "rgb(0, 0, 0)"
    page.locator("details.hide summary").first.click()
    assert page.locator("details.hide").first.get_attribute("open") is not None
    assert wrong == []


@pytest.mark.deep
def test_no_text_of_a_diagram_covers_another(browser: Browser) -> None:
    boxes = """[...document.querySelectorAll("text")].map(it => {
        const box = it.getBBox();
        return [it.textContent, box.x, box.y + 3, box.x + box.width, box.y + box.height - 3];
    })"""
    files = sorted((ROOT / "notebooks" / "images").rglob("*.svg"))
    assert len(files) >= 15
    for file in files:
        page, wrong = opened(browser, file.as_uri(), 500, "light")
        labels = page.evaluate(boxes)
        width = page.evaluate("document.rootElement.viewBox.baseVal.width")
        assert len(labels) >= 5
        for at, (label, left, top, right, bottom) in enumerate(labels):
            assert left >= 4, f"{file.name}: {label}"
            assert right <= width - 4, f"{file.name}: {label}"
            for other, x, y, end, foot in labels[at + 1 :]:
                apart = end <= left or x >= right or foot <= top or y >= bottom
                assert apart, f"{file.name}: {label!r} covers {other!r}"
        assert wrong == []
