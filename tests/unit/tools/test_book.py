"""What the book is made of, without Sphinx: pages, folded cells, shortened paths, links."""

from __future__ import annotations

import re
from pathlib import Path

import book
import executed
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[3]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


def test_the_front_page_leads_to_every_lesson() -> None:
    text = (ROOT / "book" / "index.md").read_text("utf-8")
    listed = re.findall(r"(?m)^- \[\]\(/notebooks/(\w+\.ipynb)\)$", text)
    assert set(listed) == {path.name for path in LESSONS}


def test_the_book_has_every_page_of_docs_and_its_front_page_lists_them() -> None:
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    assert len(pages) > 10
    assert pages <= set(book.PAGES)
    text = (ROOT / "book" / "index.md").read_text("utf-8")
    contents = "\n".join(re.findall(r"(?s)```\{toctree\}.*?```", text))
    listed = set(re.findall(r"(?m)^(?:.* <)?([\w/-]+)>?$", contents))
    assert {page.removesuffix(".md") for page in book.PAGES} | {
        "lib/README",
        "packages/README",
    } <= listed


def notebook() -> nbformat.NotebookNode:
    cells = [
        new_markdown_cell("# 99 Title", id="a"),
        new_code_cell("1", id="b", metadata={"tags": ["check"]}),
        new_code_cell("2", id="c", metadata={"tags": ["solution", "keep_output"]}),
        new_code_cell("3", id="d", metadata={"tags": ["cleanup"]}),
    ]
    nb: NotebookNode = new_notebook(cells=cells)
    return nb


def test_solutions_are_folded() -> None:
    shown = book.shown(notebook())
    folded = [cell.id for cell in shown.cells if "hide-cell" in cell.metadata.get("tags", [])]
    assert folded == ["b", "c", "d"]
    assert shown.cells[3].metadata.mystnb.code_prompt_show == "Show the solution"
    nbformat.validate(shown)


def test_progress_bars_and_addresses_are_no_results() -> None:
    nb = notebook()
    nb.cells[1].outputs = [
        new_output("stream", name="stderr", text="stream: 100%|##| 5/5"),
        new_output("execute_result", data={"text/plain": "<a.b.Query at 0x7f58a8d8390>"}),
        new_output("execute_result", data={"text/plain": "<Figure>", "image/png": "aaaa"}),
        new_output("stream", name="stdout", text="<Query at 0x7f> is printed"),
    ]
    kept = book.shown(nb).cells[2].outputs
    assert [output.output_type for output in kept] == ["execute_result", "stream"]
    assert kept[1].name == "stdout"


def test_a_saved_notebook_has_its_outputs_and_no_path(tmp_path: Path) -> None:
    nb = notebook()
    nb.cells[1].outputs = [
        new_output("stream", text=f"at {tmp_path}/table"),
        new_output("display_data", data={"text/html": f"<b>{tmp_path}</b>", "image/png": "aaaa"}),
    ]
    target = tmp_path / "out" / "99.ipynb"
    executed.save(nb, target, tmp_path)
    saved = nbformat.read(target, as_version=4)
    assert saved.cells[1].outputs[0].text == "at /.../table"
    assert saved.cells[1].outputs[1].data == {"text/html": "<b>/...</b>", "image/png": "aaaa"}
    assert executed.same(saved, notebook())
    assert list(target.parent.iterdir()) == [target]
