"""A driver that was replaced cannot commit any more, wherever it hung."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import assert_rows, kill, start_program, start_stream, wait_while_running
from spark.programs.driver import POINTS, SIZES, spec

from hudi_sink.commits import Commits
from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.settings import load_settings
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare

DRIVER = Path(__file__).parents[1] / "programs" / "driver.py"
# What the replaced driver says in the end; the first three would have written the batch again.
SAID = {
    "look": "another driver has taken over the checkpoint",
    "announce": "another driver has taken over the checkpoint",
    "commit": "another driver has taken over the checkpoint",
    "note": "",
    "after": "",
}


def await_file(file: Path, process: subprocess.Popen[str], seconds: float = 180) -> None:
    wait_while_running(process, file.exists, seconds, file.name)


def replace_driver(spark: SparkSession, location: TableLocation, operation: str) -> None:
    """What the second driver does: the same stream on the same checkpoint, to its end."""
    sink = ExactlyOnceSink(spark, spec(operation), location, SIZES, SIZES["batches"])
    sizes = {name: SIZES[name] for name in ("rows", "sensors", "seed")}
    rows = sensor_stream(spark, rows_per_batch=20, **sizes)
    query = start_stream(rows, sink.write_batch, location)
    drain(query, batches=SIZES["batches"], deadline=300)


def assert_exact(spark: SparkSession, location: TableLocation) -> None:
    expected = sensor_readings(spark, SIZES["rows"], sensors=SIZES["sensors"], seed=SIZES["seed"])
    assert_rows(spark, location, expected)
    assert Commits(spark, location.table).count() == SIZES["batches"]


@pytest.mark.parametrize(
    ("operation", "points"),
    [
        ("bulk_insert", ("announce", "commit")),
        pytest.param("bulk_insert", POINTS, marks=pytest.mark.deep),
        pytest.param("upsert", POINTS, marks=pytest.mark.deep),
    ],
)
def test_a_driver_that_was_replaced_cannot_commit(
    spark: SparkSession, tmp_path: Path, operation: str, points: tuple[str, ...]
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    settings = replace(load_settings(env={}), home=tmp_path)
    env = {"HUDILAB_HOME": str(tmp_path), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    old = start_program(str(DRIVER), str(gates), operation, *points, env=env)
    try:
        for point in points:
            location = prepare(settings, run_id=point)
            await_file(gates / f"{point}.waiting", old)
            replace_driver(spark, location, operation)
            (gates / f"{point}.go").touch()
            await_file(gates / f"{point}.done", old)
            output = (gates / f"{point}.done").read_text()
            assert SAID[point] in output, f"{point}: {output}"
            assert output != "finished", point
            assert_exact(spark, location)
    finally:
        kill(old)
