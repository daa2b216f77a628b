"""What a headless run keeps of a notebook, and the page that it makes of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat

from hudilab.operations.runner import as_html, copy_notebook

PROJECT = Path(__file__).resolve().parents[2]
LESSONS = sorted((PROJECT / "notebooks").glob("[0-9]*.ipynb"))
EXERCISE = re.compile(r"\bExercise\(|\.check\(")


def test_a_page_holds_the_diagrams_of_its_lesson() -> None:
    lesson = PROJECT / "notebooks" / "02_write_hudi_stream.ipynb"
    linked = set(re.findall(r"\]\(\.\./docs/diagrams/(\S+?)\)", lesson.read_text("utf-8")))
    assert len(linked) >= 2
    page = as_html(lesson, PROJECT)
    assert page.count('src="data:image/svg+xml;base64,') == len(linked)
    assert "docs/diagrams/" not in page


def test_only_the_exercises_are_left_out(tmp_path: Path) -> None:
    for lesson in LESSONS:
        copy_notebook(lesson, tmp_path / "short.ipynb", exercises=False)
        copy_notebook(lesson, tmp_path / "whole.ipynb", exercises=True)
        whole = nbformat.read(tmp_path / "whole.ipynb", as_version=4).cells
        short = nbformat.read(tmp_path / "short.ipynb", as_version=4).cells
        assert whole == nbformat.read(lesson, as_version=4).cells
        left_out = [cell.source for cell in whole if cell not in short]
        assert len(left_out) >= 9
        assert not any(EXERCISE.search(cell.source) for cell in short), lesson.name


def test_no_cell_needs_what_an_exercise_defined(tmp_path: Path) -> None:
    for lesson in LESSONS:
        copy_notebook(lesson, tmp_path / lesson.name, exercises=False)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
