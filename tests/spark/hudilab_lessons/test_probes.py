"""What a query scans, a footer promises and a write adds."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from hudilab.generate import readings_table, sensor_readings
from hudilab_lessons.probes import files_added, may_hold, scanned

BLOOM = {"operation": "upsert", "index": "BLOOM", "buckets": None, "record_key": ("reading_id",)}


def test_files_are_scanned_asked_and_added(spark: SparkSession, tmp_path: Path) -> None:
    table = f"file://{tmp_path}/readings"
    spec = readings_table(name="readings", **BLOOM)
    readings = sensor_readings(spark, 40, sensors=2, seed=1)

    def write() -> None:
        options = spec.write_options()
        readings.write.format("hudi").options(**options).mode("append").save(table)

    first = files_added(spark, table, write)
    assert (first["data"] >= 2, first["timeline"] >= 3) == (True, True)
    stored = spark.read.format("hudi").load(table)
    files, kilobytes, rows = scanned(stored.where("sensor_id = 10"))
    assert (files, rows) == (1, readings.where("sensor_id = 10").count())
    assert 0 < kilobytes < 1000
    assert scanned(stored)[0] == 2
    assert may_hold(spark, table, ["7"]) >= 1
    assert may_hold(spark, table, ["no such key", "a"]) == 0
