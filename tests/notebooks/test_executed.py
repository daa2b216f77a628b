"""Notebooks that the book shows: kept by the gates as they ran, or run when they have changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import book
import gates
import nbformat
import pytest
from executed import VERSIONS

from hudilab.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
GOOD = Path(__file__).parents[1] / "contract" / "good.ipynb"
BAD = ROOT / "tests" / "bad"


def printed(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs)


def test_the_gates_keep_what_passed_and_nothing_else(tmp_path: Path) -> None:
    kept = [str(tmp_path) if word == "dist/executed" else word for word in gates.KEPT]
    assert kept != list(gates.KEPT)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *gates.GOLDEN, *kept]
    notebooks = [str(path) for path in (GOOD, BAD / "wrong_output.ipynb", BAD / "raises.ipynb")]
    notebooks.append(f"{BAD / 'no_count.ipynb'}::Cell 0")  # a part of a notebook
    done = subprocess.run(
        [sys.executable, *command, *notebooks],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "3 failed, 22 passed" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["good.ipynb"]
    nb = nbformat.read(tmp_path / "good.ipynb", as_version=4)
    assert sorted(nb.metadata[VERSIONS]) == ["Hudi", "Java", "Python", "Spark"]
    assert printed(tmp_path / "good.ipynb").count("\n") > printed(GOOD).count("\n")


def test_a_changed_notebook_is_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = tmp_path / "good.ipynb", tmp_path / "executed"
    shutil.copy(GOOD, path)
    for _ in range(2):
        book.run_stale([path], folder)
    line = "book: 1/1 good.ipynb has no results of its present cells; running ...\n"
    assert capsys.readouterr().out == line
    nb = nbformat.read(path, as_version=4)
    nb.cells[6].source += "\nprint('more')"
    nbformat.write(nb, path)
    book.run_stale([path], folder)
    assert capsys.readouterr().out == line
    assert "more\n" in printed(folder / "good.ipynb")
    shutil.copy(BAD / "raises.ipynb", path)
    with pytest.raises(LabError) as caught:
        book.run_stale([path], folder)
    assert str(caught.value) == "good.ipynb failed: ValueError: this cell fails; fix the notebook"
    assert "more\n" in printed(folder / "good.ipynb")
