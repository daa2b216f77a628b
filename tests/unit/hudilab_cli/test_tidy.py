"""`hudilab tidy` refuses bad arguments in one line, before a session is opened."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases
from refusals import refused

from hudilab.errors import ParameterError
from hudilab_jobs import tidy

CASES = read_cases(__file__)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    # As in an activated environment: remedies name the command without its path.
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("table", "arguments", "failed", "remedy"),
    CASES["bad arguments"],
)
def test_a_bad_argument(
    table: str,
    arguments: dict[str, Any],
    failed: str,
    remedy: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        tidy.command(table, **arguments)
    message = capsys.readouterr().err
    assert failed in message
    assert message.endswith(f"{remedy}\n")


def test_no_service_is_asked_for() -> None:
    remedy = ": hudilab tidy file:///w/t --cluster --clean --archive"
    with refused(ParameterError, "nothing to do", "file:///w/t", "COPY_ON_WRITE", remedy=remedy):
        tidy._chosen({"clean": False}, "file:///w/t", "COPY_ON_WRITE")
