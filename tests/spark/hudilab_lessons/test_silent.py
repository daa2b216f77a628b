"""Rows of docs/silent.md that no lesson shows: SQL's INSERT, views, and a renamed column."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
BUCKETS = "'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.num.buckets' = '1'"


def write(rows: DataFrame, table: str, kind: str, **more: str) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.ordering.fields": "version",
        **more,
    }
    rows.write.format("hudi").options(**options).mode("append").save(table)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    ("properties", "merged"),
    [
        ("primaryKey = 'id'", ()),
        ("primaryKey = 'id', orderingFields = 'version'", ()),
        (f"primaryKey = 'id', orderingFields = 'version', {BUCKETS}", ("MERGE_ON_READ",)),
    ],
    ids=["key", "ordering", "buckets"],
)
def test_an_insert_of_a_stored_key(
    spark: SparkSession, tmp_path: Path, kind: str, properties: str, merged: tuple[str, ...]
) -> None:
    location = f"TBLPROPERTIES (type = '{kind}', {properties}) LOCATION 'file://{tmp_path}/t'"
    spark.sql("DROP TABLE IF EXISTS inserted")
    spark.sql(f"CREATE TABLE inserted (id INT, version INT) USING hudi {location}")
    for version in (1, 2):
        spark.sql(f"INSERT INTO inserted VALUES (1, {version})")
    versions = sorted(row.version for row in spark.table("inserted").collect())
    assert versions == ([2] if kind in merged else [1, 2])
    spark.sql("DROP TABLE inserted")


@pytest.mark.parametrize("kind", TYPES)
def test_a_refreshed_view_of_a_path_lacks_the_logs(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = f"file://{tmp_path}/t"
    views = {
        "of_sql": f"CREATE OR REPLACE TEMPORARY VIEW of_sql USING hudi OPTIONS (path '{table}')",
        "named": f"CREATE TABLE named USING hudi LOCATION '{table}'",
    }
    spark.sql("DROP TABLE IF EXISTS named")
    write(spark.sql("SELECT 1 AS id, 1 AS version"), table, kind)
    spark.read.format("hudi").load(table).createOrReplaceTempView("of_path")
    for statement in views.values():
        spark.sql(statement)
    names = ("of_path", *views)
    assert [spark.table(name).collect()[0].version for name in names] == [1, 1, 1]
    write(spark.sql("SELECT 1 AS id, 2 AS version"), table, kind)
    for name in names:
        spark.sql(f"REFRESH TABLE {name}")
    newest = {name: spark.table(name).collect()[0].version for name in names}
    stale = 1 if kind == "MERGE_ON_READ" else 2
    assert newest == {"of_path": stale, "of_sql": stale, "named": 2}
    spark.read.format("hudi").load(table).createOrReplaceTempView("of_path")
    spark.sql(views["of_sql"])
    assert [spark.table(name).collect()[0].version for name in names] == [2, 2, 2]
    spark.sql("DROP TABLE named")


@pytest.mark.parametrize("kind", TYPES)
def test_a_renamed_column_that_is_written_back_is_a_further_column(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = f"file://{tmp_path}/t"
    write(spark.sql("SELECT 1 AS id, 1 AS version, nullif(900, 0) AS duration"), table, kind)
    renamed = spark.read.format("hudi").load(table).withColumnRenamed("duration", "seconds")
    on_read = {
        "hoodie.datasource.write.reconcile.schema": "true",
        "hoodie.schema.on.read.enable": "true",
    }
    write(renamed, table, kind, **on_read)
    row = spark.read.format("hudi").load(table).drop("id", "version").first()
    assert row is not None
    values = {name: value for name, value in row.asDict().items() if not name.startswith("_")}
    assert values == {"duration": None, "seconds": 900}
