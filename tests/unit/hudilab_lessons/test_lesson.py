"""How a lesson ends: headless with everything it started, for a person with the session open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hudilab_lessons import lesson
from hudilab_lessons.lesson import Lab


@pytest.mark.parametrize("person", [False, True])
def test_a_session_stays_for_a_persons_exercises_and_ends_headless(
    person: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[Any] = []
    query = SimpleNamespace(stop=lambda: ended.append("query"))
    streams = SimpleNamespace(active=[query])
    spark: Any = SimpleNamespace(streams=streams, stop=lambda: ended.append("session"))
    servers: Any = SimpleNamespace(started=["kafka"], stop=lambda: ended.append("servers"))
    other = SimpleNamespace(close=lambda: ended.append("other"))
    monkeypatch.setattr(lesson, "has_person", lambda: person)
    Lab(spark, servers, servers=servers).close(other)
    printed = capsys.readouterr().out
    if person:
        assert ended == ["query"]
        assert printed.startswith("the session stays open for the exercises; ")
        assert "hudilab services stop NAME" in printed
    else:
        assert ended == ["query", "other", "session", "servers"]


@pytest.mark.parametrize("saving", [False, True])
def test_a_running_notebook_shows_its_section(
    saving: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = InteractiveShell.instance()
    headings = (new_markdown_cell("## Write rows\n\nText"), new_markdown_cell("## Read them"))
    code = [new_code_cell("1", id=name) for name in ("start", "write", "again", "read")]
    cells = [code[0], headings[0], *code[1:3], headings[1], code[3]]
    notebook = tmp_path / "lesson.ipynb"
    nbformat.write(new_notebook(cells=cells), notebook)
    if saving:  # JupyterLab empties the file before it writes it
        text = notebook.read_text()
        notebook.write_text("")
        monkeypatch.setattr("time.sleep", lambda _: notebook.write_text(text))
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda line: shown.append(line.data.partition(", ")[0]))
    monkeypatch.setattr(lesson, "display", lambda *_, **__: handle)
    before = list(shell.events.callbacks["pre_run_cell"])
    lesson.show_sections(notebook)
    lesson.show_sections(tmp_path / "missing.ipynb")
    (update,) = [each for each in shell.events.callbacks["pre_run_cell"] if each not in before]
    for name in ("start", "write", "again", "read", "typed by the learner"):
        update(SimpleNamespace(cell_id=name))
    shell.events.unregister("pre_run_cell", update)
    first, second = "section 1 of 2: Write rows", "section 2 of 2: Read them"
    assert shown == [first, first, second]


def test_a_file_without_a_notebook_shows_no_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = InteractiveShell.instance()
    empty = tmp_path / "lesson.ipynb"
    empty.touch()
    monkeypatch.setattr("time.sleep", lambda _: None)
    before = list(shell.events.callbacks["pre_run_cell"])
    lesson.show_sections(empty)
    assert shell.events.callbacks["pre_run_cell"] == before
