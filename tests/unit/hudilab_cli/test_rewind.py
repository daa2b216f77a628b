"""`hudilab rewind` refuses bad arguments in one line, before a session is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import read_cases

from hudilab_cli.rewind_command import command

CASES = read_cases(__file__)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("table", "checkpoints", "text"),
    CASES["bad arguments"],
)
def test_a_bad_argument(
    table: str, checkpoints: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(table, to="20260101000000000", checkpoint=checkpoints)
    assert capsys.readouterr().err == f"hudilab: {text}\n"
