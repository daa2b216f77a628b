"""`hudilab tidy` refuses bad arguments in one line, before a session is opened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hudilab.errors import LabError, ParameterError
from hudilab.jobs import tidy


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    # As in an activated environment: remedies name the command without its path.
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("table", "arguments", "text"),
    [
        (
            "t",
            {"retain": 0},
            "--retain 0 is less than 1: the newest commit cannot be cleaned; give at least 1: "
            "hudilab tidy TABLE --clean --retain 1",
        ),
        (
            "t",
            {"lock": ["hoodie.write.lock.provider"]},
            "--lock 'hoodie.write.lock.provider' is not NAME=VALUE; write an option of Hudi's lock "
            "provider: hudilab tidy TABLE --lock hoodie.write.lock.provider=CLASS",
        ),
        (
            "ftp://host/t",
            {},
            "'ftp://host/t' is not the place of a table; give a path, or a file:// or s3:// URI: "
            "hudilab tidy TABLE",
        ),
        (
            "s3://bucket/w/lab/t",
            {},
            "s3a://bucket/w/lab/t is on S3, but IS_LOCAL is true; use the settings of that "
            "warehouse: IS_LOCAL=false hudilab tidy s3a://bucket/w/lab/t",
        ),
    ],
)
def test_a_bad_argument(table: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(LabError) as caught:
        list(tidy.run(tidy.Options(table=table, **arguments)))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "start",
    [
        ["-m", "hudilab.jobs.tidy"],
        ["-c", "from hudilab.operations.cli import main; main()", "tidy"],
    ],
)
def test_command_and_job_take_the_same_options(start: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *start, "--help"],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    options = ("--compact", "--no-compact", "--cluster", "--clean", "--archive", "--dry-run")
    assert [
        name for name in (*options, "--stopped", "--retain", "--lock") if name not in done.stdout
    ] == []


def test_no_service_is_asked_for() -> None:
    with pytest.raises(ParameterError) as caught:
        tidy._names("file:///w/t", "COPY_ON_WRITE", tidy.Options(table="t"))
    assert str(caught.value) == (
        "nothing to do for file:///w/t, which is COPY_ON_WRITE; choose services: hudilab tidy "
        "file:///w/t --cluster --clean --archive"
    )
