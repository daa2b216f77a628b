"""docs/deploy.md: its commands exist, its query finds errors, and it has all jobs."""

from __future__ import annotations

import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from hudilab_jobs import JOBS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
BLOCKS = re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line.strip() for block in BLOCKS for line in block.splitlines() if line.strip()]


def test_the_commands_are_found() -> None:
    assert len([line for line in COMMANDS if line.startswith("aws ")]) == 9
    templates = [line.split()[1] for line in COMMANDS if line.startswith("envsubst ")]
    assert len(templates) == 3
    assert [file for file in templates if not (ROOT / file.removeprefix("<")).is_file()] == []


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
        known = inspect.signature(import_module(f"hudilab_jobs.{job}").command).parameters
        for option in re.findall(r"`--([\w-]+)`", rows[job]):
            assert option.replace("-", "_") in known, (job, option)
