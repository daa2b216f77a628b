"""What the jobs have in common: errors in one line, and options when started as a file."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from cases import read_cases
from py4j.protocol import Py4JError

from hudilab.errors import ParameterError
from hudilab_jobs import short_errors

CASES = read_cases(__file__)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ParameterError("too few words", "give more"), "too few words; give more"),
        (
            Py4JError("java.lang.IllegalStateException: broken"),
            "java.lang.IllegalStateException: broken; fix the cause and start again (see the log "
            "for details)",
        ),
        (
            OSError(28, "No space left on device"),
            "[Errno 28] No space left on device; free space on that disk and start again",
        ),
    ],
)
def test_an_error_is_one_line(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught, short_errors():
        raise error
    assert (caught.value.code, capsys.readouterr().err) == (1, f"hudilab: {line}\n")


@pytest.mark.parametrize(
    ("job", "options"),
    CASES["options of jobs"],
)
def test_a_job_can_be_started_by_its_file(job: str, options: tuple[str, ...]) -> None:
    """As spark-submit does."""
    spec = find_spec(f"hudilab_jobs.{job}")
    assert spec is not None
    done = subprocess.run(
        [sys.executable, str(spec.origin), "--help"],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [name for name in options if name not in done.stdout] == []
