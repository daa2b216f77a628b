"""`hudilab run` refuses bad arguments in one line; nothing is written, no kernel is started."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from cases import read_cases
from commands import hudilab, small_notebook, watching
from refusals import assert_refusal
from typer.main import get_command

from hudilab import errors
from hudilab_cli.cli import app, join_pairs
from hudilab_cli.lab_command import open_lab

CASES = read_cases(__file__)


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_notebook(tmp_path, monkeypatch)


@pytest.mark.parametrize(("arguments", "message"), CASES["bad parameters"])
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


def test_the_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert hudilab(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"hudilab {metadata.version('hudilab')}\n"


def test_tab_completes_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_HUDILAB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "hudilab se")
    monkeypatch.setenv("COMP_CWORD", "1")
    hudilab(monkeypatch)
    assert capsys.readouterr().out == "services\n"


def test_the_lab_is_opened_from_a_checkout(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    assert hudilab(monkeypatch, "lab", "--no-browser", "--port=8890") == 0
    program = Path(__file__).resolve().parents[3] / "tools" / "lab.py"
    assert started == [[sys.executable, str(program), "--no-browser", "--port=8890"]]
    with pytest.raises(errors.ConfigError) as caught:
        open_lab(sample.parent, ())
    remedy = "export HUDILAB_CONF=/path/to/checkout/conf"
    assert_refusal(str(caught.value), f"{sample.parent} is no checkout", remedy=remedy)


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
    CASES["folders"],
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


@pytest.mark.parametrize(("arguments", "joined"), CASES["pairs"])
def test_pairs_are_joined(arguments: list[str], joined: list[str]) -> None:
    assert join_pairs(arguments) == joined


def test_remedies_type_each_command_as_it_must_be_typed() -> None:
    names = get_command(app).commands  # type: ignore[attr-defined]
    assert {"load", "stream"} <= names.keys()
    for name in names:
        assert errors._COMMAND.sub("here ", f"run: hudilab {name} x") == f"run: here {name} x"


def test_the_set_up_ends_with_what_this_shell_lacks(tmp_path: Path) -> None:
    line = "ulimit -Sn 256; ulimit -Hn 256; exec hudilab jars core --no-archive"
    env = os.environ | {"HUDILAB_HOME": str(tmp_path)}
    env["PATH"] = os.pathsep.join((f"{sys.prefix}/bin", env["PATH"]))
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, check=True)
    assert "verified " in done.stdout
    assert done.stderr.startswith("hudilab: this shell allows a process 256 open files")
    assert done.stderr.endswith("check with: ulimit -Hn\n")
