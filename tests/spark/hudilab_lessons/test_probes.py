"""What a query scans, a footer promises and a write adds."""

from __future__ import annotations

from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hudilab.errors import TableError
from hudilab.generate import readings_table, sensor_readings
from hudilab_lessons.probes import (
    deliver,
    files_added,
    load,
    may_hold,
    outcome,
    over_days,
    pushed,
    scanned,
    sql_with,
    upsert_cost,
)

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


OPTIONS = {
    "hoodie.table.name": "found",
    "hoodie.datasource.write.recordkey.field": "reading_id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.table.ordering.fields": "measurement_time",
}


@pytest.mark.parametrize(
    ("index", "read", "rewritten"), [("SIMPLE", 4, 1), ("BLOOM", 1, 1), ("BUCKET", 0, 4)]
)
def test_an_index_decides_what_an_upsert_reads_and_rewrites(
    spark: SparkSession, tmp_path: Path, index: str, read: int, rewritten: int
) -> None:
    table = f"file://{tmp_path}/found"
    readings = sensor_readings(spark, 200, sensors=2, seed=1)
    options = load(readings, table, OPTIONS | {"hoodie.index.type": index}, files=4)
    cost = upsert_cost(readings.where("reading_id >= 180"), table, options)
    assert cost["keys read from"] == read
    assert cost["files rewritten"] == rewritten
    assert cost["rows rewritten"] >= 20


def test_an_outcome_is_the_name_of_what_a_call_raises(spark: SparkSession) -> None:
    def refuse() -> None:
        raise TableError("no", "yes")

    def fail_in_java() -> None:
        spark._jvm.java.lang.Integer.parseInt("x")  # type: ignore[union-attr]

    assert outcome(len, []) == "accepts"
    assert outcome(refuse) == "TableError"
    assert outcome(fail_in_java) == "NumberFormatException"


def test_settings_end_with_their_statement(spark: SparkSession) -> None:
    name = "hoodie.schema.on.read.enable"
    shown = sql_with(spark, {name: "true"}, f"SET {name}")
    assert shown["value"].tolist() == ["true"]
    assert spark.conf.get(name, "none") == "none"


def test_readings_lie_on_five_days_in_their_order(spark: SparkSession) -> None:
    rows = over_days(sensor_readings(spark, 20, sensors=2, seed=1), 20).collect()
    assert [row.day.day for row in rows] == [day for day in range(1, 6) for _ in range(4)]
    assert len({row.reading_key for row in rows}) == 20
    assert all(row.measurement_time.date() == row.day for row in rows)


def test_a_file_for_each_value_of_a_column(spark: SparkSession, tmp_path: Path) -> None:
    rows = sensor_readings(spark, 40, sensors=2, seed=1).withColumn(
        "file", F.expr("reading_id % 3")
    )
    for _ in range(2):  # the second time, it replaces them
        deliver(rows.where("file <> 1"), f"file://{tmp_path}/inbox")
    stored = spark.read.parquet(f"file://{tmp_path}/inbox/*")
    assert stored.columns == rows.drop("file").columns
    assert stored.exceptAll(rows.where("file <> 1").drop("file")).isEmpty()
    assert len([*(tmp_path / "inbox").rglob("*.parquet")]) == 2


def test_the_numbers_that_a_write_pushes() -> None:
    page = '# HELP a text\n# TYPE a gauge\na 1.5\nb{quantile="0.5",} 2.0E-3\n'

    def write(port: str) -> None:
        address = f"http://127.0.0.1:{port}/metrics/job/readings"
        for text in ("a 1.0\n", page):
            build_opener(ProxyHandler({})).open(address, text.encode()).close()

    assert pushed(write).to_dict() == {"a": 1.5, 'b{quantile="0.5",}': 0.002}
