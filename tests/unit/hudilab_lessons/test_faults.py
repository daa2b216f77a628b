"""The fault lab's plumbing: what kills, and what races, without Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException

from hudilab.errors import StreamError, WaitError
from hudilab.paths import TableLocation
from hudilab_lessons import faults
from hudilab_lessons.faults import error_of, kill_when, race, shorten, summary

HANGS = """
import json, os, subprocess, sys, time
from pathlib import Path
job = json.load(sys.stdin)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
kept = [name for name in os.environ if name.startswith(("PYSPARK_", "HUDILAB_LOG_FILE"))]
Path(job["file"] + ".new").write_text(f"{os.getpid()} {child.pid} {kept}")
os.rename(job["file"] + ".new", job["file"])
time.sleep(600)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules a separate program can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_a_program_is_killed_with_its_children_and_has_a_clean_environment(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("HUDILAB_LOG_FILE", "log")
    file = programs / "there"
    (programs / "hangs.py").write_text(HANGS, "utf-8")
    kill_when(file.exists, "hangs", {"file": str(file)})
    parent, child, kept = file.read_text().split(" ", 2)
    assert kept == "[]"
    assert not psutil.pid_exists(int(parent))
    gone = [psutil.Process(int(child))] if psutil.pid_exists(int(child)) else []
    assert psutil.wait_procs(gone, timeout=10)[1] == []


def test_a_program_that_is_not_there_when_it_should_be(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "fails.py").write_text("raise ValueError('no table')", "utf-8")
    (programs / "sleeps.py").write_text("import time; time.sleep(600)", "utf-8")
    with pytest.raises(WaitError) as caught:
        kill_when(lambda: False, "fails", {})
    assert str(caught.value) == (
        "the program that was to be killed ended by itself: ValueError: no table; fix it and run "
        "the cell again"
    )
    monkeypatch.setattr(faults, "TIMEOUT", 0.0)
    with pytest.raises(WaitError) as caught:
        kill_when(lambda: False, "sleeps", {})
    assert str(caught.value) == (
        "the program that was to be killed did not get ready: no message; fix it and run the cell "
        "again"
    )


def test_writers_race_and_what_is_refused_is_tried_again() -> None:
    both, failed = threading.Barrier(2, timeout=10), set[int]()

    def write(number: int) -> None:
        if number in (0, 2):
            both.wait()  # hangs unless the writers run at the same time
        if number == 3 and number not in failed:
            failed.add(number)
            raise PySparkException("java.io.IOException: lost")

    outcome = race(write, each=2, tries=2)
    assert outcome["acknowledged"] == [0, 1, 2, 3]
    assert outcome["refused"] == ["java.io.IOException: lost"]
    assert outcome["seconds"] < 10
    failed.clear()
    both.reset()
    assert race(write, each=2)["acknowledged"] == [0, 1, 2]


def test_an_error_is_returned_as_text() -> None:
    def write(error: Exception | None) -> None:
        if error:
            raise error

    assert error_of(write, None) == ""
    assert error_of(write, StreamError("it ended", "start again")) == "it ended; start again"
    assert error_of(write, PySparkException("java.io.IOException: lost")) == (
        "java.io.IOException: lost"
    )
    with pytest.raises(ValueError, match="no error of a write"):
        error_of(write, ValueError("no error of a write"))


def test_an_error_is_shortened_to_what_each_run_reports() -> None:
    location = TableLocation("file:///w", "file:///w/t", "file:///w/c", "lessons", "t")
    text = "File file:/w/t/.hoodie/20261127194157742.commit of file:///w/t is missing; so is the"
    error = StreamError(f"{text} one in file:///w/c", "do something")
    short = "File .hoodie/<instant>.commit of <table> is missing; so is the one in <checkpoint>"
    assert shorten(error, location) == short
    caused = PySparkException(f"stopped\nCaused by: java.io.IOException: {text} one in file:///w/c")
    assert shorten(caused, location) == f"java.io.IOException: {short}"
    assert shorten(None, location) == ""
    ended = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: a file is damaged"
    assert shorten(PySparkException(ended), location) == "a file is damaged"


def test_a_comparison_as_text() -> None:
    assert summary({"rows": 600, "lost": 0, "unexpected": 1}) == "600 rows, 0 lost, 1 unexpected"
