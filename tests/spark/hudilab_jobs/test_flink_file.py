"""The sensor job with the settings file of the Flink application that it re-implements."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from running import run_program

from hudilab.generate import sensor_readings

FLINK = Path(__file__).parents[2] / "unit" / "samples" / "flink" / "hudi"


def test_the_unchanged_file_fills_its_table(tmp_path: Path, spark: SparkSession) -> None:
    """Its folder is all of HUDILAB_CONF: settings of Spark and the log are the project's."""
    log = tmp_path / "of the job.log"
    done = run_program(
        *(sys.executable, "-m", "hudilab_jobs.sensor_readings", "--rows", "220", "--batches", "2"),
        env={
            "HUDILAB_CONF": str(FLINK),
            "HUDILAB_HOME": str(tmp_path),
            "HUDILAB_LOG_FILE": str(log),
            "IS_LOCAL": "true",
        },
        cwd=Path("/"),
    )
    assert done.returncode == 0, done.stderr
    home = f"file://{tmp_path}/warehouse"
    table = f"{home}/my_database/my_table"
    notice, local, line = done.stdout.splitlines()
    assert notice.startswith(f"{FLINK}/application_properties.json: not used: catalog.name (")
    assert local == f"IS_LOCAL is true or unset: warehouse.path is ignored, the warehouse is {home}"
    assert line == f"hudilab: rows=220 commits=2 partitions=11 table={table}"
    expected = sensor_readings(spark, 220, sensors=11, seed=42)
    stored = spark.read.format("hudi").load(table).select(expected.columns)
    assert expected.exceptAll(stored).count() == stored.exceptAll(expected).count() == 0
    output = log.read_text()
    assert " WARN " in output  # as conf/log4j2.properties has it
    assert "Fair Scheduler configuration file not found" not in output
