"""A stream's lock, its first line, and what a terminal and a log see while it waits."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from refusals import refused
from unit.hudilab.settings_files import group, write
from unit.hudilab_jobs.test_pipelines import GROUP

from hudilab.errors import StreamError
from hudilab.paths import TableLocation, locate
from hudilab_jobs.pipelines import status
from hudilab_jobs.pipelines.lock import stream_lock
from hudilab_jobs.pipelines.status import Status

HOLD = """
import sys, time
from pathlib import Path
from hudilab.paths import locate
from hudilab_jobs.pipelines.lock import stream_lock
with stream_lock(locate("warehouse", "lab", "orders", is_local=True, home=Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def location(tmp_path: Path) -> TableLocation:
    return locate("warehouse", "lab", "orders", is_local=True, home=tmp_path)


def test_a_stream_runs_once_and_a_killed_one_blocks_nothing(
    tmp_path: Path, location: TableLocation
) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        named = f"(process {other.pid} on {socket.gethostname()}, since 20"
        remedy = "; let it run, or stop it first: press Ctrl-C there, or kill that process"
        for _ in range(2):
            with refused(StreamError, named, remedy=remedy), stream_lock(location):
                pass
        other.send_signal(signal.SIGKILL)
    for _ in range(2):
        with stream_lock(location):
            pass


def test_no_lock_is_needed_on_an_object_store() -> None:
    table = TableLocation("s3a://bucket/w", "s3a://bucket/w/t", "s3a://bucket/w/c", "lab", "t")
    with stream_lock(table), stream_lock(table):
        pass


def test_a_folder_that_cannot_be_written_is_refused_later(location: TableLocation) -> None:
    Path(location.warehouse.removeprefix("file://")).write_text("a file")
    with stream_lock(location):
        pass


def test_a_log_gets_a_line_when_a_minute_was_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(status, "SECOND", 0.01)
    monkeypatch.setattr(status, "MINUTE", 0.2)
    with Status() as shown, Status(is_shown=False) as hidden:
        shown.show("waiting for new files")
        hidden.show("never")
        hidden.print("first", to_stderr=True)
        time.sleep(0.5)
        shown.print("batch 0")
    out, err = capfd.readouterr()
    assert out == "batch 0\n"
    first, *lines = err.splitlines()
    assert first == "hudilab: first"
    assert 1 <= len(lines) <= 2
    assert all(line.startswith("hudilab: waiting for new files, ") for line in lines)


def test_a_terminal_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SECOND", 0.1)
    terminal, end = pty.openpty()
    stderr = os.dup(2)
    os.dup2(end, 2)
    try:
        with Status() as shown:
            shown.show("waiting for new files")
            time.sleep(0.35)
    finally:
        os.dup2(stderr, 2)
    written = ""
    while select.select([terminal], [], [], 0.5)[0]:
        written += os.read(terminal, 10_000).decode()
    for descriptor in (stderr, end, terminal):
        os.close(descriptor)
    assert written.startswith("\r\x1b[Kwaiting for new files, 0 s\r\r\x1b[K")
    assert written.endswith("\r\x1b[K")
    assert "\n" not in written


@pytest.mark.parametrize("job", ["stream", "load", "stream --check"])
def test_a_stream_says_what_it_does_before_spark_is_loaded(tmp_path: Path, job: str) -> None:
    write(tmp_path, [group(), group("pipeline.flights", GROUP)])
    no_spark = "import sys; sys.modules['pyspark'] = None; from hudilab_cli.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", no_spark, *job.split(), "flights"],
        env=os.environ | {"HUDILAB_CONF": str(tmp_path), "HUDILAB_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    root = f"file://{tmp_path}/warehouse"
    goes_on = (
        ""
        if "--check" in job
        else f", writes {root}/lab/flights, and its checkpoint is {root}/_checkpoints/lab/flights"
    )
    first, last = done.stderr.splitlines()
    assert first == f"hudilab: flights reads csv files in file:///data/flights{goes_on}"
    assert last.startswith(f"hudilab: {job.split()[0]} needs pyspark, which is not installed; ")
    assert done.stdout == ""
