"""Engines without Spark: right through hudi-rs, wrong through a glob, for both table types."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import SparkSession

ROWS, UPDATED = 60, 20
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
QUERY = "SELECT count(*), count(DISTINCT id), sum(value) FROM {}"


@pytest.fixture(scope="module", params=TYPES)
def table(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any]:
    """A table with updates and a delete, and what Spark returns for QUERY."""
    path = str(tmp_path_factory.mktemp("engines") / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": request.param,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.table.ordering.fields": "version",
    }
    rows = (
        "SELECT id, id % 3 AS part, {0} AS version, id * {0} AS value, {1} AS {2} FROM range({3})"
    )
    for version, deleted, number in ((1, "false", ROWS), (2, "false", UPDATED), (3, "true", 1)):
        batch = spark.sql(rows.format(version, deleted, "_hoodie_is_deleted", number))
        batch.write.format("hudi").options(**options).mode("append").save(f"file://{path}")
    spark.read.format("hudi").load(f"file://{path}").createOrReplaceTempView("engines")
    right = tuple(spark.sql(QUERY.format("engines")).collect()[0])
    assert right[:2] == (ROWS - 1, ROWS - 1)
    return path, right


def of_hudi_rs(path: str) -> pa.Table:
    return pa.Table.from_batches(HudiTableBuilder.from_base_uri(path).build().read())


def test_hudi_rs_is_right_also_in_duckdb(table: tuple[str, Any]) -> None:
    path, right = table
    rows = of_hudi_rs(path)  # DuckDB finds it by this name
    assert len(rows) == right[0]
    assert duckdb.execute(QUERY.format("rows")).fetchone() == right


def test_a_glob_is_wrong_after_an_update(table: tuple[str, Any]) -> None:
    path, right = table
    read = f"read_parquet('{path}/**/*.parquet', hive_partitioning = false)"
    assert duckdb.execute(QUERY.format(read)).fetchone() != right
