"""`hudilab progress` shows what is solved and what is open, and forgets it on demand."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from commands import hudilab
from nbformat.v4 import new_code_cell, new_notebook
from refusals import refused

from hudilab.errors import PathError
from hudilab_cli.progress_command import forget, table


def lesson(folder: Path, name: str, *exercises: str) -> Path:
    """A notebook with a check cell for each exercise, and with a solution."""
    folder.mkdir(exist_ok=True)
    checks = [
        new_code_cell(f"one = Exercise(7, 'count', name={text!r})\none.check(answer)")
        for text in exercises
    ]
    for cell in checks:
        cell.metadata["tags"] = ["check"]
    other = new_code_cell("Exercise(7, 'count', name='not in a check cell')")
    nbformat.write(new_notebook(cells=[other, *checks]), folder / f"{name}.ipynb")
    return folder / f"{name}.ipynb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lesson(tmp_path / "notebooks", "04_update", "winner", "late delete")
    lesson(tmp_path / "notebooks", "05_inspect", "winner")
    lesson(tmp_path / "notebooks", "_template", "not a lesson")
    return tmp_path / "notebooks"


def test_lessons_with_what_is_solved_and_what_is_open(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"update": ["winner", "renamed since"], "gone": ["one"]}))
    assert list(table(folder, file)) == [
        "lesson      solved",
        "04_update    1 of 2",
        "  open: late delete",
        "05_inspect   0 of 1",
        "all          1 of 3",
    ]


def test_a_lesson_without_an_open_exercise(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"inspect": ["winner"]}))
    assert list(table(folder, file))[2:] == ["05_inspect   1 of 1", "all          1 of 3"]


def test_an_installation_without_lessons(tmp_path: Path) -> None:
    remedy = "in a checkout of the lab: .venv/bin/hudilab progress"
    with refused(PathError, str(tmp_path / "notebooks"), remedy=remedy):
        list(table(tmp_path / "notebooks", tmp_path / "progress.json"))


def test_progress_is_forgotten_whatever_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    assert forget(file) == f"nothing to delete: {file} does not exist"
    file.write_text("{")
    assert forget(file) == f"deleted {file}"
    assert not file.exists()
    file.mkdir()
    with refused(PathError, f"cannot delete {file}", remedy=f"rm '{file}'"):
        forget(file)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    (tmp_path / "progress.json").write_text(json.dumps({"exam": []}))
    for words in ([], ["--reset"], ["--reset"]):
        assert hudilab(monkeypatch, "progress", *words) == 0
    head, *_, total, deleted, nothing = capsys.readouterr().out.splitlines()
    assert head.startswith("lesson ")
    assert total.startswith("all ")
    assert deleted == f"deleted {tmp_path / 'progress.json'}"
    assert nothing == f"nothing to delete: {tmp_path / 'progress.json'} does not exist"
