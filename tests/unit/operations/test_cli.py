"""`hudilab run` refuses bad arguments in one line; nothing is written, no kernel is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from hudilab.operations import cli
from hudilab.operations.cli import join_pairs
from hudilab.waiting import wait_for

PARAMETERS = 'rows = 5\nbatches = 2\nsensors = 1\nseed = 42\ntrigger_seconds = 0.0\nrun_id = ""'
THERE = "available parameters: batches, rows, run_id, seed, sensors, trigger_seconds"
REMEDY = "change it in the parameters cell or with -p NAME VALUE"
started: list[str] | None = None


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if started is not None and event == "subprocess.Popen":
        started.append(str(arguments[1]))


sys.addaudithook(_watch)


@contextmanager
def watching() -> Iterator[list[str]]:
    """The commands of all processes that are started in the block."""
    global started
    found: list[str] = []
    started = found
    try:
        yield found
    finally:
        started = None


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "row", "5"], f"nb.ipynb: unknown parameter 'row'; {THERE}"),
        (["-p", "rows", "ten"], f"nb.ipynb: rows='ten' is not a whole number; {THERE}"),
        (["-p", "rows"], f"nb.ipynb: rows='' is not a whole number; {THERE}"),
        (["-p"], f"nb.ipynb: unknown parameter ''; {THERE}"),
        (["-p", "rows", "5", "-p", "rows=6"], f"nb.ipynb: rows is given twice; {THERE}"),
        (["-p", "rows", "-1"], f"rows=-1 is less than 1; {REMEDY}"),
        (["-p", "rows", "0"], f"rows=0 is less than 1; {REMEDY}"),
        (["-p", "sensors", "0"], f"sensors=0 is less than 1; {REMEDY}"),
        (
            ["-p", "batches", "6"],
            f"batches=6 is more than rows=5, so some batches would be empty; {REMEDY}",
        ),
        (
            ["--parameter", "rows", "1"],
            f"batches=2 is more than rows=1, so some batches would be empty; {REMEDY}",
        ),
        (
            ["-p", "trigger_seconds", "-1"],
            f"trigger_seconds=-1.0 is not 0 or a positive number; {REMEDY}",
        ),
        (
            ["-p", "rows", "x", "-p", "seed", "y", "-p", "z", "1"],
            "nb.ipynb: rows='x' is not a whole number; seed='y' is not a whole number; "
            f"unknown parameter 'z'; {THERE}",
        ),
    ],
)
def test_a_bad_parameter(
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    before = sample.read_bytes()
    with watching() as processes:
        out = str(sample.parent / "home" / "out")
        code = hudilab(monkeypatch, "run", "--out", out, str(sample), *arguments)
    shown = capsys.readouterr()
    assert (code, shown.out, shown.err) == (1, "", f"hudilab: {message}\n")
    assert processes == []
    assert list((sample.parent / "home").iterdir()) == []
    assert sample.read_bytes() == before


def test_an_unknown_notebook(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with watching() as processes:
        code = hudilab(monkeypatch, "run", str(sample), "09_none")
    error = capsys.readouterr().err
    assert code == 1
    assert error.startswith(
        "hudilab: notebook '09_none' does not exist; give a path, or one of: 00"
    )
    assert error.count("\n") == 1
    assert "02_write_hudi_stream, 03_inspect_table" in error
    assert processes == []
    assert list((sample.parent / "home").iterdir()) == []


def test_a_setting_that_is_wrong_is_one_line_too(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IS_LOCAL", "flase")
    assert hudilab(monkeypatch, "run", str(sample)) == 1
    assert capsys.readouterr().err == (
        "hudilab: IS_LOCAL='flase' is not a boolean; set it to true or false, or unset it\n"
    )
    assert list((sample.parent / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (
            ".",
            "--out {parent} would overwrite the notebook; choose another folder",
        ),
        (
            "nb.ipynb/x",
            "cannot create {parent}/nb.ipynb/x: Not a directory; "
            "choose another --out or HUDILAB_HOME",
        ),
    ],
)
def test_a_folder_that_cannot_take_the_result(
    sample: Path,
    out: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sample.read_bytes()
    folder = sample.parent / out
    assert hudilab(monkeypatch, "run", str(sample), "--out", str(folder)) == 1
    assert capsys.readouterr().err == f"hudilab: {text.format(parent=sample.parent)}\n"
    assert sample.read_bytes() == before
    assert list((sample.parent / "home").iterdir()) == []


def test_good_parameters_start_a_kernel_from_any_directory(sample: Path) -> None:
    """The other side of the tests above: it is the bad parameter that stopped them."""
    elsewhere = sample.parent / "elsewhere"
    elsewhere.mkdir()
    command = [str(Path(sys.executable).with_name("hudilab")), "run", "../nb.ipynb"]
    done = subprocess.run(
        [*command, "-p", "rows", "7", "-p", "run_id=a=b", "--parameter", "batches", "7"],
        cwd=elsewhere,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "rows 7 a=b"
    home = sample.parent / "home"
    assert sorted(path.name for path in (home / "executed").iterdir()) == ["nb.html", "nb.ipynb"]
    assert list(elsewhere.iterdir()) == []


def test_a_run_is_seen_by_the_watch(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watching() as processes:
        monkeypatch.setattr(sys, "argv", ["hudilab", "run", str(sample)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
    assert not caught.value.code
    assert any("ipykernel" in command for command in processes)


@pytest.mark.parametrize(
    ("arguments", "joined"),
    [
        ([], []),
        (["run", "nb"], ["run", "nb"]),
        (["-p", "rows", "5"], ["-p", "rows=5"]),
        (["-p", "rows", "-1", "nb"], ["-p", "rows=-1", "nb"]),
        (["-p", "rows=5", "nb"], ["-p", "rows=5", "nb"]),
        (["-p", "run_id", "a=b"], ["-p", "run_id=a=b"]),
        (["--parameter", "a", "1", "-p", "b", "-p"], ["--parameter", "a=1", "-p", "b=-p"]),
        (["-p", "rows"], ["-p", "rows="]),
        (["-p"], ["-p", "="]),
        (["--parameter=rows=5"], ["--parameter=rows=5"]),
    ],
)
def test_pairs_are_joined(arguments: list[str], joined: list[str]) -> None:
    assert join_pairs(arguments) == joined


SLOW = ("from pathlib import Path", "Path('begun').touch()", "__import__('time').sleep(600)")


def run_slow(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """A notebook whose second cell says that it runs, by a file, and takes ten minutes."""
    cells = [
        new_code_cell("rows = 5", metadata={"tags": ["parameters"]}),
        new_code_cell("\n".join(("", *SLOW))),
        new_code_cell("print('never')"),
    ]
    nbformat.write(new_notebook(cells=cells), home / "slow.ipynb")
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("hudilab")), "run", "slow.ipynb", *arguments],
        cwd=home,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


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
