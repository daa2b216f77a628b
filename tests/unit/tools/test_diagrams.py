"""The PNGs that lessons show are drawn from the diagrams of today."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pictures import DRAWN_FROM
from PIL import Image

FOLDER = Path(__file__).resolve().parents[3] / "notebooks" / "images"
IN_LESSONS = sorted(set(FOLDER.glob("*.png")) - {FOLDER / "architecture.png"})  # of a manual
HIGHEST = 420  # a laptop shows about 700 pixels of a notebook, and the text belongs to the picture


@pytest.mark.parametrize("drawing", sorted(FOLDER.rglob("*.svg")), ids=lambda path: path.stem)
def test_its_png_is_drawn_from_it(drawing: Path) -> None:
    with Image.open(drawing.with_suffix(".png")) as image:
        drawn_from = image.info[DRAWN_FROM]
    assert drawn_from == hashlib.sha256(drawing.read_bytes()).hexdigest(), "run tools/pictures.py"


@pytest.mark.parametrize("drawing", IN_LESSONS, ids=lambda path: path.stem)
def test_a_lesson_s_picture_fits_on_a_screen_with_its_text(drawing: Path) -> None:
    with Image.open(drawing) as image:
        assert image.height <= HIGHEST
        assert image.height < image.width
