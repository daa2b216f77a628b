"""What the book is made of, without Sphinx: glossary, folded cells, shortened paths, links."""

from __future__ import annotations

import re
from pathlib import Path

import book
import executed
import nbformat
import pytest
import terms
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[3]
GLOSSARY = terms.entries((ROOT / "book" / "glossary.md").read_text("utf-8"))
LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


def prose() -> str:
    """The texts in which a term may be used: lessons, README, pages."""
    pages = [(ROOT / name).read_text("utf-8") for name in book.PAGES]
    for path in LESSONS:
        cells = nbformat.read(path, as_version=4).cells
        pages += [cell.source for cell in cells if cell.cell_type == "markdown"]
    return "\n".join(pages)


def test_each_entry_is_short_and_has_names_of_its_own() -> None:
    names = [name for entry in GLOSSARY for name in entry.names]
    assert 60 <= len(GLOSSARY) <= 110
    assert len({name.lower() for name in names}) == len(names)
    for entry in GLOSSARY:
        sentences = re.findall(r"[.](?= |$)", entry.definition)
        assert 1 <= len(sentences) <= 4, entry


def test_each_entry_is_used_in_a_lesson_or_page() -> None:
    used = set(terms.finder(GLOSSARY).used(prose()))
    assert [entry.names[0] for entry in GLOSSARY if entry.names[0] not in used] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two file groups", ["file group"]),
        ("Copy-on-write, or copy\non write", ["COPY_ON_WRITE"] * 2),
        ("a delta commit, not a commit", ["delta commit", "commit"]),
        ("indexes, queries, CDC, cdc", ["index", "CDC"]),
        ("precommit, commitment, file-groups2", []),
        ("snapshot queries", ["snapshot query"]),
    ],
)
def test_a_name_is_found_in_its_forms(text: str, expected: list[str]) -> None:
    words = ("file group", "commit", "delta commit", "index", "CDC", "snapshot query")
    some = [terms.Entry((word,), "") for word in words]
    some.append(terms.Entry(("COPY_ON_WRITE", "copy on write"), ""))
    assert terms.finder(some).used(text) == expected


def test_the_front_page_leads_to_every_lesson() -> None:
    text = (ROOT / "book" / "index.md").read_text("utf-8")
    paths = re.findall(r"^```\{path\} ([\d ]+)$", text, re.MULTILINE)
    assert len(paths) == 3
    numbers = {number for path in paths for number in path.split()}
    assert numbers == {path.name[:2] for path in LESSONS}
    assert len([path for path in LESSONS if not path.stem.endswith("_exam")]) == 14
    assert "fourteen lessons and an exam" in text


def test_the_book_has_every_page_of_docs_and_its_front_page_lists_them() -> None:
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    assert len(pages) > 10
    assert pages <= set(book.PAGES)
    text = (ROOT / "book" / "index.md").read_text("utf-8")
    contents = "\n".join(re.findall(r"(?s)```\{toctree\}.*?```", text))
    listed = set(re.findall(r"(?m)^(?:.* <)?([\w/-]+)>?$", contents))
    assert {page.removesuffix(".md") for page in book.PAGES} | {"errors"} <= listed


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
    assert folded == ["c", "d"]
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


def test_a_lesson_says_what_ran_it() -> None:
    assert "Not run for this edition" in book.shown(notebook()).cells[1].source
    ran = notebook()
    ran.metadata[executed.VERSIONS] = executed.versions()
    line = book.shown(ran).cells[1].source
    assert re.search(
        r"Run with Python 3\.1[123]\.\d+, Spark 3\.5\.7, Hudi 1\.2\.0, Java 17\S*\.$", line
    )


def test_paths_of_this_machine_are_shortened(tmp_path: Path) -> None:
    home = tmp_path / "home"
    text = f"file://{home}/warehouse/x, {ROOT}/conf, {Path.home()}/y, /opt/z"
    shortened = executed.shortened(text, home)
    assert shortened == "file:///.../warehouse/x, /.../conf, ~/y, /opt/z"


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


@pytest.mark.parametrize("change", ["source", "tags", "cell"])
def test_a_changed_notebook_is_not_the_same(change: str) -> None:
    other = notebook()
    if change == "source":
        other.cells[0].source += "."
    elif change == "tags":
        other.cells[1].metadata.tags = []
    else:
        other.cells.pop()
    assert not executed.same(other, notebook())


def test_links_to_files_are_found() -> None:
    text = "[a](docs/tidy.md#x) ![b](/notebooks/images/timeline.png) [c](gone.md) [d](#here) [e](https://x.y)"
    found = [str(path.relative_to(ROOT)) for path in book.linked(ROOT / "README.md", text)]
    assert found == ["docs/tidy.md", "notebooks/images/timeline.png"]


def test_what_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two.html").write_text('<p id="a b"><a href="../one.html">x</a></p>')
    (tmp_path / "one.html").write_text(
        '<a href="sub/two.html#a%20b">fine</a><a href="#">fine</a>'
        '<a href="https://example.org/a?b=c#d">fine</a><img src="data:image/png;base64,aa">'
        '<a href="sub/two.html#gone">1</a><a href="three.html">2</a><a href="https://x">3</a>'
        '<script src="https://example.org/x.js"></script><a href="javascript:alert(1)">5</a>'
    )
    assert list(book.broken_links(tmp_path)) == [
        "one.html would load https://example.org/x.js from the network",
        "one.html links to https://x, which is no proper address",
        "one.html links to javascript:alert(1), which is no proper address",
        "one.html links to sub/two.html#gone, but that page has no such anchor",
        "one.html links to three.html, which does not exist",
    ]
