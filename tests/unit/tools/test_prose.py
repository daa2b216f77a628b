"""The words of pages and lessons: what Vale reads of a notebook, and what it finds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import prose
import pytest

NOTEBOOKS = sorted((prose.ROOT / "notebooks").glob("*.ipynb"))
needs_vale = pytest.mark.skipif(not shutil.which("vale"), reason=prose.MISSING)


def test_a_line_of_a_lesson_keeps_its_number(tmp_path: Path) -> None:
    made = prose.extract(tmp_path)
    assert len(made) == len(NOTEBOOKS) > 12
    for notebook, page in zip(NOTEBOOKS, made, strict=True):
        text = notebook.read_text("utf-8")
        cells = nbformat.reads(text, as_version=4).cells
        wanted = [
            line
            for cell in cells
            if cell.cell_type == "markdown"
            for line in cell.source.split("\n")
        ]
        got = page.read_text("utf-8").split("\n")
        assert [line for line in got if line] == [line for line in wanted if line]
        for written, line in zip(text.split("\n"), got, strict=True):
            assert not line or json.dumps(line, ensure_ascii=False)[1:-1] in written


@needs_vale
def test_vale_finds_a_wrong_word(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nThe tabel has rows.\n", "utf-8")
    assert [problem.split(":")[3] for problem in prose.check([page])] == ["Vale.Spelling"]


@needs_vale
def test_the_words_are_good() -> None:
    assert prose.main() == 0


def test_without_vale_the_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert prose.main() == 1
    assert capsys.readouterr().err == f"prose: {prose.MISSING}\n"
