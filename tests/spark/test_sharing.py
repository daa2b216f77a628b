"""Several writers on one table: other streams, SQL and table services, each exact or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hudilab.commits import Commits
from hudilab.errors import StreamError, TableError
from hudilab.ledger import BatchLedger
from hudilab.paths import Place, local_path, locate
from hudilab.repair import rewrite_buckets
from hudilab.sources import sensor_readings, sensor_stream
from hudilab.streams import drain
from hudilab.tables import TableSpec, read_properties

APPENDS = TableSpec(
    name="readings",
    record_key=("sensor_id", "reading_id"),
    partition=("sensor_id",),
    ordering="measurement_time",
)
UPSERTS = replace(APPENDS, operation="upsert", buckets=1)
SIZES = {"sensors": 2, "seed": 5}
PER_BATCH = 20


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)


def start(
    spark: SparkSession, spec: TableSpec, place: Place, batches: int, first: int = 0, **more: Any
) -> StreamingQuery:
    """Readings `first` and up in batches of 20, as a stream with the place's checkpoint."""
    sizes = {"rows": batches * PER_BATCH, **SIZES}
    rows = sensor_stream(spark, rows_per_batch=PER_BATCH, **sizes)
    moved = rows.withColumn("reading_id", F.col("reading_id") + first)
    source = sizes | {"first": first}
    ledger = BatchLedger(spark, spec, place, source, **more)  # type: ignore[arg-type]
    stream = moved.writeStream.foreachBatch(ledger.write_batch)
    return stream.option("checkpointLocation", place.checkpoint).start()


def expected(spark: SparkSession, batches: int, first: int = 0) -> DataFrame:
    rows = sensor_readings(spark, batches * PER_BATCH, **SIZES)
    return rows.withColumn("reading_id", F.col("reading_id") + first)


def assert_holds(spark: SparkSession, place: Place, rows: DataFrame) -> None:
    table = spark.read.format("hudi").load(place.table).select(rows.columns)
    assert (rows.exceptAll(table).count(), table.exceptAll(rows).count()) == (0, 0)


def second(place: Place) -> Place:
    return replace(place, checkpoint=place.checkpoint + "_second")


@pytest.mark.parametrize("spec", [APPENDS, UPSERTS], ids=["bulk_insert", "upsert"])
def test_two_streams_share_a_table_when_both_say_so(
    spark: SparkSession, place: Place, spec: TableSpec
) -> None:
    # Both write to the same file groups: for upserts one of two overlapping commits loses.
    one = start(spark, spec, place, 4, shared=True)
    two = start(spark, spec, second(place), 4, first=1000, shared=True)
    drain(one, batches=4, deadline=300)
    drain(two, batches=4, deadline=300)
    both = expected(spark, 4).union(expected(spark, 4, first=1000))
    assert_holds(spark, place, both)
    stamps = [c.stamp for c in Commits(spark, place.table).newest_first() if c.stamp]
    assert len({(stamp.query, stamp.batch) for stamp in stamps}) == 8


def test_a_second_stream_is_refused_unless_it_says_so(spark: SparkSession, place: Place) -> None:
    drain(start(spark, APPENDS, place, 1), batches=1, deadline=300)
    with pytest.raises(StreamError, match="if both streams write to the table, pass shared=True"):
        start(spark, APPENDS, second(place), 1, first=1000)
    drain(start(spark, APPENDS, second(place), 1, first=1000, shared=True), batches=1, deadline=300)
    with pytest.raises(StreamError) as caught:
        start(spark, APPENDS, place, 1)
    assert "another stream (" in str(caught.value)
    assert str(caught.value).endswith(
        "since this one did; stop one of them, or pass shared=True to the BatchLedger of both"
    )


def test_a_table_on_an_object_store_is_shared_with_a_lock_of_the_callers_only(
    spark: SparkSession,
) -> None:
    place = Place("s3a://bucket/w", "s3a://bucket/w/lab/t", "s3a://bucket/w/c", "lab", "t")
    with pytest.raises(TableError) as caught:
        BatchLedger(spark, APPENDS, place, {}, shared=True)
    assert str(caught.value).startswith(
        "s3a://bucket/w/lab/t is on an object store, where Hudi's lock file protects nothing; pass "
        "lock= with the options of a lock provider"
    )


