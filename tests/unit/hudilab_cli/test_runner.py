"""What a headless run keeps of a notebook, and the page that it makes of it."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from cases import read_cases
from nbformat.v4 import new_code_cell, new_notebook, new_output
from refusals import refused

from hudilab.errors import PathError
from hudilab_cli.runner import _inherited, _room_for, as_html, copy_notebook, jvm_options
from hudilab_spark.java import FAST_START

CASES = read_cases(__file__)

PROJECT = Path(__file__).resolve().parents[3]
LESSONS = sorted((PROJECT / "notebooks").glob("[0-9]*.ipynb"))
EXERCISE = re.compile(r"\bExercise\(|\.(check|accepts)\(")


def test_a_page_holds_the_pictures_of_its_lesson(tmp_path: Path) -> None:
    lesson = PROJECT / "notebooks" / "02_write_hudi_stream.ipynb"
    text = lesson.read_text("utf-8")
    linked = re.findall(r"\]\(images/(\S+?)\)", text)
    assert len(linked) >= 2
    executed = tmp_path / lesson.name  # elsewhere, as `hudilab run` leaves it
    executed.write_text(text, "utf-8")
    page = as_html(executed, lesson.parent)
    sources = re.findall(r'<img[^>]* src="(.{16})', page)
    assert sources == ["data:image/png;b"] * (len(linked) + text.count('"image/png": "'))


def test_a_page_holds_the_alternative_text_of_a_chart(tmp_path: Path) -> None:
    data, metadata = {"image/png": "aaaa"}, {"image/png": {"alt": 'Chart: 5 % of "a" < b'}}
    outputs = [
        new_output("display_data", data=data, metadata=metadata),
        new_output("display_data", data=data),
    ]
    executed = tmp_path / "99.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("plot()", outputs=outputs)]), executed)
    pictures = BeautifulSoup(as_html(executed, tmp_path), "html.parser").select("img")
    assert [picture["src"] for picture in pictures] == ["data:image/png;base64,aaaa"] * 2
    assert pictures[0]["alt"] == 'Chart: 5 % of "a" < b'


def test_only_the_exercises_are_left_out(tmp_path: Path) -> None:
    for lesson in LESSONS:
        copy_notebook(lesson, tmp_path / "short.ipynb", exercises=False)
        copy_notebook(lesson, tmp_path / "whole.ipynb", exercises=True)
        whole = nbformat.read(tmp_path / "whole.ipynb", as_version=4).cells
        short = nbformat.read(tmp_path / "short.ipynb", as_version=4).cells
        assert whole == nbformat.read(lesson, as_version=4).cells
        left_out = [cell.source for cell in whole if cell not in short]
        assert len(left_out) >= 3
        of_lesson = [cell for cell in short if "prediction" not in cell.metadata.get("tags", [])]
        assert not any(EXERCISE.search(cell.source) for cell in of_lesson), lesson.name
        predictions = [c for c in whole if "prediction" in c.metadata.get("tags", [])]
        assert all(cell in short for cell in predictions)


def test_no_cell_needs_what_an_exercise_defined(tmp_path: Path) -> None:
    for lesson in LESSONS:
        copy_notebook(lesson, tmp_path / lesson.name, exercises=False)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("values", "runtime", "fast"),
    CASES["short lives"],
)
def test_only_small_notebooks_start_java_for_a_short_life(
    values: dict[str, object], runtime: str, fast: bool
) -> None:
    assert jvm_options(values, runtime) == (FAST_START if fast else "")
    theirs = "-XX:TieredStopAtLevel=4"
    assert jvm_options(values, runtime, theirs) == (f"{FAST_START} {theirs}" if fast else theirs)


def test_the_caller_keeps_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDILAB_JAVA_OPTIONS", "-Dhers")
    monkeypatch.delenv("HUDILAB_LOG_FILE", raising=False)
    before = dict(os.environ)
    with _inherited(HUDILAB_JAVA_OPTIONS="", HUDILAB_LOG_FILE="log"):
        assert (os.environ["HUDILAB_JAVA_OPTIONS"], os.environ["HUDILAB_LOG_FILE"]) == ("", "log")
    assert dict(os.environ) == before


def test_a_disk_that_is_full_when_papermill_saves(tmp_path: Path) -> None:
    executed = tmp_path / "02.ipynb"
    with (
        refused(
            PathError,
            str(executed),
            os.strerror(errno.ENOSPC),
            remedy="HUDILAB_HOME to a folder on another disk, and run it again",
        ),
        _room_for(executed),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(FileNotFoundError), _room_for(executed):
        executed.read_text()
