"""Bad settings through the command that users type: one line, exit code 1, nothing written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from running import HUDILAB, run_program

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A copy of conf/ that a test may spoil."""
    return Path(shutil.copytree(PROJECT / "conf", tmp_path / "conf"))


def spoil(conf: Path, changes: dict[str, object]) -> None:
    file = conf / "application_properties.json"
    groups = json.loads(file.read_text(encoding="utf-8"))
    (table,) = [group for group in groups if group["PropertyGroupId"] == "HudiTable0"]
    table["PropertyMap"] |= changes
    file.write_text(json.dumps(groups), encoding="utf-8")


def refused(conf: Path, **env: str) -> str:
    """The one line that `hudilab run 02` ends in; nothing may be written but its log."""
    home = conf.parent / "home"
    home.mkdir()
    unset = {"RUNTIME_ENV": "", "IS_LOCAL": ""}
    env = unset | {"HUDILAB_HOME": str(home), "HUDILAB_CONF": str(conf)} | env
    done = run_program(HUDILAB, "run", "02", env=env, cwd=conf.parent)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert not (home / "warehouse").exists()
    (line,) = done.stderr.splitlines()
    assert line.startswith("hudilab: ")
    return line.removeprefix("hudilab: ")


def test_every_problem_of_the_file_in_one_error_and_no_value(conf: Path) -> None:
    spoil(conf, {"aws.region": 7, "tabel.name": "canary-4711", "database.name": ""})
    line = refused(conf)
    for part in ("HudiTable0", "aws.region", "tabel.name", "database.name", "table.name"):
        assert part in line
    assert "canary-4711" not in line


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a place where even root cannot write")
def test_a_warehouse_that_cannot_be_written(conf: Path) -> None:
    spoil(conf, {"warehouse.path": "/proc/warehouse"})
    line = refused(conf)
    assert "PathError" in line
    assert "/proc" in line


def test_a_warehouse_on_s3_that_nobody_serves(conf: Path) -> None:
    spoil(conf, {"warehouse.path": "s3://bucket/warehouse"})
    line = refused(conf, IS_LOCAL="false", AWS_ENDPOINT_URL_S3="http://127.0.0.1:1")
    assert "S3Error: bucket 'bucket' at http://127.0.0.1:1: " in line
