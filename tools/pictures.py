"""Draw notebooks/images/NAME.png of each NAME.svg with a Chromium; needs one on the PATH.

Lessons show the PNG, because GitHub's preview of a notebook shows no SVG file. The SVG is what
people edit, and what the book shows. Each PNG holds the hash of its SVG: a test finds stale ones.
"""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks" / "images"
DRAWN_FROM = "sha256 of the SVG"
SCALE = 1.25  # a notebook shows a PNG with as many pixels as it has
sys.path.append(str(ROOT / "tests"))
from chromium import launched  # noqa: E402


def main() -> None:
    with launched() as browser:
        page = browser.new_page(device_scale_factor=SCALE, color_scheme="light")
        for drawing in sorted(FOLDER.rglob("*.svg")):
            page.goto(drawing.as_uri())
            shot = page.locator("svg").screenshot(omit_background=True)
            note = PngInfo()
            note.add_text(DRAWN_FROM, hashlib.sha256(drawing.read_bytes()).hexdigest())
            image = Image.open(io.BytesIO(shot)).quantize(255, method=Image.Quantize.FASTOCTREE)
            image.save(drawing.with_suffix(".png"), optimize=True, pnginfo=note)


if __name__ == "__main__":
    main()
