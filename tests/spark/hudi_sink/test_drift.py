"""A stream's columns change: what the ledger takes, what it refuses, and what Hudi would do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from running import assert_rows, start_stream

from hudi_sink.commits import Commits
from hudi_sink.schema import check_drift
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError, TableError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_spark.streams import drain

SIZES = {"sensors": 2, "seed": 5}
PER_BATCH = 20
LOGS = {"operation": "upsert", "buckets": 1, "table_type": "MERGE_ON_READ"}
Change = Callable[[DataFrame, int], DataFrame]


def write(
    rows: DataFrame, spec: TableSpec, location: TableLocation, extra: dict[str, str] | None = None
) -> None:
    options = spec.write_options(extra)
    rows.write.format("hudi").options(**options).mode("append").save(location.table)


def read(spark: SparkSession, location: TableLocation) -> DataFrame:
    return spark.read.format("hudi").load(location.table)


def with_level(rows: DataFrame) -> DataFrame:
    return rows.withColumn("level", F.expr("CAST(reading_id AS INT)"))


def stream(
    spark: SparkSession, spec: TableSpec, location: TableLocation, change: Change, batches: int
) -> None:
    rows = with_level(sensor_stream(spark, rows_per_batch=PER_BATCH, rows=80, **SIZES))
    sink = ExactlyOnceSink(spark, spec, location, SIZES)

    def write_batch(batch: DataFrame, number: int) -> None:
        # `drain` stops the stream, which may have begun the next batch by then.
        assert number < batches, "the next stream writes this batch"
        sink.write_batch(change(batch, number), number)

    drain(start_stream(rows, write_batch, location), batches=batches, deadline=300)


def refused(spark: SparkSession, spec: TableSpec, location: TableLocation, change: Change) -> str:
    """What the stream says; its table must not change."""
    before = Commits(spark, location.table).unfinished(), Commits(spark, location.table).count()
    with pytest.raises(StreamError) as caught:
        stream(spark, spec, location, change, 4)
    assert (
        Commits(spark, location.table).unfinished(),
        Commits(spark, location.table).count(),
    ) == before
    return str(caught.value)


@pytest.mark.parametrize(
    "fields", [{}, pytest.param(LOGS, marks=pytest.mark.deep)], ids=["appends", "logs"]
)
def test_drift_is_refused_until_it_is_corrected_and_nothing_is_lost(
    spark: SparkSession, location: TableLocation, fields: dict[str, Any]
) -> None:
    spec = readings_table(**fields)
    stream(spark, spec, location, lambda batch, _: batch, 2)
    before = read(spark, location).count()
    for column, difference in (
        (F.col("level").cast("string"), "column level is int in the table and string in the batch"),
        (F.array("level"), "column level is int in the table and array<int> in the batch"),
    ):

        def changed(batch: DataFrame, _: int, column: Column = column) -> DataFrame:
            return batch.withColumn("level", column)

        text = refused(spark, spec, location, changed)
        assert f'{location.table} rejects the batch (schema="evolve"), nothing was' in text
        assert difference in text
    assert "column level (int) is missing" in refused(
        spark, spec, location, lambda batch, _: batch.drop("level")
    )
    assert "column unit (string) is new and NOT NULL" in refused(
        spark, spec, location, lambda batch, _: batch.withColumn("unit", F.lit("C"))
    )
    unit = F.when(F.lit(True), F.lit("C"))
    stream(spark, spec, location, lambda batch, _: batch.withColumn("unit", unit), 4)
    expected = with_level(sensor_readings(spark, 4 * PER_BATCH, **SIZES))
    assert read(spark, location).where("unit IS NULL").count() == before < 4 * PER_BATCH
    assert_rows(spark, location, expected)


def test_policies(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, schema = list[Commits](), Commits.schema

    def counted(commits: Commits) -> str:
        reads.append(commits)
        return schema(commits)

    monkeypatch.setattr(Commits, "schema", counted)
    wider: Change = lambda batch, n: batch.withColumn("level", F.col("level").cast("bigint"))  # noqa: E731
    stream(spark, readings_table(schema="freeze"), location, lambda batch, _: batch, 2)
    assert len(reads) == 1  # for two batches with the same columns
    text_of_refusal = refused(spark, readings_table(schema="freeze"), location, wider)
    assert (
        "column level is int in the table and bigint in the batch; convert the values exactly, "
        in text_of_refusal
    )
    stream(spark, readings_table(), location, wider, 3)
    text: Change = lambda batch, n: batch.withColumn("level", F.col("level").cast("string"))  # noqa: E731
    before = len(reads)
    stream(spark, readings_table(schema="any"), location, text, 4)
    assert len(reads) == before + 1  # no type of a key or a partition may change
    assert dict(read(spark, location).dtypes)["level"] == "string"  # also of the old rows


def test_a_column_that_somebody_adds_meanwhile_is_seen(
    spark: SparkSession, location: TableLocation
) -> None:
    def change(batch: DataFrame, number: int) -> DataFrame:
        if number == 2:
            other = with_level(sensor_readings(spark, 101, first=100, **SIZES))
            write(
                other.withColumn("unit", F.when(F.lit(True), F.lit("C"))),
                readings_table(),
                location,
            )
        return batch

    with pytest.raises(StreamError) as caught:
        stream(spark, readings_table(), location, change, 4)
    assert str(caught.value).startswith("the stream ended after 2 of 4 batches: ")
    assert "column unit (string) is missing" in str(caught.value)
    assert read(spark, location).count() == 2 * PER_BATCH + 1


ROW = "1L AS reading_id, 10 AS sensor_id, TIMESTAMP '2026-01-01' AS measurement_time"
# Column -> its value in the table and in the next batch. What is taken has to be read unchanged; of
# what is refused, the third value is what is read if Hudi alone decides.
DRIFT = json.loads(Path(__file__).with_name("drift.json").read_text("utf-8"))
TAKEN, DAMAGED = DRIFT["taken"], DRIFT["damaged"]


def two_batches(spark: SparkSession, columns: dict[str, Any]) -> tuple[DataFrame, DataFrame]:
    def row(which: int) -> DataFrame:
        # Nullable, as the columns of a stream are.
        columns_of_batch = (
            f"IF(rand() < 2, {two[which]}, NULL) AS {name}" for name, two in columns.items()
        )
        return spark.sql(f"SELECT {ROW.replace('1L', f'{which}L')}, {', '.join(columns_of_batch)}")

    return row(0), row(1)


def stored(
    spark: SparkSession, location: TableLocation, columns: dict[str, Any]
) -> list[list[str]]:
    rows = read(spark, location).orderBy("reading_id").select(*columns).collect()
    return [[str(row[name]) for row in rows] for name in columns]


@pytest.mark.parametrize("fields", [{}, LOGS], ids=["appends", "logs"])
def test_hudi_keeps_the_values_of_changes_that_are_taken(
    spark: SparkSession, location: TableLocation, fields: dict[str, Any]
) -> None:
    first, second = two_batches(spark, TAKEN)
    check_drift(location.table, first.schema.json(), second.schema.json(), "evolve")
    given = [frame.collect()[0] for frame in (first, second)]
    values = {name: [row[name] for row in given] for name in TAKEN}
    for frame in (first, second):
        write(frame, readings_table(partition=(), **fields), location)
    rows = read(spark, location).orderBy("reading_id").collect()
    for name in set(TAKEN) - {"into_text", "into_decimal", "parts"}:
        assert [row[name] for row in rows] == values[name], name
    assert [row.into_text for row in rows] == ["a", "7"]
    assert [str(row.into_decimal) for row in rows] == ["1.25", "2147483647.00"]
    assert [tuple(row.parts) for row in rows] == [(1, None), (2, "new")]
    # What the commit says of the columns is what a reader gets.
    check_drift(
        "", Commits(spark, location.table).schema(), read(spark, location).schema.json(), "freeze"
    )


@pytest.fixture
def vectorized(spark: SparkSession) -> Iterator[None]:
    """Spark's default; a read of a MERGE_ON_READ table switches it off for the whole session."""
    name = "spark.sql.parquet.enableVectorizedReader"
    before = spark.conf.get(name, "true")
    spark.conf.set(name, "true")
    yield
    spark.conf.set(name, str(before))


