"""Upserts as TableSpec sets them: one row a key, the newest by its own time, for both indexes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from running import folder, start_stream

from hudi_sink.rows import gathered, newest_rows
from hudi_sink.service_schedule import service_options
from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_lessons.timeline import instants
from hudilab_spark.streams import drain

SCHEMA = "reading_id bigint, sensor_id int, temperature decimal(6,2), measurement_time timestamp"
Reading = tuple[int, int, str, int]


def write(spark: SparkSession, spec: TableSpec, table: Path, rows: list[Reading]) -> None:
    values = [
        (number, sensor, Decimal(text), datetime(2026, 1, 1, 0, 0, second))
        for number, sensor, text, second in rows
    ]
    writer = spark.createDataFrame(values, SCHEMA).write.format("hudi")
    writer.options(**spec.write_options()).mode("append").save(str(table))


def read(spark: SparkSession, table: Path) -> list[tuple[int, int, str]]:
    rows = spark.read.format("hudi").load(str(table)).orderBy("sensor_id", "reading_id")
    return [(row.reading_id, row.sensor_id, str(row.temperature)) for row in rows.collect()]


def read_elsewhere(table: Path) -> list[tuple[int, int, str]]:
    """The same by hudi-rs, which shares no code with Spark."""
    batches = HudiTableBuilder.from_base_uri(str(table)).build().read()
    rows = pa.Table.from_batches(batches).to_pylist()
    stored = [(row["reading_id"], row["sensor_id"], str(row["temperature"])) for row in rows]
    return sorted(stored, key=lambda row: (row[1], row[0]))


# Batches of a stream: number, sensor, temperature, second, deleted.
Change = tuple[int, int, str | None, int, bool]
BATCHES: list[list[Change]] = [
    [(n, 10 + n % 2, f"{n}.00", 5, False) for n in range(6)],
    [
        (0, 10, "0.30", 7, False),  # the newest of its batch is not the last one
        (0, 10, "0.20", 6, False),
        (0, 10, "0.10", 9, False),
        (0, 10, "0.40", 8, False),
        (1, 11, "1.10", 9, False),  # equal times: the last one
        (1, 11, "1.20", 9, False),
        (2, 10, "2.90", 4, False),  # all of them are late
        (2, 10, "2.80", 3, False),
        (3, 11, "3.10", 7, False),  # deleted, and not written again
        (3, 11, None, 8, True),
        (4, 10, None, 7, True),  # deleted, and written again
        (4, 10, "4.10", 8, False),
        (7, 11, "7.00", 6, False),  # a new key, twice
        (7, 11, "7.10", 7, False),
        (3, 10, "3.33", 5, False),  # a key is a key of its partition
    ],
]
LEFT = [
    (0, 10, "0.10"),
    (2, 10, "2.00"),
    (3, 10, "3.33"),
    (4, 10, "4.10"),
    (1, 11, "1.20"),
    (5, 11, "5.00"),
    (7, 11, "7.10"),
]


def stream(
    spark: SparkSession,
    location: TableLocation,
    batches: int,
    spec: TableSpec,
    extra: Mapping[str, str],
) -> None:
    """Write BATCHES, then single changes of key 5 up to so many batches."""
    sink = ExactlyOnceSink(spark, spec, location, {"batches": "a list"}, batches, extra=extra)

    def write_batch(batch: DataFrame, number: int) -> None:
        changes = BATCHES[number] if number < 2 else [(5, 11, "5.00", 5 + number, False)]
        values = [
            (key, sensor, text and Decimal(text), datetime(2026, 1, 1, 0, 0, second), deleted)
            for key, sensor, text, second, deleted in changes
        ]
        schema = f"{SCHEMA}, _hoodie_is_deleted boolean"
        rows = batch.sparkSession.createDataFrame(values, schema).coalesce(1)
        sink.write_batch(rows, number)

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    drain(start_stream(source, write_batch, location), batches=batches, deadline=180)


@pytest.mark.parametrize("combined", ["", "true"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_stream_keeps_one_row_of_each_key(
    spark: SparkSession, location: TableLocation, table_type: str, combined: str
) -> None:
    """The ledger's way and Hudi's leave the same rows, except where Hudi leaves it to chance."""
    spec = readings_table(table_type=table_type, operation="upsert", buckets=2)
    extra = {"hoodie.combine.before.upsert": combined} if combined else {}
    stream(spark, location, 2, spec, extra)
    table = folder(location.table)
    stored = read(spark, table)
    chance = {(1, 11, "1.10"), (1, 11, "1.20")} if combined else set()
    assert [row for row in stored if row not in chance] == [
        row for row in LEFT if row not in chance
    ]
    assert len(stored) == len(LEFT)
    # hudi-rs counts what Spark counts, too: no duplicate is hidden in a log.
    assert read_elsewhere(table) == stored


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"merge_mode": "COMMIT_TIME_ORDERING"}, [(1, 10, "3.00", 1), (1, 11, "4.00", 1)]),
        pytest.param(
            *({"index": "GLOBAL_SIMPLE", "record_key": ("reading_id",)}, [(1, 10, "2.00", 9)]),
            marks=pytest.mark.deep,
        ),
    ],
)
def test_the_newest_is_what_the_table_says(
    spark: SparkSession, location: TableLocation, fields: dict[str, Any], left: list[Reading]
) -> None:
    spec = readings_table(operation="upsert", **fields)
    sink = ExactlyOnceSink(spark, spec, location, {})
    changes = [(1, 10, "1.00", 5), (1, 10, "2.00", 9), (1, 10, "3.00", 1), (1, 11, "4.00", 1)]

    def write_batch(batch: DataFrame, number: int) -> None:
        values = [
            (*change[:2], Decimal(change[2]), datetime(2026, 1, 1, 0, 0, change[3]))
            for change in changes
        ]
        sink.write_batch(batch.sparkSession.createDataFrame(values, SCHEMA).coalesce(1), number)

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    drain(start_stream(source, write_batch, location), batches=2, deadline=180)
    table = folder(location.table)
    assert read(spark, table) == [row[:3] for row in left]


@pytest.mark.parametrize(("readers", "writers"), [(2, 1), (4, 1), (6, 2)])
def test_an_append_to_s3_writes_a_file_for_each_partition_not_for_each_task_that_reads_it(
    spark: SparkSession, readers: int, writers: int
) -> None:
    spec = readings_table()
    batch = sensor_readings(spark, 400, sensors=4, seed=1).repartition(readers)
    rows = gathered(batch, spec)
    assert rows.columns == batch.columns
    assert rows.exceptAll(batch).count() == batch.exceptAll(rows).count() == 0
    with_task = rows.withColumn("task", F.spark_partition_id())
    tasks = with_task.groupBy("sensor_id").agg(F.countDistinct("task").alias("tasks")).collect()
    assert max(row.tasks for row in tasks) == writers
    assert rows.rdd.getNumPartitions() == 2 * spark.sparkContext.defaultParallelism


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_partition_goes_to_no_more_tasks_than_it_has_buckets(
    spark: SparkSession, buckets: int
) -> None:
    """Hudi reads the timeline once for each partition of each task."""
    spec = readings_table(operation="upsert", buckets=buckets)
    batch = sensor_readings(spark, 400, sensors=4, seed=1)
    # As in a stream, nothing joins small tasks.
    settings = {"spark.sql.shuffle.partitions": "16", "spark.sql.adaptive.enabled": "false"}
    before = {key: str(spark.conf.get(key)) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        left = newest_rows(batch.unionByName(batch), spec, by_arrival=False)
        plan: Any = left._jdf.queryExecution()
        assert str(plan.executedPlan()).count("Exchange") == 1
        with_task = left.withColumn("task", F.spark_partition_id())
        tasks = with_task.groupBy("sensor_id").agg(F.countDistinct("task").alias("tasks")).collect()
        assert left.columns == batch.columns
        assert left.exceptAll(batch).count() == batch.exceptAll(left).count() == 0
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    # Two buckets can meet in one task.
    assert max(row.tasks for row in tasks) == buckets


@pytest.mark.deep
def test_small_logs_are_not_compacted_at_each_tenth_batch(
    spark: SparkSession, location: TableLocation
) -> None:
    spec = readings_table(table_type="MERGE_ON_READ", operation="upsert", buckets=1)
    stream(spark, location, 11, spec, {})
    table = folder(location.table)
    actions = list(instants(spark, location.table)["action"])
    assert actions.count("deltacommit") == 11
    assert "commit" not in actions
    assert read(spark, table) == LEFT


@pytest.mark.deep
def test_small_logs_are_compacted_up_to_a_bound(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = folder(location.table)
    spec = readings_table(table_type="MERGE_ON_READ", operation="upsert", buckets=1)
    rows = sensor_readings(spark, 60_000, sensors=2, seed=3)

    def compacted(batch_id: int) -> int:
        before = set(table.rglob("*.parquet"))
        options = spec.write_options() | service_options(spec, location.table, batch_id, written=0)
        rows.write.format("hudi").options(**options).mode("append").save(location.table)
        return len(set(table.rglob("*.parquet")) - before)

    compacted(0)
    assert compacted(48) == 0
    monkeypatch.setattr("hudi_sink.service_schedule.SMALL_COMPACTION", 1)
    assert compacted(49) == 1, "the two slices have more than 1 MB to read and write"
    assert compacted(199) == 2, "the two-hundredth batch has no bound"
    monkeypatch.undo()
    assert compacted(249) == 2
    assert spark.read.format("hudi").load(location.table).count() == 60_000


@pytest.mark.deep
def test_large_logs_are_compacted_as_often_as_they_grow(
    spark: SparkSession, location: TableLocation
) -> None:
    spec = readings_table(table_type="MERGE_ON_READ", operation="upsert", buckets=1)
    sink = ExactlyOnceSink(spark, spec, location, {}, 20)
    rows = sensor_stream(spark, rows_per_batch=5_000, rows=100_000, sensors=1, seed=3)
    drain(start_stream(rows, sink.write_batch, location), batches=20, deadline=300)
    actions = list(instants(spark, location.table)["action"])
    assert actions.count("commit") == 2, "compactions at the tenth and twentieth batch"
    assert spark.read.format("hudi").load(location.table).count() == 100_000
