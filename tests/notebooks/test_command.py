"""`hudilab run` with a kernel: from any directory, cut off, beside another run, and its Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from commands import hudilab, small_notebook, watching
from nbformat.v4 import new_code_cell, new_notebook
from running import HUDILAB, run_program

from hudilab_cli import cli
from hudilab_cli.runner import run_notebooks
from hudilab_jobs.settings import load_settings
from hudilab_spark.java import FAST_START
from hudilab_spark.waiting import wait_for

SLOW = ("from pathlib import Path", "Path('begun').touch()", "__import__('time').sleep(600)")


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_notebook(tmp_path, monkeypatch)


def test_good_parameters_start_a_kernel_from_any_directory(sample: Path) -> None:
    """The other side of tests/unit/hudilab_cli/test_cli.py: a bad parameter is what stops a run."""
    elsewhere = sample.parent / "elsewhere"
    elsewhere.mkdir()
    given = ("-p", "rows", "7", "-p", "run_id=a.b", "--parameter", "batches", "7")
    done = run_program(HUDILAB, "run", "../nb.ipynb", *given, env={}, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "rows 7 a.b"
    home = sample.parent / "home"
    assert sorted(path.name for path in (home / "executed").iterdir()) == ["nb.html", "nb.ipynb"]
    assert list(elsewhere.iterdir()) == []


def test_a_run_is_seen_by_the_watch(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watching() as processes:
        monkeypatch.setattr(sys, "argv", ["hudilab", "run", str(sample)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
    assert not caught.value.code
    assert any("kernel.py" in command for command in processes)


def run_slow(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """A notebook whose second cell says that it runs, by a file, and takes ten minutes."""
    cells = [
        new_code_cell("rows = 5", metadata={"tags": ["parameters"]}),
        new_code_cell("\n".join(("", *SLOW))),
        new_code_cell("print('never')"),
    ]
    nbformat.write(new_notebook(cells=cells), home / "slow.ipynb")
    return subprocess.Popen(
        [str(HUDILAB), "run", "slow.ipynb", *arguments],
        cwd=home,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.deep
def test_a_cell_that_takes_too_long(sample: Path) -> None:
    home = sample.parent
    slow = run_slow(home, "--timeout", "2")
    _, error = slow.communicate(timeout=120)
    assert slow.returncode == 1
    assert "Traceback" not in error
    last = error.splitlines()[-1]
    assert last.startswith(
        f"hudilab: slow.ipynb: cell 1 did not finish within 2 s: {SLOW[0]!r}; "
        f"raise the limit with --timeout SECONDS (0: no limit); see the log {home}/home/logs/"
    )
    assert last.endswith(f" and the executed notebook {home}/home/executed/slow.ipynb")
    assert (home / "home" / "executed" / "slow.html").exists()


def test_two_runs_do_not_write_one_executed_notebook(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = sample.parent
    slow = run_slow(home, "--timeout", "60")
    try:
        wait_for(lambda: (home / "begun").exists(), 60, "the first run")
        assert hudilab(monkeypatch, "run", str(home / "slow.ipynb")) == 1
        assert capsys.readouterr().err == (
            f"hudilab: another run is writing {home}/home/executed/slow.ipynb; "
            "wait for it, or choose another --out\n"
        )
        assert slow.poll() is None
        out = str(home / "out")
        assert hudilab(monkeypatch, "run", str(sample), "--out", out) == 0
    finally:
        slow.terminate()
        slow.communicate(timeout=60)


@pytest.mark.parametrize(("given", "fast"), [([], True), ([("rows", "200001")], False)])
def test_each_kernel_gets_its_options_and_the_next_one_gets_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[tuple[str, str]], fast: bool
) -> None:
    monkeypatch.setenv("HUDILAB_JAVA_OPTIONS", "-Dmine=1")
    monkeypatch.delenv("RUNTIME_ENV", raising=False)
    monkeypatch.setenv("HUDILAB_LOG_FILE", "restored at the end")
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    show = 'import os; print(os.environ["HUDILAB_JAVA_OPTIONS"])'
    cells = [
        nbformat.v4.new_code_cell("rows = 200_000", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(show, metadata={"tags": ["result"]}),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "shown.ipynb")
    shown = run_notebooks([str(tmp_path / "shown.ipynb")], given, load_settings(), None)
    assert shown == [f"{FAST_START} -Dmine=1" if fast else "-Dmine=1"]
    assert os.environ["HUDILAB_JAVA_OPTIONS"] == "-Dmine=1"
