"""`make golden` on a small notebook: what stays, what goes, what it refuses to keep."""

from __future__ import annotations

import shutil
from pathlib import Path

import golden
import nbformat
import pytest
from contract import checks

GOOD = Path(__file__).parents[1] / "contract" / "good.ipynb"
SESSION, FACT, CLEANUP = 4, 6, 12


def sample(folder: Path, session: str = "", fact: str = "") -> Path:
    path = folder / "sample.ipynb"
    shutil.copy(GOOD, path)
    nb = nbformat.read(path, as_version=4)
    nb.cells[SESSION].source += session
    nb.cells[FACT].source += fact
    nbformat.write(nb, path)
    return path


def test_the_second_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUDILAB_HOME", "/users/own/home")
    monkeypatch.setenv("RUNTIME_ENV", "AWS")
    check = "import os\n\nfresh = os.environ['HUDILAB_HOME']\nprint('home', os.listdir(fresh))"
    check += (
        "\nassert fresh == os.getcwd() != '/users/own/home' and 'RUNTIME_ENV' not in os.environ"
    )
    path = sample(tmp_path, session=f"\n{check}", fact="\nprint('more')")
    nb = nbformat.read(path, as_version=4)
    nb.metadata["papermill"] = {"start_time": "2026"}
    nb.cells[FACT].metadata["execution"] = {"iopub.execute_input": "2026"}
    nb.cells[FACT].update(outputs=[], execution_count=77)
    nbformat.write(nb, path)
    assert golden.main([str(path)]) == 0
    once = path.read_bytes()
    assert golden.main([str(path)]) == 0
    assert capsys.readouterr().out == "sample.ipynb: rewritten\nsample.ipynb: unchanged\n"
    assert path.read_bytes() == once
    nb = checks.read(path)
    assert nb.cells[FACT].outputs[0].text == "sum 7\nmore\n"
    assert nb.cells[FACT].execution_count == 4
    assert nb.cells[SESSION].outputs == nb.cells[CLEANUP].outputs == []
    assert [cell.id for cell in nb.cells] == [f"cell-{number}" for number in range(13)]
    assert list(checks.RULES["metadata"](path, nb)) == []


CELL = "cell 'print(\"sum\", rows + batches)'"
FACTS = "print only facts that are the same in every run"


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        ("print('WARN this')", f"{CELL} keeps a warning; {FACTS}"),
        ("print(2026_01_02_03_04_05_678)", f"{CELL} keeps an instant; {FACTS}"),
        ("print('/var/lib/x')", f"{CELL} keeps an absolute path; {FACTS}"),
        (
            "import sys; print('x', file=sys.stderr)",
            f"{CELL} keeps an error, or lines of stderr; {FACTS}",
        ),
        ("assert rows == 6, 'not six'", "AssertionError: not six; fix the notebook"),
    ],
)
def test_a_notebook_that_is_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fact: str, error: str
) -> None:
    path = sample(tmp_path, fact=f"\n{fact}")
    before = path.read_bytes()
    assert golden.main([str(path)]) == 1
    assert capsys.readouterr().err == f"golden: sample.ipynb was not rewritten: {error}\n"
    assert path.read_bytes() == before


def test_an_unknown_notebook_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.main(["09_none"]) == 1
    assert capsys.readouterr().err.startswith(
        "golden: notebook '09_none' does not exist; give a path, or one"
    )
