"""The page, also in a notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from unit.handmade import HandMade
from unit.hudi_inspect.tables import A, look

from hudi_inspect.html import DETAILED


def test_a_notebook_shows_the_page_and_nothing_beside_it(table: HandMade) -> None:
    source = f"from hudi_inspect import inspect\ninspect({str(table.root)!r})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    (output,) = notebook.cells[0].outputs
    assert sorted(output.data) == ["text/html", "text/plain"]
    assert output.data["text/html"].startswith("<iframe srcdoc=")
    assert output.data["text/plain"].startswith("table ")


def test_the_page_needs_no_network_and_no_text_breaks_it(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "</script><b>{{data}}")
    table.commit(10, 12, {A: 5}, extra={"note": "</script><script>alert(1)</script><!-- {{name}}"})
    page = look(table).to_html()
    assert page.count("<script") == page.count("</script>") == 2
    assert not re.search(
        r"""(?:src|href)=|url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)""", page
    )
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    events = json.loads(data[1])["instants"]
    assert events[0]["m"]["note"] == "</script><script>alert(1)</script><!-- {{name}}"
    assert look(table)._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_of_many_instants_the_newest_have_their_files(table: HandMade) -> None:
    content = {"partitionToWriteStats": {"p": [{"path": "p/a"}]}}
    for i in range(DETAILED + 5):
        table.instant(i, i + 1, "commit", json.dumps(content).encode(), inflight=False)
    page = look(table).to_html()
    assert page.count('"x":[["p/a",0,0,0,0]]') == DETAILED
    assert page.count('"n":1') == DETAILED + 5
