"""The job of notebook 02 as a process: its table is the generator's, also when started again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import run_program, start_program

from hudilab.generate import sensor_readings
from hudilab_spark.waiting import wait_for


def job(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "hudilab_jobs.sensor_readings", *arguments)
    return run_program(*command, env={"HUDILAB_HOME": str(home)})


@pytest.mark.deep
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_its_table_equals_the_generator(
    tmp_path: Path, spark: SparkSession, table_type: str
) -> None:
    sizes = ["--rows", "1003", "--batches", "4", "--sensors", "3", "--seed", "9"]
    done = job(tmp_path, *sizes, "--table-type", table_type, "--run-id", "a")
    table = f"file://{tmp_path}/warehouse/run-a/lab/sensor_readings"
    assert done.returncode == 0, done.stderr[-3000:]
    line = f"hudilab: rows=1003 commits=4 partitions=3 table={table}"
    assert done.stdout.splitlines() == [line]
    expected = sensor_readings(spark, 1003, sensors=3, seed=9)
    stored = spark.read.format("hudi").load(table).select(expected.columns)
    assert expected.exceptAll(stored).count() == stored.exceptAll(expected).count() == 0
    assert f".table.type={table_type}" in Path(
        table.removeprefix("file://"), ".hoodie", "hoodie.properties"
    ).read_text("utf-8")
    if table_type == "MERGE_ON_READ":
        return
    # Started again it has nothing to do, and says the same.
    again = job(tmp_path, *sizes, "--run-id", "a")
    assert (again.returncode, again.stdout.splitlines()) == (0, [line])
    other = job(tmp_path, "--rows", "10", "--batches", "1", "--run-id", "a")
    assert other.returncode == 1
    last_line = other.stderr.splitlines()[-1]
    assert last_line.startswith("hudilab: the checkpoint file://")
    assert last_line.endswith("or use another run_id")


def test_ctrl_c_ends_it_when_its_batch_is_done(tmp_path: Path) -> None:
    sizes = ["--rows", "600", "--batches", "300", "--sensors", "2", "--trigger-seconds", "0.5"]
    running = start_program(
        *("-m", "hudilab_jobs.sensor_readings", *sizes), env={"HUDILAB_HOME": str(tmp_path)}
    )
    timeline = tmp_path / "warehouse" / "lab" / "sensor_readings" / ".hoodie" / "timeline"
    try:
        wait_for(lambda: any(timeline.glob("*_*.commit")), 120, "a commit")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, err[-3000:]
    assert "Traceback" not in err
    match = re.fullmatch(r"hudilab: rows=(\d+) commits=(\d+) partitions=2 table=file:.*\n", out)
    assert match is not None, out
    assert int(match[1]) == 2 * int(match[2]) < 100


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--rows", "0"], "rows=0 is less than 1; change it in the parameters cell or with -p"),
        (["--run-id", "../x"], "parameter run_id='../x' is not a valid directory name; use 1 to"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    done = job(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"hudilab: {text}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
