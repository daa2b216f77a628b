"""The diagrams are plain SVG that any viewer shows, in light and dark, and on a phone."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pictures import DRAWN_FROM
from PIL import Image
from terms import entries

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "notebooks" / "images"
NAMES = ["cluster", "crash", "file-slices", "micro-batch"]
WORDS = [
    *("bucket", "change", "cleaner", "clustering", "compaction", "file-group", "file-slice"),
    *("index", "instant", "log", "savepoint"),
]
ALL = [*NAMES, *(f"words/{word}" for word in WORDS)]
PLAIN = {"svg", "title", "desc", "style", "rect", "text"}
SHAPES = {"defs", "marker", "path", "circle", "tspan"}
SVG = "{http://www.w3.org/2000/svg}"
# The palette of Okabe and Ito, which people tell apart whatever colours they see; in dark, blue
# and vermilion have lighter kin there. A shape in a diagram means the same in all of them.
BLUE, VERMILION, GREEN = {"#0072b2", "#56b4e9"}, {"#d55e00", "#e69f00"}, {"#009e73"}
PALETTE = {"blue": BLUE, "amber": VERMILION, "green": GREEN, "purple": {"#cc79a7"}}


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.svg"))


def test_all_are_here() -> None:
    assert names(FOLDER) == NAMES
    assert names(FOLDER / "words") == WORDS


@pytest.mark.parametrize("name", ALL)
def test_a_diagram(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)
    drawn = {child.tag.removeprefix(SVG) for child in root.iter()}
    assert drawn == PLAIN | drawn & SHAPES
    assert len(root.findtext(f"{SVG}title") or "") >= 5
    assert len(root.findtext(f"{SVG}desc") or "") > 100
    assert root.get("aria-labelledby") == "title desc"
    # At 390 px, 20 of them margins, the smallest text is then at least 10 px high.
    width = int((root.get("viewBox") or "").split()[2])
    assert min(map(int, re.findall(r"(\d+)px", text))) * 370 / width >= 10
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"url\((?!#)|@import|href", text)
    assert len(text.encode()) < 6000


@pytest.mark.parametrize("name", ALL)
def test_its_png_is_drawn_from_it(name: str) -> None:
    drawing = (FOLDER / f"{name}.svg").read_bytes()
    with Image.open(FOLDER / f"{name}.png") as image:
        drawn_from = image.info[DRAWN_FROM]
    assert drawn_from == hashlib.sha256(drawing).hexdigest(), "run tools/pictures.py"


@pytest.mark.parametrize("name", ALL)
def test_its_colours_are_those_of_all(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text("utf-8")
    for role, colours in PALETTE.items():
        used = set(re.findall(rf"--{role}: (#[0-9a-f]{{6}})", text))
        assert used <= colours, role
        assert used or role == "purple"
    # Elements have a class, and no colour of their own.
    assert not re.search(r'(?:fill|stroke)="', text)


def test_each_word_has_its_picture_in_a_lesson_and_in_the_glossary() -> None:
    glossary = (ROOT / "book" / "glossary.md").read_text("utf-8")
    told = {name for entry in entries(glossary) for name in entry.names}
    lessons = [path.read_text("utf-8") for path in sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))]
    for word in WORDS:
        assert {word.replace("-", " "), f"{word} file", f"{word} data capture"} & told, word
        assert glossary.count(f"](/notebooks/images/words/{word}.svg)") == 1, word
        assert any(f"](images/words/{word}.png)" in lesson for lesson in lessons), word