def test_stamps_outlive_the_commits_of_others_and_archiving(
    spark: SparkSession, place: Place
) -> None:
    drain(start(spark, APPENDS, place, 2), batches=2, deadline=300)
    few = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "2",
    }
    for number in range(8):
        other = expected(spark, 1, first=1000 + number * PER_BATCH)
        options = APPENDS.write_options(few)
        other.write.format("hudi").options(**options).mode("append").save(place.table)
    active = Path(str(local_path(place.table)), ".hoodie", "timeline")
    assert len(list(active.glob("*_*.commit"))) < 8, "nothing was archived"
    drain(start(spark, APPENDS, place, 2), batches=2, deadline=300)
    table = spark.read.format("hudi").load(place.table)
    assert table.where("reading_id < 1000").count() == 2 * PER_BATCH
    with pytest.raises(StreamError, match="was written by a stream whose checkpoint is not at"):
        start(spark, APPENDS, second(place), 2)


def test_every_kind_of_commit_is_read(spark: SparkSession, place: Place) -> None:
    """None of Hudi's own is taken for a damaged one, and the stream goes on behind them."""
    drain(start(spark, APPENDS, place, 1), batches=1, deadline=300)
    spark.sql(f"CREATE TABLE kinds USING hudi LOCATION '{place.table}'")
    try:
        for statement in (
            "DELETE FROM kinds WHERE reading_id = 3",
            "UPDATE kinds SET temperature = 1.5 WHERE reading_id = 4",
            "INSERT INTO kinds SELECT 900, 1.5, TIMESTAMP '2026-01-01', 10",
            "CALL run_clustering(table => 'kinds', order => 'reading_id')",
            "ALTER TABLE kinds DROP PARTITION (sensor_id = 11)",
        ):
            try:
                spark.sql(statement)
            except Exception as error:
                raise AssertionError(statement) from error
        operations = {c.operation for c in Commits(spark, place.table).newest_first()}
        assert {"BULK_INSERT", "CLUSTER", "DELETE_PARTITION"} <= operations
    finally:
        spark.sql("DROP TABLE kinds")
    start(spark, APPENDS, place, 1).stop()


def test_a_write_keeps_the_metadata_table_and_its_indexes(
    spark: SparkSession, place: Place
) -> None:
    metadata = "hoodie.metadata."
    first = {
        f"{metadata}enable": "true",
        f"{metadata}index.column.stats.enable": "true",
        f"{metadata}global.record.level.index.enable": "true",
        f"{metadata}index.bloom.filter.enable": "true",
    }
    drain(start(spark, APPENDS, place, 1, extra=first), batches=1, deadline=300)
    kept = has(place)
    assert {"files", "column_stats", "record_index", "bloom_filters"} <= set(kept)
    drain(start(spark, APPENDS, place, 1, extra=first), batches=1, deadline=300)
    ledger = BatchLedger(spark, APPENDS, place, {"rows": 20, **SIZES, "first": 0})
    more = sensor_stream(spark, rows_per_batch=PER_BATCH, rows=40, **SIZES)
    stream = more.writeStream.foreachBatch(ledger.write_batch)
    query = stream.option("checkpointLocation", place.checkpoint).start()
    drain(query, batches=3, deadline=300)
    assert has(place) == kept


def has(place: Place) -> list[str]:
    file = Path(str(local_path(place.table)), ".hoodie", "hoodie.properties")
    properties = read_properties(file.read_text())
    return properties["hoodie.table.metadata.partitions"].split(",")


def test_file_groups_that_are_not_the_tables_own_are_refused_and_rewritten(
    spark: SparkSession, place: Place
) -> None:
    drain(start(spark, UPSERTS, place, 1), batches=1, deadline=300)
    spark.sql(f"CREATE TABLE foreign_groups USING hudi LOCATION '{place.table}'")
    try:
        spark.sql(
            "MERGE INTO foreign_groups t USING (SELECT CAST(900 AS BIGINT) AS reading_id, 12 AS "
            "sensor_id, CAST(1.5 AS DECIMAL(6,2)) AS temperature, TIMESTAMP '2026-01-01' AS "
            "measurement_time) s ON t.reading_id = s.reading_id AND t.sensor_id = s.sensor_id "
            "WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        spark.sql("DROP TABLE foreign_groups")
    with pytest.raises(TableError) as caught:
        start(spark, UPSERTS, place, 1)
    said = str(caught.value)
    assert said.startswith(f"1 file groups of {place.table} (")
    remedy = said.rpartition("start again: ")[2]
    assert remedy == (
        "from hudilab.repair import rewrite_buckets; rewrite_buckets(spark, spec, place)"
    )
    spec = UPSERTS
    exec(remedy, {"spark": spark, "spec": spec, "place": place})
    assert rewrite_buckets(spark, spec, place) == PER_BATCH + 1
    drain(start(spark, UPSERTS, place, 1), batches=1, deadline=300)
    table = spark.read.format("hudi").load(place.table)
    assert table.count() == PER_BATCH + 1
