"""Take docs/images/jupyterlab.png: lesson 00 in JupyterLab as `make lab` opens it, after Run All.

README shows it. Needs a Chromium on the PATH, and three minutes.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from hudilab_spark.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "jupyterlab.png"
LESSON, SECTION = "00_hello_hudi.ipynb", "Correct a reading"
sys.path.append(str(ROOT / "tests"))
from chromium import launched  # noqa: E402
from kernels import connected, run_all, running_lab  # noqa: E402


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        # No setting of the account that takes the picture.
        env = os.environ | {"HUDILAB_HOME": folder, "JUPYTER_CONFIG_DIR": f"{folder}/config"}
        with running_lab(home, env) as (address, token), launched() as browser:
            page = browser.new_page(viewport={"width": 1400, "height": 1000}, color_scheme="light")
            page.goto(f"{address}/lab/tree/{LESSON}?token={token}&reset")
            page.locator(".jp-NotebookPanel .jp-CodeCell").first.wait_for(timeout=60_000)
            wait_for(lambda: connected(address, token, LESSON), 60, "a kernel")
            run_all(page, home / "notebooks" / LESSON)
            show(page, SECTION)
            shot = page.screenshot()
    PICTURE.parent.mkdir(exist_ok=True)
    image = Image.open(io.BytesIO(shot)).quantize(255, method=Image.Quantize.FASTOCTREE)
    image.save(PICTURE, optimize=True)


def show(page: Page, section: str) -> None:
    """Scroll to a section; JupyterLab draws only the cells near those that it shows."""
    pane, heading = page.locator(".jp-WindowedPanel-outer"), page.locator("h2", has_text=section)
    for share in range(0, 100, 4):
        pane.evaluate(
            "(it, share) => it.scrollTop = share / 100 * (it.scrollHeight - it.clientHeight)", share
        )
        page.wait_for_timeout(300)
        if heading.count():
            break
    for _ in range(5):  # cells above it get their real heights as they are drawn
        heading.evaluate("it => it.scrollIntoView()")
        page.wait_for_timeout(800)


if __name__ == "__main__":
    main()
