"""Notebooks in JupyterLab in a real Chromium: Run All, look at the results, keep screenshots.

Needs a Chromium on PATH (Debian: apt-get install chromium). Screenshots go to
.lab/screenshots, or where HUDILAB_SCREENSHOTS points.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from chromium import launched
from contract.checks import METADATA
from kernels import connected, kernels_of, run_all, running_lab
from nbformat.v4 import new_markdown_cell, new_notebook

from hudilab_spark.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("HUDILAB_SCREENSHOTS", PROJECT / ".lab" / "screenshots"))
# The first hour, a lesson with many pictures, and the exam: papermill and nbval run all of them.
NOTEBOOKS = (
    "00_hello_hudi",
    "01_generate_data",
    "02_write_hudi_stream",
    "03_inspect_table",
    "11_merge_on_read",
    "41_exam",
)

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """JupyterLab as `make lab` opens it: its address, token and folder."""
    home = tmp_path_factory.mktemp("lab")
    env = os.environ | {"HUDILAB_HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config")}
    with running_lab(home, env) as (address, token):
        yield address, token, home / "notebooks"


def test_it_asks_nothing_and_shows_a_diagram(lab: tuple[str, str, Path]) -> None:
    address, token, folder = lab
    picture = new_markdown_cell("![flow](images/micro-batch.png)")
    book = new_notebook(cells=[picture], metadata=METADATA)
    nbformat.write(book, folder / "picture.ipynb")
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.goto(f"{address}/lab/tree/picture.ipynb?token={token}&reset")
        shown = page.locator(".jp-MarkdownCell img")
        shown.wait_for(timeout=60_000)
        wait_for(lambda: shown.evaluate("it => it.naturalWidth") == 950, 10, "the diagram")
        page.wait_for_timeout(3000)  # the question came a second after the page
        assert page.get_by_text("official Jupyter news").count() == 0
        assert page.locator(".Toastify__toast, .jp-Dialog").count() == 0


def test_a_closed_tab_ends_its_kernel(lab: tuple[str, str, Path]) -> None:
    address, token, folder = lab
    nbformat.write(new_notebook(metadata=METADATA), folder / "closed.ipynb")
    with launched() as browser:
        page = browser.new_page()
        page.goto(f"{address}/lab/tree/closed.ipynb?token={token}&reset")
        wait_for(lambda: connected(address, token, "closed.ipynb"), 60, "a kernel")
        page.locator("#jp-main-dock-panel .lm-mod-current .lm-TabBar-tabCloseIcon").click()
        discard = page.locator(".jp-Dialog").get_by_text("Discard", exact=True)

        def ended() -> bool:
            if discard.is_visible():  # JupyterLab has noted the kernel's language in the notebook
                discard.click()
            return not kernels_of(address, token, "closed.ipynb")

        wait_for(ended, 60, "its kernel's end")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_run_all_cells(lab: tuple[str, str, Path], name: str) -> None:
    address, token, folder = lab
    notebook = folder / f"{name}.ipynb"
    cells = nbformat.read(notebook, as_version=4).cells
    for cell in cells:  # nothing of an earlier run may pass for a result of this one
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(nbformat.from_dict({**nbformat.read(notebook, 4), "cells": cells}), notebook)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.goto(f"{address}/lab/tree/{notebook.name}?token={token}&reset")
        page.locator(".jp-NotebookPanel .jp-CodeCell").first.wait_for(timeout=60_000)
        # Before the page is connected to an idle kernel, Run All is ignored.
        wait_for(lambda: connected(address, token, notebook.name), 60, "a kernel")
        run_all(page, notebook)
        # The last tenth is empty: JupyterLab scrolls beyond the last cell.
        for shot, share in enumerate((0.0, 0.25, 0.5, 0.75, 0.9)):
            page.evaluate(
                "share => { for (const pane of document.querySelectorAll("
                "'.jp-WindowedPanel-outer')) pane.scrollTop = "
                "share * (pane.scrollHeight - pane.clientHeight) }",
                share,
            )
            page.wait_for_timeout(1500)
            page.screenshot(path=SCREENSHOTS / f"{notebook.stem}-{shot}.png")
    code = [c for c in nbformat.read(notebook, as_version=4).cells if c.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    drawn = any("image/png" in output.get("data", {}) for output in outputs)
    assert drawn == any("plt.show()" in cell.source for cell in code)
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    assert " WARN " not in text
    assert "Traceback" not in text
    shown = [output.get("data", {}).get("text/plain", "") for output in outputs]
    assert "✓ right" not in shown  # Run All solves no exercise
    assert any(line.startswith("section ") for line in shown)
    assert text.count("✓ proved\n") == sum("✓ proved" in cell.source for cell in code)
