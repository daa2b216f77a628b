"""Corrections, late rows and deletes are what the lessons say; an erased key is in no file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from hudilab.generate import readings_table, sensor_readings
from hudilab_lessons.corrections import KINDS, corrected, shifted, who_won
from hudilab_lessons.probes import files_holding, traces


def times(batch: DataFrame) -> dict[int, timedelta]:
    """The times of a batch by reading, since the first reading of all."""
    rows = {row.reading_id: row.measurement_time for row in batch.collect()}
    start = min(rows.values())
    return {reading: moment - start for reading, moment in rows.items()}


def test_every_tenth_reading_is_corrected_with_each_kind_of_time(spark: SparkSession) -> None:
    known = sensor_readings(spark, 60, sensors=2, seed=1)
    stored = {row.reading_id: row for row in known.collect()}
    apart = [
        (row.reading_id, (row.measurement_time - stored[row.reading_id].measurement_time).seconds)
        if row.measurement_time >= stored[row.reading_id].measurement_time
        else (row.reading_id, -1)
        for row in corrected(known).orderBy("reading_id").collect()
    ]
    assert apart == [(0, -1), (10, 0), (20, 1), (30, -1), (40, 0), (50, 1)]
    hotter = {
        row.temperature - stored[row.reading_id].temperature for row in corrected(known).collect()
    }
    assert hotter == {500}


def test_the_winners_are_counted_by_kind(spark: SparkSession) -> None:
    known = sensor_readings(spark, 60, sensors=2, seed=1)
    kept = corrected(known).where("reading_id IN (10, 20, 50)")
    counts = who_won(known.where("reading_id NOT IN (10, 20, 50)").union(kept), known)
    assert list(counts.index) == list(KINDS)
    assert counts.arrived.tolist() == [2, 2, 2]
    assert counts.won.tolist() == [0, 1, 2]
    assert who_won(known, known.limit(0)).to_numpy().sum() == 0


def test_a_batch_is_shifted_by_a_number_or_an_expression(spark: SparkSession) -> None:
    known = sensor_readings(spark, 4, sensors=1, seed=1)
    moved = shifted(known, "IF(reading_id = 0, -1, 0)")
    assert times(moved)[1] == times(known)[1] + timedelta(seconds=1)
    assert times(shifted(known, 5)) == times(known)


def test_a_key_is_found_in_base_files_and_logs(spark: SparkSession, tmp_path: Path) -> None:
    table = f"file://{tmp_path}/readings"
    spec = readings_table(
        operation="upsert", buckets=1, table_type="MERGE_ON_READ", partition=(), name="readings"
    )
    readings = sensor_readings(spark, 40, sensors=2, seed=1)
    for batch in (readings, readings.where("sensor_id = 10")):
        options = spec.write_options()
        batch.write.format("hudi").options(**options).mode("append").save(table)
    files_listed = files_holding(table, "sensor_id:10,")
    assert len(files_listed) == 2
    assert [".log." in file for file in files_listed].count(True) == 1
    assert len(files_holding(table, "sensor_id:11,")) == 1
    assert files_holding(table, "sensor_id:12,") == []


def test_a_deleted_key_leaves_traces_until_its_files_are_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = f"file://{tmp_path}/readings"
    spec = readings_table(operation="upsert", buckets=1, partition=(), name="readings")
    readings = sensor_readings(spark, 40, sensors=2, seed=1)
    of_10 = readings.where("sensor_id = 10")
    delete = {"hoodie.datasource.write.operation": "delete"}
    for batch, changed in ((readings, {}), (of_10.select("sensor_id", "reading_id"), delete)):
        options = spec.write_options() | changed
        batch.write.format("hudi").options(**options).mode("append").save(table)
    counts = traces(spark, {"readings": table}, "sensor_id", 10)["readings"]
    assert counts.to_dict() == {
        "rows in a query": 0,
        "rows in time travel": of_10.count(),
        "base files": 1,
        "log files": 0,
    }
