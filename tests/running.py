"""Start a program, and wait for something while it is running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hudilab.paths import TableLocation, local_path, locate
from hudilab.settings import Settings
from hudilab_cli.servers.process import S, Service
from hudilab_spark.waiting import wait_for


@contextmanager
def running_server(service: Service[S], settings: Settings, **options: Any) -> Iterator[S]:
    """Run a server for a `with` block; one that was running before keeps running."""
    before = service.find(settings)
    try:
        yield service.start(settings, **options)
    finally:
        if before is None:
            service.stop(settings)


HUDILAB = Path(sys.executable).with_name("hudilab")


def start_program(
    *command: str, env: Mapping[str, str], cwd: str | None = None
) -> subprocess.Popen[str]:
    """Start Python with these arguments, its output in pipes, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, *command],
        env=os.environ | env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_program(
    *command: str | Path, env: Mapping[str, str], cwd: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing to read, and return its exit code and output."""
    return subprocess.run(
        command,
        env=os.environ | env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def wait_while_running(
    program: subprocess.Popen[str], condition: Callable[[], object], seconds: float, what: str
) -> None:
    """Wait until `condition` is true; fail at once, with the program's stderr, if it ends first."""

    def holds() -> object:
        assert program.poll() is None, program.communicate()[1][-3000:]
        return condition()

    wait_for(holds, seconds, what)


def finish(program: subprocess.Popen[str], seconds: float) -> str:
    """What a program has printed at its end, which must be a good one.

    One that takes longer is interrupted, so that it stops its servers.
    """
    try:
        out, err = program.communicate(timeout=seconds)
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGINT)
            program.communicate(timeout=60)
    assert program.returncode == 0, err[-3000:]
    return out


def kill(program: subprocess.Popen[Any]) -> None:
    """Kill Python and its JVM at once."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
    program.communicate()


def java(spark: SparkSession) -> psutil.Process:
    """The process of a session's JVM."""
    jvm: Any = spark._jvm
    return psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))


def end_jvm(spark: SparkSession) -> None:
    """Stop a session and its JVM, so that the next session can have other jars, as a new kernel."""
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.proc.stdin.close()  # the JVM ends with it
    gateway.proc.wait(30)
    gateway.shutdown()  # not before: it waits for threads that read from a living JVM
    SparkContext._gateway = SparkContext._jvm = None


def folder(uri: str) -> Path:
    """The local folder of a place's URI."""
    path = local_path(uri)
    assert path is not None, uri
    return path


def readings_at(home: Path) -> TableLocation:
    """Where a home has its table of readings."""
    return locate("warehouse", "lab", "readings", is_local=True, home=home)


def start_stream(
    rows: DataFrame,
    write: Callable[[DataFrame, int], None],
    location: TableLocation,
    *,
    once: bool = False,
) -> StreamingQuery:
    """Start a stream with the place's checkpoint; `once`: it ends when it has read its source."""
    stream = rows.writeStream.foreachBatch(write)
    stream = stream.option("checkpointLocation", location.checkpoint)
    return (stream.trigger(availableNow=True) if once else stream).start()


def assert_rows(spark: SparkSession, location: TableLocation, wanted: DataFrame) -> None:
    """A table holds exactly these rows, whatever other columns it has."""
    table = spark.read.format("hudi").load(location.table).select(wanted.columns)
    assert (wanted.exceptAll(table).count(), table.exceptAll(wanted).count()) == (0, 0)
