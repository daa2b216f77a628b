"""A full disk: readers keep the last commit, and with space again the stream is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import start_stream, wait_while_running

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation, locate
from hudilab.table import TableSpec
from hudilab_lessons.faults import compare
from hudilab_spark.streams import drain

FULL = r"No space left on device|Disk quota exceeded"
HUDILAB = Path(sys.executable).with_name("hudilab")
PER_BATCH, BATCHES = 3000, 20
SIZES = {"sensors": 3, "seed": 4}
SOURCE = {"rows": PER_BATCH * BATCHES, "batches": BATCHES, **SIZES}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0 or mount("-t", "tmpfs", "2", folder):
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(how: str, what: str, megabytes: str, folder: Path) -> int:
    command = ["mount", how, what, "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def run(spark: SparkSession, spec: TableSpec, location: TableLocation) -> None:
    sink = ExactlyOnceSink(spark, spec, location, SOURCE, BATCHES)
    rows = sensor_stream(spark, rows_per_batch=PER_BATCH, rows=SOURCE["rows"], **SIZES)
    drain(start_stream(rows, sink.write_batch, location), batches=BATCHES, deadline=300)


@pytest.mark.deep
@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
@pytest.mark.parametrize("full", ["table", "checkpoint"])
def test_a_full_disk_loses_nothing(
    spark: SparkSession, tmp_path: Path, disk: Path, operation: str, full: str
) -> None:
    buckets = 1 if operation == "upsert" else None
    spec = readings_table(operation=operation, buckets=buckets)
    roomy, tight = (
        locate(str(folder), "lab", "readings", is_local=True, home=tmp_path)
        for folder in (tmp_path / "warehouse", disk)
    )
    table, checkpoint = (tight, roomy) if full == "table" else (roomy, tight)
    location = TableLocation(table.warehouse, table.table, checkpoint.checkpoint, "lab", "readings")
    filler = disk / "filler"
    if full == "table":
        assert mount("-o", "remount", "8", disk) == 0  # several batches, but not all
    else:
        filler.write_bytes(bytes(2 * 1024 * 1024 - 100 * 1024))
    for _ in range(2):  # it is refused as long as the disk is full
        with pytest.raises(StreamError, match=FULL) as caught:
            run(spark, spec, location)
        assert "free space on the disks of the table, its checkpoint and" in str(caught.value)
        rows = spark.read.format("hudi").load(location.table).count()
        assert rows % PER_BATCH == 0
        assert 0 < rows < SOURCE["rows"]
        written = sensor_readings(spark, rows, **SIZES)
        assert compare(written, location.table) == {"rows": rows, "lost": 0, "unexpected": 0}
    filler.unlink(missing_ok=True)
    assert mount("-o", "remount", "64", disk) == 0
    run(spark, spec, location)
    everything = sensor_readings(spark, SOURCE["rows"], **SIZES)
    wanted = {"rows": SOURCE["rows"], "lost": 0, "unexpected": 0}
    assert compare(everything, location.table) == wanted


@pytest.mark.deep
@pytest.mark.parametrize("full", ["logs/*.log", "**/timeline/*.requested", "**/timeline/*_*.*"])
def test_a_disk_that_fills_while_a_lesson_runs(disk: Path, full: str) -> None:
    """At any moment: one line, and with space again the lesson runs."""
    assert mount("-o", "remount", "40", disk) == 0
    lesson = ["run", "02_write_hudi_stream", "-p", "rows", "500", "-p", "batches", "2"]
    env = os.environ | {"HUDILAB_HOME": str(disk)}
    with subprocess.Popen(
        [str(HUDILAB), *lesson],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        wait_while_running(program, lambda: any(disk.glob(full)), 300, full)
        filler = (disk / "filler").open("wb", buffering=0)
        with filler, suppress(OSError):
            while filler.write(bytes(64 * 1024)):
                pass
        _, output = program.communicate(timeout=300)
    assert program.returncode == 1, output
    (line,) = [line for line in output.splitlines() if line.startswith("hudilab: ")]
    assert re.search(FULL, line), line
    assert "free space on" in line
    assert "Traceback" not in output
    (disk / "filler").unlink()
    subprocess.run([str(HUDILAB), *lesson], env=env, capture_output=True, check=True)
