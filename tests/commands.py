"""The command `hudilab` in the tests' own process, a notebook for it, and what it starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from hudilab_cli import cli

PARAMETERS = 'rows = 5\nbatches = 2\nsensors = 1\nseed = 42\ntrigger_seconds = 0.0\nrun_id = ""'
started: list[str] | None = None


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if started is not None and event == "subprocess.Popen":
        started.append(str(arguments[1]))


sys.addaudithook(_watch)


@contextmanager
def watching() -> Iterator[list[str]]:
    """The commands of all processes that are started in the block."""
    global started
    results: list[str] = []
    started = results
    try:
        yield results
    finally:
        started = None


def small_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small notebook to run; HUDILAB_HOME is a directory that is empty."""
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path / "home"))
    cells = [
        new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        new_code_cell('print("rows", rows, run_id)', metadata={"tags": ["result"]}),
    ]
    nbformat.write(new_notebook(cells=cells), tmp_path / "nb.ipynb")
    return tmp_path / "nb.ipynb"


def hudilab(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hudilab", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)
