"""Repair a table after bugs of Hudi 1.2: files outside the buckets, times in keys as text."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from hudi_sink.commits import Commits
from hudi_sink.metadata import first_options
from hudi_sink.rows import newest_rows
from hudi_sink.schema import without_meta
from hudi_sink.table_files import table_index_options, table_properties
from hudilab.paths import TableLocation
from hudilab.table import ENCODED, METADATA, TableSpec


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
    adds = options.get(METADATA) == "true"
    options |= table_index_options(spark, location.table, properties, adds=adds)
    options |= {ENCODED: properties.get(ENCODED, "false")}
    rows.write.format("hudi").options(**options).mode("append").save(location.table)
    return spark.read.format("hudi").load(location.table).count()


def foreign_groups(groups: Iterable[str], buckets: int) -> list[str]:
    """Return the file groups outside the table's buckets, which another writer created."""
    return sorted(name for name in groups if not (name[:8].isdecimal() and int(name[:8]) < buckets))
