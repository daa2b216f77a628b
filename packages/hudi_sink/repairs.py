"""Guard a table against faults of Hudi 1.2: empty indexes, buckets of another index."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from hudi_sink.commits import Commits
from hudi_sink.rows import newest_rows
from hudi_sink.schema import without_meta
from hudi_sink.table_files import table_properties
from hudilab.errors import TableError
from hudilab.paths import TableLocation
from hudilab.table import ENCODED, TableSpec


def rewrite_table(spark: SparkSession, spec: TableSpec, location: TableLocation) -> int:
    """Rewrite all rows of a table with its own index and keys; return their number.

    For a bucketed table that SQL wrote to, or that was clustered, without the bucket index: reads
    stay right, but every upsert fails. Also for a table whose keys contain a TIMESTAMP as text; of
    duplicate rows of an upsert, the newest stays. Stop its streams first. One commit replaces all
    files, so readers see either the old ones or the new ones; time travel reaches as far back as
    before. Source: Hudi 1.2 `insert_overwrite_table`.
    """
    Commits(spark, location.table).await_clock()
    table = spark.read.format("hudi").load(location.table)
    rows = table.select(*without_meta(table.columns))
    if spec.operation == "upsert":
        rows = newest_rows(rows, spec, by_arrival=False)
    operation = {"hoodie.datasource.write.operation": "insert_overwrite_table"}
    encoded = table_properties(spark, location.table).get(ENCODED, "false")
    options = spec.write_options() | spec.options_for(dict(rows.dtypes)) | operation
    options |= {ENCODED: encoded}
    rows.write.format("hudi").options(**options).mode("append").save(location.table)
    return spark.read.format("hudi").load(location.table).count()


def check_can_index(spark: SparkSession, table: str) -> None:
    """Raise TableError if a CREATE INDEX would make an index that gives wrong answers now.

    In Hudi 1.2, an index that is created with no commit since the last CREATE INDEX can be empty,
    and stays so: queries that use it return no rows, without an error.
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
    """Return file groups whose names aren't a bucket of the table, so another writer made them."""
    return sorted(name for name in groups if not (name[:8].isdecimal() and int(name[:8]) < buckets))
