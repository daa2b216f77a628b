"""The diagrams are plain SVG that any viewer shows, in light and dark, and on a phone."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "diagrams"
NAMES = ["cluster", "crash", "file-slices", "micro-batch"]
SHAPES = {"path", "rect", "circle", "text", "tspan"}
SVG = "{http://www.w3.org/2000/svg}"


def test_all_are_here() -> None:
    assert [path.stem for path in sorted(FOLDER.iterdir())] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_diagram(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)
    drawn = {child.tag.removeprefix(SVG) for child in root.iter()}
    assert drawn == {"svg", "title", "desc", "style", "defs", "marker"} | drawn & SHAPES
    assert len(root.findtext(f"{SVG}title") or "") > 10
    assert len(root.findtext(f"{SVG}desc") or "") > 100
    assert root.get("aria-labelledby") == "title desc"
    # At 390 px, 20 of them margins, the smallest text is then at least 10 px high.
    width = int((root.get("viewBox") or "").split()[2])
    assert min(map(int, re.findall(r"(\d+)px", text))) * 370 / width >= 10
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"url\((?!#)|@import|href", text)
