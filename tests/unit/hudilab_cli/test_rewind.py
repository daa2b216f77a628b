"""`hudilab rewind` refuses bad arguments in one line, before a session is opened."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hudilab_cli import cli
from hudilab_cli.rewind_command import command


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("table", "checkpoints", "text"),
    [
        (
            "ftp://host/t",
            [],
            "'ftp://host/t' is not the location of a table; give a path, or a file:// or s3:// "
            "URI: hudilab rewind TABLE",
        ),
        (
            "s3://bucket/w/lab/t",
            [],
            "s3a://bucket/w/lab/t is on S3, but IS_LOCAL is true; use the settings of that "
            "warehouse: IS_LOCAL=false hudilab rewind s3a://bucket/w/lab/t",
        ),
        (
            "t",
            ["ftp://host/c"],
            "--checkpoint 'ftp://host/c' is not the location of a checkpoint; give a path, or a "
            "file:// or s3:// URI: hudilab rewind TABLE --to INSTANT --checkpoint URI",
        ),
    ],
)
def test_a_bad_argument(
    table: str, checkpoints: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(table, to="20260101000000000", checkpoint=checkpoints)
    assert capsys.readouterr().err == f"hudilab: {text}\n"


def test_it_needs_an_instant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hudilab", "rewind", "t"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert "Missing option '--to'" in capsys.readouterr().err
