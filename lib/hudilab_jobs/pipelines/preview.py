"""What a pipeline would store of a sample of its source; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hudi_sink.commits import Commits
from hudi_sink.schema_guard import SchemaGuard
from hudilab.errors import many
from hudilab.table import TableSpec
from hudilab_jobs.pipelines.running import Running

SHOWN = 5  # rows


def preview(pipeline: Running) -> Iterator[str]:
    """Yield what the source holds, its first rows as stored, and which rows could not be stored.

    Raises:
        LabError: The sample, the spec or the existing table does not fit.
    """
    spark, source, spec, location, _ = pipeline
    yield f"source: {source.describe()}"
    if (found := source.sample()) is None:
        yield f"nothing to show before the first {source.unit} is there; nothing was written"
        return
    name, rows = found
    guard = SchemaGuard(spark, spec, location.table, Commits(spark, location.table), fills=False)
    guard.check()
    guard.check_columns(rows, [])
    count = rows.count()
    yield f"sample: {many(count, 'row')} of {name}, stored as"
    yield rows._jdf.showString(SHOWN, 40, False).rstrip("\n")
    refused = (
        rows.groupBy(guard.problem(guard.layout()).alias("problem"))
        .count()
        .where("problem IS NOT NULL")
    )
    does = "set aside" if source.group.quarantine else "refused"
    for problem, times in sorted(tuple(row) for row in refused.collect()):
        yield f"{many(times, 'row')} of the sample would be {does}: {problem}"
    yield from _layout(rows, count, spec)
    yield f"a batch reads up to {source.batch()} of what is there"
    yield f"table: {location.table}; nothing was written"


def _layout(rows: DataFrame, count: int, spec: TableSpec) -> Iterator[str]:
    """Yield how the sample's rows would be spread over files, and about how large they are."""
    # Spark's cache is columnar and compressed, as Parquet is.
    size = int(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    keys, parts = rows.select(
        F.count_distinct(F.struct(*spec.record_key)),
        F.count_distinct(F.struct(*spec.partition)) if spec.partition else F.lit(1),
    ).first() or (0, 0)
    yield (
        f"the sample has {many(keys, 'key')} ({', '.join(spec.record_key)}) in "
        f"{many(parts, 'partition')}; {many(count, 'row')} take about {size / 1024:,.0f} kB"
    )
    groups = f"up to {many(spec.buckets, 'file')}" if spec.buckets else "at least one file"
    yield f"a batch writes {groups} in each partition that it has rows of"
