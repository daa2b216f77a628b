"""Upserts as TableSpec sets them: one row a key, the newest by its own time, for both indexes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import SparkSession

from hudilab.lessons.sources import readings_table
from hudilab.tables import TableSpec

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
    found = [(row["reading_id"], row["sensor_id"], str(row["temperature"])) for row in rows]
    return sorted(found, key=lambda row: (row[1], row[0]))


@pytest.mark.parametrize("buckets", [None, 2])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_newest_reading_of_a_key_stays(
    spark: SparkSession, tmp_path: Path, table_type: str, buckets: int | None
) -> None:
    spec = readings_table(table_type=table_type, operation="upsert", buckets=buckets)
    table = tmp_path / "readings"
    first = [(1, 10, "1.00", 5), (2, 10, "2.00", 5), (3, 11, "3.00", 5)]
    write(spark, spec, table, [*first, (1, 10, "1.50", 7), (1, 10, "1.25", 6)])  # thrice in a batch
    assert read(spark, table) == [(1, 10, "1.50"), (2, 10, "2.00"), (3, 11, "3.00")]
    newer, late = (2, 10, "2.50", 9), (3, 11, "0.00", 1)
    write(spark, spec, table, [newer, late, (4, 11, "4.00", 5)])
    assert read(spark, table) == [
        (1, 10, "1.50"),
        (2, 10, "2.50"),
        (3, 11, "3.00"),
        (4, 11, "4.00"),
    ]
    assert read_elsewhere(table) == read(spark, table)
    if buckets:
        groups = {path.name.split("-")[0] for path in table.glob("sensor_id=*/*.parquet")}
        assert groups <= {"00000000", "00000001"}
