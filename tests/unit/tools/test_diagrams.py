"""The diagrams are plain SVG that any viewer shows, in light and dark, and on a phone."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pictures import DRAWN_FROM
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "notebooks" / "images"
ALL = sorted(FOLDER.rglob("*.svg"))
PLAIN = {"svg", "title", "desc", "style", "rect", "text"}
SHAPES = {"defs", "marker", "path", "circle", "tspan"}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("drawing", ALL, ids=lambda path: path.stem)
def test_a_diagram(drawing: Path) -> None:
    text = drawing.read_text("utf-8")
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


@pytest.mark.parametrize("drawing", ALL, ids=lambda path: path.stem)
def test_its_png_is_drawn_from_it(drawing: Path) -> None:
    with Image.open(drawing.with_suffix(".png")) as image:
        drawn_from = image.info[DRAWN_FROM]
    assert drawn_from == hashlib.sha256(drawing.read_bytes()).hexdigest(), "run tools/pictures.py"
