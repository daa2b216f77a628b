"""What runs notebooks fails on the samples that must fail: `hudilab run`, and the golden cells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gates
import pytest

ROOT = Path(__file__).resolve().parents[2]
BAD = ROOT / "tests" / "bad"
GOOD = ROOT / "tests" / "contract" / "good.ipynb"


def hudilab(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    start = "from hudilab_cli.cli import main; main()"
    command = [sys.executable, "-c", start, "run", *arguments, "--out", str(home / "out")]
    env = os.environ | {"HUDILAB_HOME": str(home / "home"), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    return subprocess.run(
        command, env=env, cwd=home, capture_output=True, text=True, timeout=120, check=False
    )


def golden_gate(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *gates.PYTEST, "-p", "no:cacheprovider", *gates.GOLDEN, str(path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.deep
def test_run_of_a_notebook_that_raises(tmp_path: Path) -> None:
    done = hudilab(tmp_path, str(BAD / "raises.ipynb"))
    assert done.returncode == 1
    [log] = re.findall(r"raises.ipynb: log (\S+)", done.stdout)
    executed = tmp_path / "out" / "raises.ipynb"
    assert done.stderr.splitlines()[-1] == (
        "hudilab: raises.ipynb: cell 4 failed at 'raise ValueError(\"this cell fails\")': "
        f"ValueError: this cell fails; see the log {log} and the executed notebook {executed}"
    )
    assert "Traceback" not in done.stderr
    assert "this cell fails" in executed.read_text()
    assert "this cell fails" in executed.with_suffix(".html").read_text()


def test_run_of_a_notebook_whose_kernel_dies(tmp_path: Path) -> None:
    done = hudilab(tmp_path, str(BAD / "dies.ipynb"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "hudilab: dies.ipynb: the kernel was killed; free memory, or use fewer rows; see the log "
    )
    assert "Traceback (most" not in done.stderr
    assert (tmp_path / "out" / "dies.ipynb").is_file()


@pytest.mark.deep
def test_run_of_a_notebook_with_two_parameters_cells(tmp_path: Path) -> None:
    done = hudilab(tmp_path, str(BAD / "two_parameters.ipynb"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "hudilab: two_parameters.ipynb has 2 cells tagged parameters; tag exactly one\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_golden_cells_with_another_output() -> None:
    done = golden_gate(BAD / "wrong_output.ipynb")
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "sum 8" in done.stdout
    passed = golden_gate(GOOD)
    assert passed.returncode == 0, passed.stdout
    assert "8 passed" in passed.stdout


@pytest.mark.deep
def test_stripped_golden_cells_are_not_compared() -> None:
    """Why the contract asks for output and count: nbval is green where both are gone."""
    assert golden_gate(BAD / "no_count.ipynb").returncode == 0
