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


def test_all_pages_are_found() -> None:
    names = {page.name for page in prose.pages()}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "glossary.md", "silent.md"} <= names
    assert len(names) >= 20


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


BAD = {
    "Vale.Spelling": "The tabel has rows.",
    "Vale.Terms": "Hudi runs on apache Flink, and flink is fast.",
    "Vale.Repetition": "Read the the table.",
    "Microsoft.Wordiness": "Do this in order to read the table.",
    "Microsoft.We": "Now we read the table.",
    "Microsoft.Adverbs": "It is very fast.",
    "Microsoft.SentenceLength": " ".join(
        ["This sentence has words and", *["more and"] * 14, "more."]
    ),
}


@needs_vale
@pytest.mark.parametrize("rule", BAD)
def test_vale_finds(rule: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{BAD[rule]}\n", "utf-8")
    assert [problem.split(":")[3] for problem in prose.check([page])] == [rule]


@needs_vale
def test_the_words_are_good() -> None:
    assert prose.main() == 0


def test_without_vale_the_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert prose.main() == 1
    assert capsys.readouterr().err == f"prose: {prose.MISSING}\n"
