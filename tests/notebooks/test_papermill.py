"""A lesson under plain papermill, as schedulers run it: `start` checks its parameters."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from running import run_program

PARAMETERS = 'rows = 5\nrun_id = ""\nruntime = ""'
IMPORTS = "import matplotlib.pyplot as plt\n\nfrom hudilab_lessons import start"
START = 'lab = start("99_papermill", runtime, run_id, rows=rows)'
DRAW = "plt.plot([1, 2])\nplt.show()"


def papermill(tmp_path: Path, *arguments: str, **env: str) -> tuple[str, NotebookNode]:
    """What papermill reports, and the executed notebook."""
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    cells += [new_code_cell(source) for source in (IMPORTS, START, DRAW)]
    nbformat.write(new_notebook(cells=cells), tmp_path / "nb.ipynb")
    command = [sys.executable, "-m", "papermill", "nb.ipynb", "out.ipynb", "-k", "python3"]
    clean = {"HUDILAB_HOME": str(tmp_path), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    words = (*command, "--language", "python", *arguments)
    done = run_program(*words, env=clean | env, cwd=tmp_path)
    return done.stderr, nbformat.read(tmp_path / "out.ipynb", as_version=4)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("-p", "rowz", "7"), "ParameterError: unknown parameter rowz; "),
        (("-p", "run_id", "1.5"), "ParameterError: run_id=1.5 is not text; "),
        (("-p", "rows", "many"), "ParameterError: rows='many' is not a whole number; "),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_starts(
    tmp_path: Path, given: tuple[str, ...], error: str
) -> None:
    assert error in papermill(tmp_path, *given)[0]
    assert {file.name for file in tmp_path.iterdir()} == {"nb.ipynb", "out.ipynb"}


def test_a_number_is_a_run_id_and_pictures_are_shown(tmp_path: Path) -> None:
    errors, executed = papermill(tmp_path, "-p", "run_id", "20261127", MPLBACKEND="TkAgg")
    started, drawn = executed.cells[-2:]
    assert started.outputs, errors[-2000:]
    assert f"tables  file://{tmp_path}/warehouse/run-20261127/lessons; " in started.outputs[0].text
    assert any("image/png" in output.get("data", {}) for output in drawn.outputs)
