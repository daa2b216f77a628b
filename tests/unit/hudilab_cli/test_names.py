"""Commands on a table find it by its pipeline's name, before a session is opened."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import hudilab
from unit.handmade import HandMade
from unit.hudilab.settings_files import group, write
from unit.hudilab_jobs.test_pipelines import GROUP

from hudilab import settings

A = "aaaaaaaa-0000-0000-0000-000000000000-0"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path / "conf", [group(), group("pipeline.own", GROUP)])
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    monkeypatch.setenv("HUDILAB_CONF", str(tmp_path / "conf"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_inspect(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, rows in (("lab", 7), ("run-a/lab", 8)):
        HandMade(home / "warehouse" / place / "flights").commit(10, 15, {A: rows})
    HandMade(home / "mine").commit(10, 15, {A: 9})
    for words, rows in (
        (["own"], 7),
        (["--run-id", "a", "own"], 8),
        (["mine"], 9),
        (["./mine"], 9),
    ):
        assert hudilab(monkeypatch, "inspect", "--json", *words) == 0
        assert json.loads(capsys.readouterr().out)["table"]["rows"] == rows


def test_inspect_finds_a_pipelines_quarantine(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    HandMade(home / "warehouse" / "lab" / "flights_quarantine").commit(10, 15, {A: 3})
    HandMade(home / "warehouse" / "run-a" / "lab" / "flights_quarantine").commit(10, 15, {A: 4})
    for words, rows in ((["own_quarantine"], 3), (["own_quarantine", "--run-id", "a"], 4)):
        assert hudilab(monkeypatch, "inspect", "--json", *words) == 0
        assert json.loads(capsys.readouterr().out)["table"]["rows"] == rows
    # A quarantine that is set back without its stream would lack rows.
    assert hudilab(monkeypatch, "rewind", "--to", "a", "own_quarantine") == 1
    assert "there is no pipeline 'own_quarantine'" in capsys.readouterr().err


def test_inspect_without_a_checkout_finds_folders_only(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(settings, "__file__", str(home / "lib/hudilab/settings.py"))
    monkeypatch.delenv("HUDILAB_CONF")
    assert hudilab(monkeypatch, "inspect", "own") == 1
    assert capsys.readouterr().err == (
        f"hudilab: {home}/own does not exist; give the table's folder: hudilab inspect TABLE\n"
    )
    assert hudilab(monkeypatch, "inspect", "own", "--run-id", "a") == 1
    assert "hudilab is installed without its checkout" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "tidy", "savepoint", "rewind --to 20260101000000"])
def test_a_name_of_nothing(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.setitem(sys.modules, "hudilab_spark.session", None)  # no session is opened
    assert hudilab(monkeypatch, *command.split(), "other") == 1
    assert capsys.readouterr().err == (
        f"hudilab: there is no pipeline 'other' and no folder {home}/other (pipelines: own); name "
        f"a pipeline or a table's folder: hudilab {command.split()[0]} TABLE\n"
    )


def test_a_savepoint_is_made_listed_or_deleted(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hudilab(monkeypatch, "savepoint", "own", "--name", "a", "--list") == 1
    assert capsys.readouterr().err == (
        "hudilab: --name, --list and --delete exclude each other; give one of them: hudilab "
        "savepoint TABLE --list\n"
    )
