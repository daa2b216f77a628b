"""Move the rows that a table cannot store to a quarantine table, exactly once, with the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.commits import Commits
from hudi_sink.jvm import cached
from hudi_sink.metadata import closing_options, first_options
from hudi_sink.rows import REFUSED
from hudi_sink.rules import BatchMetadata
from hudi_sink.service_schedule import service_options
from hudi_sink.table_files import table_index_options, table_properties
from hudilab.errors import TableError, many
from hudilab.paths import TableLocation
from hudilab.table import TableSpec

DELETE = {"hoodie.datasource.write.operation": "delete"}
REASON = "_hudilab_reason"
OWN = (REASON, REFUSED)
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": f"{_TIME}XXXXX",
    "timestampNTZFormat": _TIME,
}
_log = logging.getLogger("hudi_sink")


class Quarantine:
    """A second Hudi table, for the rows that a stream's table cannot store.

    Columns: query_id STRING, batch BIGINT, number BIGINT (within the batch), reason STRING, row
    STRING (the whole row as JSON, or the source's text in the column `REFUSED`).

    The quarantine gets a batch's rows before the stream's table does, and a repeated batch isn't
    written twice. If a rewind removed batches from the stream's table, their quarantined rows are
    deleted before the stream writes them again.

    Args:
        sharing: The `sharing_options` of a shared table.

    Raises:
        TableError: Another table is at this path.
    """

    def __init__(
        self, spark: SparkSession, location: TableLocation, sharing: Mapping[str, str]
    ) -> None:
        self.table, self._sharing = location.quarantine, sharing
        self._spec = TableSpec(
            f"{location.name}_quarantine",
            ("query_id", "batch", "number"),
            (),
            "batch",
            tuned=True,
        )
        self._commits = Commits(spark, self.table)
        self._options = closing_options(self.table) | first_options(self.table)
        self._options |= self._spec.write_options() | dict(sharing)
        self._newest: BatchMetadata | None = None
        self._known = False  # whether `_newest` is up to date
        self._cached: DataFrame | None = None
        self._commits.check_access(write=True)
        if not self._commits.is_there():
            return
        if differences := self._spec.conflicts(table_properties(spark, self.table)):
            raise TableError(
                f"the quarantine of {location.table} belongs at {self.table}, which contains "
                f"another table: {'; '.join(differences)}",
                "move that table, or give the stream's table another name",
            )

    def take_over(self) -> None:
        """Roll back an earlier driver's unfinished writes, so that it can no longer commit."""
        if not self._sharing:
            self._commits.clear_half_made()
        self._commits.roll_back_unfinished(self._options, wait=bool(self._sharing))
        self._known = False

    def put(
        self,
        batch: DataFrame,
        problem: Column,
        metadata: BatchMetadata,
        fenced: Callable[[DataFrame], DataFrame],
    ) -> tuple[DataFrame, int]:
        """Quarantine the rows with a problem; return the other rows and the number quarantined.

        The batch stays in Spark's cache until `release`, so both tables get the rows of one read.
        """
        if self._cached is None:
            if REFUSED in batch.columns:
                problem = F.coalesce(F.col(f"{REFUSED}.reason"), problem)
            self._cached = cached(batch.withColumn(REASON, problem))
        bad = self._cached.where(F.col(REASON).isNotNull())
        count = bad.count()
        self._put(bad, count, metadata, fenced)
        return self._cached.where(F.col(REASON).isNull()).drop(*OWN), count

    def release(self) -> None:
        """Remove the batch from Spark's cache."""
        if self._cached is not None:
            self._cached.unpersist()
            self._cached = None

    def _put(
        self,
        bad: DataFrame,
        count: int,
        metadata: BatchMetadata,
        fenced: Callable[[DataFrame], DataFrame],
    ) -> None:
        if not self._known:
            noted = (commit.metadata for commit in self._commits.newest_first() if commit.metadata)
            self._newest = next((batch for batch in noted if batch.query == metadata.query), None)
        self._known = False  # until everything is written
        if self._newest == metadata:
            count = 0
        elif self._newest is not None and self._newest.batch >= metadata.batch:
            # The fence is a view of the query's session.
            rows = bad.sparkSession.read.format("hudi").load(self.table)
            rows = rows.where(
                (F.col("query_id") == metadata.query) & (F.col("batch") >= metadata.batch)
            )
            rows = rows.select("query_id", "batch", "number", "reason", "row")
            self._newest = metadata._replace(batch=metadata.batch - 1, offsets_digest="")
            self._write(fenced(rows), self._newest, DELETE)
        if count:
            row = as_json(F.struct(*(F.col(name) for name in bad.columns if name not in OWN)))
            if REFUSED in bad.columns:
                row = F.coalesce(as_json(F.col(f"{REFUSED}.row")), row)
            rows = bad.select(
                F.lit(metadata.query).alias("query_id"),
                F.lit(metadata.batch).cast("bigint").alias("batch"),
                F.monotonically_increasing_id().alias("number"),
                F.col(REASON).alias("reason"),
                row.alias("row"),
            )
            services = service_options(self._spec, self.table, metadata.batch)
            self._write(fenced(rows), metadata, {} if self._sharing else services)
            self._newest = metadata
            _log.warning(
                f"batch {metadata.batch}: {many(count, 'row')} quarantined in {self.table}"
            )
        self._known = True

    def _write(self, rows: DataFrame, metadata: BatchMetadata, options: Mapping[str, str]) -> None:
        self._commits.await_clock()
        options = self._options | metadata.options() | dict(options)
        if properties := self._commits.properties():
            options |= table_index_options(rows.sparkSession, self.table, properties)
        writer = rows.write.format("hudi").options(**options)
        writer.mode("append").save(self.table)


def as_json(row: Column) -> Column:
    """Return a struct as JSON that preserves each value.

    Times have microseconds, which Spark's default cuts, and their zone. Binary is Base64, and NaN
    and the infinities are texts.
    """
    return F.to_json(row, _EXACT)