@pytest.mark.usefixtures("vectorized")
def test_hudi_changes_the_values_of_changes_that_are_refused(
    spark: SparkSession, location: TableLocation
) -> None:
    """Why the policy is stricter than Hudi; when this fails, think again."""
    first, second = two_batches(spark, DAMAGED)
    with pytest.raises(TableError) as caught:
        check_drift(location.table, first.schema.json(), second.schema.json(), "evolve")
    assert all(f"column {name} is " in str(caught.value) for name in DAMAGED)
    for rows in (first, second):
        write(rows, readings_table(partition=()), location)
    assert stored(spark, location, DAMAGED) == [read_as for _, _, read_as in DAMAGED.values()]


@pytest.mark.usefixtures("vectorized")
def test_a_wider_type_inside_an_array_makes_a_table_unreadable(
    spark: SparkSession, location: TableLocation
) -> None:
    """Why the policy refuses it; when this fails, think again."""
    first, second = two_batches(spark, {"items": ("array(1)", "array(5000000000L)")})
    with pytest.raises(
        TableError, match="column items is int in the table and bigint in the batch"
    ):
        check_drift(location.table, first.schema.json(), second.schema.json(), "evolve")
    for rows in (first, second):
        write(rows, readings_table(partition=()), location)
    with pytest.raises(Exception, match="cannot be read in vectorized mode"):
        read(spark, location).collect()
