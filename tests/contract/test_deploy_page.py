"""docs/deploy.md: its commands exist, its query finds errors, and it has all jobs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from hudilab_jobs import ENDLESS_WITHOUT, JOBS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
BLOCKS = re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line.strip() for block in BLOCKS for line in block.splitlines() if line.strip()]


def test_the_commands_are_found() -> None:
    assert len([line for line in COMMANDS if line.startswith("aws ")]) == 9
    assert len([line for line in COMMANDS if "hudilab deploy" in line]) == 3


@pytest.mark.parametrize("line", [line for line in COMMANDS if "hudilab deploy" in line])
def test_what_the_kit_prints_for_them(line: str) -> None:
    words = shlex.split(line.replace("BUCKET", "deployments").partition(">")[0])
    words[0] = str(Path(sys.executable).with_name("hudilab"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{\n")


@pytest.mark.parametrize(
    "line", [x for x in COMMANDS if x.startswith("aws ") and not x.startswith("aws s3 ")]
)
def test_aws_has_these_operations_and_options(line: str) -> None:
    _, service, operation, *options = shlex.split(line)
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    members = model.operation_model(names[operation]).input_shape.members
    known = {f"--{xform_name(name, '-')}": shape for name, shape in members.items()}
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "--cli-input-json":
            continue
        assert option in known
        if known[option].type_name == "structure":
            given = set(re.findall(r"(\w+)=", value))
            assert given <= set(known[option].members)


def test_the_query_finds_errors_and_nothing_else() -> None:
    pattern = re.search(r"filter @message like /(\^.*)/$", PAGE, re.MULTILINE)
    assert pattern is not None
    samples = ROOT / "tests" / "unit" / "samples"
    python = (samples / "stream_python.txt").read_text("utf-8").splitlines()
    errors = [
        "hudilab: no broker answers (b-1:9098: timed out); fix bootstrap.servers",
        "Traceback (most recent call last):",
        "ModuleNotFoundError: No module named 'x'",
        "pyspark.errors.exceptions.captured.AnalysisException: [TABLE_NOT_FOUND] x",
        "KeyboardInterrupt",
    ]
    assert [line for line in errors if not re.search(pattern[1], line)] == []
    assert any(re.search(pattern[1], line) for line in python)
    quiet = [
        "26/01/01 00:00:00 INFO SparkContext: Running Spark version 3.5.5",
        "26/01/01 00:00:00 INFO TaskSetManager: Finished task 0.0 in stage 1.0",
    ]
    assert [line for line in quiet if re.search(pattern[1], line)] == []


def test_each_job_is_in_the_table_with_its_end() -> None:
    rows = dict(re.findall(r"^\| `(\w+)[^`]*` \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE))
    assert set(JOBS) <= set(rows)
    for job in JOBS:
        endless = rows[job].startswith("only with")
        options = re.findall(r"`--([\w-]+)`", rows[job]) if endless else []
        assert tuple(name.replace("-", "_") for name in options) == ENDLESS_WITHOUT.get(job, ())
