"""What a pipeline would store of its newest file; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hudilab.formats import many
from hudilab.jobs.pipeline.source import Source
from hudilab.paths import Place
from hudilab.writer.commits import Commits
from hudilab.writer.fit import TableFit
from hudilab.writer.spec import TableSpec

__all__ = ["preview"]

SHOWN = 5  # rows


def preview(spark: SparkSession, source: Source, spec: TableSpec, place: Place) -> Iterator[str]:
    """Yield what the source holds, its first rows as stored, and which rows could not be stored.

    Raises:
        LabError: The newest file, the spec or the existing table does not fit.
    """
    files, size = source.files, sum(one.size for one in source.files)
    yield f"source: {many(len(files), 'file')}, {size:,} bytes, in {source.path}"
    if not files:
        yield "nothing to show before the first file is there; nothing was written"
        return
    rows = source.sample()
    fit = TableFit(spark, spec, place.table, Commits(spark, place.table), fills=False)
    fit.check()
    fit.follow([])
    fit.check_columns(rows, [])
    yield f"sample: {many(rows.count(), 'row')} of {files[-1].path}, stored as"
    yield rows._jdf.showString(SHOWN, 40, False).rstrip("\n")
    refused = rows.groupBy(fit.problem().alias("problem")).count().where("problem IS NOT NULL")
    does = "set aside" if source.group.quarantine == "true" else "refused"
    for problem, count in sorted(tuple(row) for row in refused.collect()):
        yield f"{many(count, 'row')} of the sample would be {does}: {problem}"
    keys = rows.select(*(F.col(name) for name in spec.record_key)).distinct().count()
    yield f"the sample has {many(keys, 'key')} ({', '.join(spec.record_key)})"
    per_batch = min(len(files), int(source.group.files_per_batch))
    yield f"a batch reads up to {many(per_batch, 'file')} of those that are there"
    yield f"table: {place.table}; nothing was written"
