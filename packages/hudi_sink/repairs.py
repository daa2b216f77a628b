"""Repair or prevent the results of bugs in Hudi 1.2: empty indexes, files outside the buckets."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from hudi_sink.commits import Commits
from hudi_sink.metadata import first_options
from hudi_sink.rows import newest_rows
from hudi_sink.schema import without_meta
from hudi_sink.table_files import table_index_options, table_properties
from hudilab.errors import TableError
from hudilab.paths import TableLocation
from hudilab.table import ENCODED, TableSpec


def rewrite_table(spark: SparkSession, spec: TableSpec, location: TableLocation) -> int:
    """Rewrite all rows of a table with its own index and keys; return their number.

    Use it if SQL or clustering wrote to a bucketed table without the bucket index, so that every
    upsert fails, or if keys contain a TIMESTAMP as text. An upserted table keeps the newest row of
    each key. Stop the table's streams first. A single commit replaces all files, and time travel to
    earlier commits still works. Source: Hudi 1.2 `insert_overwrite_table`.
    """
    Commits(spark, location.table).await_clock()
    table = spark.read.format("hudi").load(location.table)
    rows = table.select(*without_meta(table.columns))
    if spec.operation == "upsert":
        rows = newest_rows(rows, spec, by_arrival=False)
    operation = {"hoodie.datasource.write.operation": "insert_overwrite_table"}
    properties = table_properties(spark, location.table)
    options = first_options(location.table) | spec.write_options()
    options |= spec.options_for(dict(rows.dtypes)) | operation
    options |= table_index_options(spark, location.table, properties)
    options |= {ENCODED: properties.get(ENCODED, "false")}
    rows.write.format("hudi").options(**options).mode("append").save(location.table)
    return spark.read.format("hudi").load(location.table).count()


def check_can_index(spark: SparkSession, table: str) -> None:
    """Raise TableError if a CREATE INDEX now would create an empty index.

    In Hudi 1.2, the second CREATE INDEX without a commit in between can create an empty index.
    Queries that use it return no rows and no error.
    """
    meta = Commits(spark, table).await_clock()
    if meta is None:
        return
    newest = meta.getActiveTimeline().filterCompletedInstants().lastInstant()
    if newest.isPresent() and str(newest.get().getAction()) == "indexing":
        raise TableError(
            f"{table} has had no commit since its last CREATE INDEX: Hudi 1.2 would leave the "
            "next index without entries, and queries on it would return no rows",
            "write a batch, then run CREATE INDEX",
        )


def foreign_groups(groups: Iterable[str], buckets: int) -> list[str]:
    """Return the file groups outside the table's buckets, which another writer created."""
    return sorted(name for name in groups if not (name[:8].isdecimal() and int(name[:8]) < buckets))
